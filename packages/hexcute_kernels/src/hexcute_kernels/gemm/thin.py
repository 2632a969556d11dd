"""c = a b^T on Hopper where b has few rows, as a layer's tokens: the time is that of reading a.

    c[i, j] = sum over s of (sum over k of part s: a[i, k] b[j, k])

The SPLITS blocks of a cluster take a part of K each for the same tile of c, so that all
multiprocessors read even where c has few tiles. Each has columns of the tile for its own: the sums
of the others' it sends to their memory, and to its own it adds what comes, in the blocks' order.
One launch, the same bits always.
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
from hexcute_kernels.parts.split import exchanged, owners, part_of


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
    activate = ACTIVATIONS[activation]

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
        FLAT: bool = False,
    ):
        rows, columns = hx.cdiv(m, BM), hx.cdiv(n, BN)
        hx.attrs.cuda.block_dim = 128 * (CONSUMERS + 1)
        hx.attrs.cuda.cluster_dim = SPLITS
        each = rows * columns
        hx.attrs.cuda.grid_dim = SPLITS * (each * c.shape[0] if batched else each)
        at, tile = split_batch(hx.blockIdx.x // SPLITS, each, batched)
        bm, bn = tile // columns * BM, tile % columns * BN
        first, count = part_of(hx.cdiv(k, BK), SPLITS)
        adding, rank = owners(BN, SPLITS), hx.cluster_rank()
        width = BN // adding
        sa = hx.shared_tensor(dtype, (BM, BK, STAGES))
        sb = hx.shared_tensor(dtype, (BN, BK, STAGES))
        sc = hx.shared_tensor(dtype, (width, BM) if turned else (BM, width))
        pipe = hx.pipeline(STAGES, readers="one")
        if SPLITS > 1:
            received = hx.shared_tensor(f32, (BM, width, SPLITS - 1))
            arrived = hx.mbarrier(SPLITS - 1)
            hx.cluster_arrive()
        # What is read once leaves L2 first.
        once, often = "evict_first", "evict_last"
        if FLAT:
            once, often = often, once
        if EARLY:
            await_launch_ahead()

        with hx.warp_groups_producer():
            ga = k_tiles(matrix(a, at), a_major, bm, BM, BK)
            gb = k_tiles(matrix(b, at), b_major, bn, BN, BK)
            for i in range(count):
                with pipe.produce() as s:
                    hx.copy(ga[:, :, first + i], sa[:, :, s], hint=once)
                    hx.copy(gb[:, :, first + i], sb[:, :, s], hint=often)

        with hx.warp_groups_consumer(CONSUMERS):
            rc = hx.register_tensor(f32, (BM, BN))
            hx.fill(rc, 0)
            multiply_slots(rc, sa, sb, pipe, count)
            hx.wait_gemm(0)
            if SPLITS > 1:
                hx.cluster_wait()
                rc = exchanged(rc, received, arrived, adding, rank, 128)
            if rank < adding:
                row, column = bm, bn + rank * width
                along = (row, 0) if turned else (column, 1)
                done = hx.cast(finished(rc, bias, along[0], activate, along[1]), dtype)
                hx.copy(hx.transpose(done) if turned else done, sc)
                hx.sync_role()
                out = hx.register_tensor(dtype, sc.shape)
                hx.copy(sc, out)
                result = matrix(c, at)
                place = result[column:, row:] if turned else result[row:, column:]
                hx.copy(out, hx.global_view(place, (sc.shape, (c.shape[-1], 1))))

    return gemm
