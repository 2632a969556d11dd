"""c = a b^T through a ring of shared stages: cp.async, ldmatrix one step ahead, mma.sync.

Loads of stage i + STAGES - 1 run while stage i is multiplied; fragments of the next K step are
read while this one is multiplied, across the stage's border too.
"""

from __future__ import annotations

from functools import cache

import hexcute_core as hx
from hexcute_core import f32
from hexcute_kernels.gemm.parameters import batch, k, m, n, types
from hexcute_kernels.parts.epilogue import ACTIVATIONS, finished, through_shared
from hexcute_kernels.parts.operands import k_tiles, matrix
from hexcute_kernels.parts.schedule import grouped, split_batch

STEP = 16
"""K of one Tensor Core step."""


@cache
def pipelined_gemm(
    dtype: hx.DType,
    a_major: str = "k",
    b_major: str = "k",
    *,
    bias: bool = False,
    activation: str | None = None,
    batched: bool = False,
) -> hx.Kernel:
    """The kernel for f16 or bf16 operands stored K-major (`a[m, k]`, `b[n, k]`) or not
    (`a[k, m]` for "m", `b[k, n]` for "n"), c the activation of the product plus `bias[n]`;
    `batched`, all but the bias have an extent of the batch in front. Its constants are those of
    `MmaConfig`."""
    given = types(dtype, dtype, a_major, b_major, bias, batched)
    activate = ACTIVATIONS[activation]

    @hx.kernel
    def gemm(
        a: given.a,
        b: given.b,
        bias: given.bias,
        c: given.c,
        *,
        BM: int = 128,
        BN: int = 128,
        BK: int = 32,
        STAGES: int = 4,
        WARPS: int = 4,
        GROUP: int = 8,
    ):
        tiles_m, tiles_n, tiles_k = hx.cdiv(m, BM), hx.cdiv(n, BN), hx.cdiv(k, BK)
        tiles = tiles_m * tiles_n
        hx.attrs.cuda.grid_dim = tiles * batch if batched else tiles
        hx.attrs.cuda.block_dim = 32 * WARPS
        at, part = split_batch(hx.blockIdx.x, tiles, batched)
        bm, bn = grouped(part, tiles_m, tiles_n, GROUP, BM, BN)
        ga = k_tiles(matrix(a, at), a_major, bm, BM, BK)
        gb = k_tiles(matrix(b, at), b_major, bn, BN, BK)
        sa = hx.shared_tensor(dtype, (BM, BK, STAGES))
        sb = hx.shared_tensor(dtype, (BN, BK, STAGES))
        ra = hx.register_tensor(dtype, (BM, STEP, 2))
        rb = hx.register_tensor(dtype, (BN, STEP, 2))
        rc = hx.register_tensor(f32, (BM, BN))
        hx.fill(rc, 0.0)

        for s in hx.static_range(STAGES - 1):
            hx.copy(ga[:, :, s], sa[:, :, s])
            hx.copy(gb[:, :, s], sb[:, :, s])
            hx.cp_async_commit()
        hx.cp_async_wait(STAGES - 2)
        hx.syncthreads()
        hx.copy(sa[:, 0:STEP, 0], ra[:, :, 0])
        hx.copy(sb[:, 0:STEP, 0], rb[:, :, 0])

        read, write = 0, STAGES - 1
        for i in range(tiles_k):
            for step in hx.static_range(BK // STEP):
                ahead = (step + 1) % (BK // STEP)
                if ahead == 0:
                    hx.cp_async_wait(STAGES - 2)
                    hx.syncthreads()
                    read = hx.select(read == STAGES - 1, 0, read + 1)
                hx.copy(sa[:, ahead * STEP : (ahead + 1) * STEP, read], ra[:, :, (step + 1) % 2])
                hx.copy(sb[:, ahead * STEP : (ahead + 1) * STEP, read], rb[:, :, (step + 1) % 2])
                if step == 0:
                    hx.copy(ga[:, :, i + STAGES - 1], sa[:, :, write])
                    hx.copy(gb[:, :, i + STAGES - 1], sb[:, :, write])
                    hx.cp_async_commit()
                    write = hx.select(write == STAGES - 1, 0, write + 1)
                hx.gemm(rc, ra[:, :, step % 2], rb[:, :, step % 2])

        done = finished(rc, bias, bn, activate)
        through_shared(done, hx.global_view(matrix(c, at)[bm:, bn:], ((BM, BN), (n, 1))))

    return gemm
