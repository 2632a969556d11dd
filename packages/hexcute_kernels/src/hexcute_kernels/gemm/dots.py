"""c = a b^T where b has a handful of rows, of any length: dot products, no Tensor Core.

    c[i, j] = sum over threads t of (sum over k of thread t: a[i, k] b[j, k])

Threads lie along k, each with the same k of a few rows of a: its addresses differ by constants. The
time is that of reading a. The SPLITS blocks of a cluster take a part of K each.
"""

from __future__ import annotations

from functools import cache

import hexcute_core as hx
from hexcute_core import f32
from hexcute_kernels.gemm.parameters import batch, m, n, types
from hexcute_kernels.parts.epilogue import ACTIVATIONS, finished
from hexcute_kernels.parts.operands import k_tiles, matrix
from hexcute_kernels.parts.schedule import await_launch_ahead, split_batch
from hexcute_kernels.parts.split import part_of, summed

THREADS = 256


@cache
def dots(
    dtype: hx.DType,
    *,
    run: int = 1,
    turned: bool = False,
    bias: bool = False,
    activation: str | None = None,
    batched: bool = False,
) -> hx.Kernel:
    """The kernel for `a[m, k]` and `b[n, k]` of `dtype`, n at most FEW and k a multiple of `run`;
    `turned`, the result is c^T, c[n, m]. A bias goes along the result's last index. `batched`, all
    but the bias have an extent of the batch in front.

    Its constants are those of `DotsConfig`.
    """
    k = hx.dim("k", multiple_of=run)
    given = types(dtype, dtype, "k", "k", bias, batched, turned, depth=k)
    activate, along = ACTIVATIONS[activation], 0 if turned else 1

    @hx.kernel
    def gemm(
        a: given.a,
        b: given.b,
        bias: given.bias,
        c: given.c,
        *,
        ROWS: int = 8,
        FEW: int = 1,
        DEPTH: int = 512,
        SPLITS: int = 1,
        EARLY: bool = False,
    ):
        tiles = hx.cdiv(m, ROWS)
        hx.attrs.cuda.block_dim = THREADS
        hx.attrs.cuda.cluster_dim = SPLITS
        hx.attrs.cuda.grid_dim = SPLITS * (tiles * batch if batched else tiles)
        at, tile = split_batch(hx.blockIdx.x // SPLITS, tiles, batched)
        row = tile * ROWS
        first, count = part_of(hx.cdiv(k, DEPTH), SPLITS)
        ga = k_tiles(matrix(a, at), "k", row, ROWS, DEPTH)
        gb = k_tiles(matrix(b, at), "k", 0, FEW, DEPTH)
        ra, rb = hx.register_tensor(dtype, (ROWS, DEPTH)), hx.register_tensor(dtype, (FEW, DEPTH))
        parts = hx.register_tensor(f32, (ROWS, DEPTH, FEW))
        sums = hx.shared_tensor(f32, (ROWS, FEW))
        hx.fill(parts, 0.0)
        if EARLY:
            await_launch_ahead()

        for i in range(count):
            hx.copy(ga[:, :, first + i], ra)
            hx.copy(gb[:, :, first + i], rb)
            for j in hx.static_range(FEW):
                parts[:, :, j] += hx.cast(ra, f32) * hx.cast(rb[j : j + 1, :], f32)

        for j in hx.static_range(FEW):
            hx.copy(hx.sum(parts[:, :, j], 1), sums[:, j : j + 1])
        total, start = summed(sums, SPLITS)
        result = matrix(c, at)
        steps = (1, m) if turned else (n, 1)
        done = finished(total, bias, row + start if turned else 0, activate, along)
        place = result[0:, row + start :] if turned else result[row + start :, 0:]
        hx.copy(hx.cast(done, dtype), hx.global_view(place, (total.shape, steps)))

    return gemm
