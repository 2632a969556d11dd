"""c = a b^T for rows of any length and alignment: registers carry each tile on its way.

    global memory -> registers    element by element where rows demand it, all of a tile's at once,
                                  while the tile before is multiplied
    registers -> shared memory -> ldmatrix -> mma.sync

Loads that wide are slower a byte than TMA's, but nothing has to be copied first: that pays where an
operand is small, or is read once. The SPLITS blocks of a cluster take a part of K each.
"""

from __future__ import annotations

from functools import cache

import hexcute_core as hx
from hexcute_core import f32
from hexcute_kernels.gemm.parameters import batch, m, n, types
from hexcute_kernels.parts.epilogue import ACTIVATIONS, finished, through_shared
from hexcute_kernels.parts.operands import k_tiles, matrix
from hexcute_kernels.parts.schedule import await_launch_ahead, grouped, split_batch
from hexcute_kernels.parts.split import part_of, summed

STEP = 16
"""K of one Tensor Core step."""
GROUP = 8
"""Rows of tiles that run together."""
WIDE = 64 * 64
"""Elements of a tile from which on its rows are put together before they are written."""


@cache
def staged_gemm(
    dtype: hx.DType,
    a_major: str = "k",
    b_major: str = "k",
    *,
    run: int = 1,
    bias: bool = False,
    activation: str | None = None,
    batched: bool = False,
) -> hx.Kernel:
    """The kernel for operands of `dtype` in these orders (`a[m, k]` or `a[k, m]`, `b[n, k]` or
    `b[k, n]`); k is a multiple of `run`, which counts where rows lie along it. A bias of n.
    `batched`, all but the bias have an extent of the batch in front.

    Its constants are those of `StagedConfig`.
    """
    k = hx.dim("k", multiple_of=run)
    given = types(dtype, dtype, a_major, b_major, bias, batched, depth=k)
    activate = ACTIVATIONS[activation]

    @hx.kernel
    def gemm(
        a: given.a,
        b: given.b,
        bias: given.bias,
        c: given.c,
        *,
        BM: int = 64,
        BN: int = 64,
        BK: int = 64,
        WARPS: int = 4,
        SPLITS: int = 1,
        EARLY: bool = False,
    ):
        tiles_m, tiles_n = hx.cdiv(m, BM), hx.cdiv(n, BN)
        tiles = tiles_m * tiles_n
        hx.attrs.cuda.block_dim = 32 * WARPS
        hx.attrs.cuda.cluster_dim = SPLITS
        hx.attrs.cuda.grid_dim = SPLITS * (tiles * batch if batched else tiles)
        at, tile = split_batch(hx.blockIdx.x // SPLITS, tiles, batched)
        bm, bn = grouped(tile, tiles_m, tiles_n, GROUP, BM, BN)
        first, count = part_of(hx.cdiv(k, BK), SPLITS)
        ga = k_tiles(matrix(a, at), a_major, bm, BM, BK)
        gb = k_tiles(matrix(b, at), b_major, bn, BN, BK)
        na, nb = hx.register_tensor(dtype, (BM, BK)), hx.register_tensor(dtype, (BN, BK))
        sa, sb = hx.shared_tensor(dtype, (BM, BK, 2)), hx.shared_tensor(dtype, (BN, BK, 2))
        rc = hx.register_tensor(f32, (BM, BN))
        hx.fill(rc, 0.0)
        if EARLY:
            await_launch_ahead()

        hx.copy(ga[:, :, first], na)
        hx.copy(gb[:, :, first], nb)
        slot = 0
        for i in range(count):
            hx.copy(na, sa[:, :, slot])
            hx.copy(nb, sb[:, :, slot])
            hx.syncthreads()
            if i + 1 < count:  # Else nothing is asked for: a product of few k is one step.
                hx.copy(ga[:, :, first + i + 1], na)
                hx.copy(gb[:, :, first + i + 1], nb)
            for at_k in hx.static_range(0, BK, STEP):
                ra = hx.register_tensor(dtype, (BM, STEP))
                rb = hx.register_tensor(dtype, (BN, STEP))
                hx.copy(sa[:, at_k : at_k + STEP, slot], ra)
                hx.copy(sb[:, at_k : at_k + STEP, slot], rb)
                hx.gemm(rc, ra, rb)
            slot = 1 - slot

        if SPLITS > 1:
            sums = hx.shared_tensor(f32, (BM, BN))
            hx.copy(rc, sums)
            total, start = summed(sums, SPLITS)
            done, shape, row = finished(total, bias, bn, activate), total.shape, bm + start
        else:
            done, shape, row = finished(rc, bias, bn, activate), (BM, BN), bm
        gc = hx.global_view(matrix(c, at)[row:, bn:], (shape, (n, 1)))
        if SPLITS == 1 and BM * BN >= WIDE:
            through_shared(done, gc)
        else:
            hx.copy(hx.cast(done, dtype), gc)

    return gemm
