"""c = a b^T on Hopper where b has few rows, as a layer's tokens: the time is that of reading a.

    c[i, j] = sum over s of (sum over k of part s: a[i, k] b[j, k])

The SPLITS blocks of a cluster take a part of K each for the same tile of c, so that all
multiprocessors read even where c has few tiles. Each leaves its sums in shared memory; then each
adds up a strip of the tile, the parts in their order, and writes it: one launch, the same bits
always.
"""

from __future__ import annotations

from functools import cache

import hexcute_core as hx
from hexcute_core import f32
from hexcute_kernels.gemm.parameters import k, m, n, types
from hexcute_kernels.parts.epilogue import ACTIVATIONS, finished
from hexcute_kernels.parts.mainloop import multiply_slots
from hexcute_kernels.parts.operands import k_tiles, matrix
from hexcute_kernels.parts.schedule import await_launch_ahead, split_batch
from hexcute_kernels.parts.split import part_of, summed


@cache
def thin_gemm(
    dtype: hx.DType,
    a_major: str = "k",
    b_major: str = "k",
    *,
    turned: bool = False,
    bias: bool = False,
    activation: str | None = None,
    batched: bool = False,
) -> hx.Kernel:
    """The kernel for operands of `dtype` in these orders (`a[m, k]` or `a[k, m]`, `b[n, k]` or
    `b[k, n]`); `turned`, the result is c^T, c[n, m]. A bias goes along the result's last index.
    `batched`, all but the bias have an extent of the batch in front.

    Its constants are those of `ThinConfig`.
    """
    given = types(dtype, dtype, a_major, b_major, bias, batched, turned)
    activate, along = ACTIVATIONS[activation], 0 if turned else 1

    @hx.kernel
    def gemm(
        a: given.a,
        b: given.b,
        bias: given.bias,
        c: given.c,
        *,
        BM: int = 128,
        BN: int = 32,
        BK: int = 64,
        STAGES: int = 8,
        CONSUMERS: int = 2,
        SPLITS: int = 1,
        EARLY: bool = False,
    ):
        rows, columns = hx.cdiv(m, BM), hx.cdiv(n, BN)
        hx.attrs.cuda.block_dim = 128 * (CONSUMERS + 1)
        hx.attrs.cuda.cluster_dim = SPLITS
        each = rows * columns
        hx.attrs.cuda.grid_dim = SPLITS * (each * c.shape[0] if batched else each)
        at, tile = split_batch(hx.blockIdx.x // SPLITS, each, batched)
        bm, bn = tile // columns * BM, tile % columns * BN
        first, count = part_of(hx.cdiv(k, BK), SPLITS)
        sa = hx.shared_tensor(dtype, (BM, BK, STAGES))
        sb = hx.shared_tensor(dtype, (BN, BK, STAGES))
        sums = hx.shared_tensor(f32, (BM, BN))
        pipe = hx.pipeline(STAGES, readers="one")
        if EARLY:
            await_launch_ahead()

        with hx.warp_groups_producer():
            ga = k_tiles(matrix(a, at), a_major, bm, BM, BK)
            gb = k_tiles(matrix(b, at), b_major, bn, BN, BK)
            for i in range(count):
                with pipe.produce() as s:
                    hx.copy(ga[:, :, first + i], sa[:, :, s], hint="evict_first")
                    hx.copy(gb[:, :, first + i], sb[:, :, s], hint="evict_last")

        with hx.warp_groups_consumer(CONSUMERS):
            rc = hx.register_tensor(f32, (BM, BN))
            hx.fill(rc, 0)
            multiply_slots(rc, sa, sb, pipe, count)
            hx.wait_gemm(0)
            hx.copy(rc, sums)

        total, start = summed(sums, SPLITS)
        result = matrix(c, at)
        row, steps = bm + start, (1, m) if turned else (n, 1)
        done = finished(total, bias, row if turned else bn, activate, along)
        place = result[bn:, row:] if turned else result[row:, bn:]
        hx.copy(hx.cast(done, dtype), hx.global_view(place, (total.shape, steps)))

    return gemm
