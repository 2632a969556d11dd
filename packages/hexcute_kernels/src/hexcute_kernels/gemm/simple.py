"""c = a b^T with every layout left to the compiler: global memory to registers, no staging."""

from __future__ import annotations

from functools import cache

import hexcute_core as hx
from hexcute_core import f16, f32
from hexcute_kernels.parts.epilogue import through_shared
from hexcute_kernels.parts.operands import k_tiles, operand_type

m, n, k = hx.dims("m n k")


@cache
def register_gemm(dtype: hx.DType, a_major: str = "k", b_major: str = "k") -> hx.Kernel:
    """The kernel for f16 or bf16 operands stored K-major (`a[m, k]`, `b[n, k]`) or not
    (`a[k, m]` for "m", `b[k, n]` for "n"); accumulated in f32, 128 threads a BM x BN block."""
    a_type, b_type = operand_type(dtype, m, k, a_major), operand_type(dtype, n, k, b_major)

    @hx.kernel
    def simple_gemm(
        a: a_type, b: b_type, c: dtype[m, n], *, BM: int = 128, BN: int = 128, BK: int = 32
    ):
        hx.attrs.cuda.grid_dim = hx.cdiv(m, BM), hx.cdiv(n, BN)
        hx.attrs.cuda.block_dim = 128
        bm, bn = hx.blockIdx.x * BM, hx.blockIdx.y * BN
        ga = k_tiles(a, a_major, bm, BM, BK)
        gb = k_tiles(b, b_major, bn, BN, BK)
        ra, rb = hx.register_tensor(dtype, (BM, BK)), hx.register_tensor(dtype, (BN, BK))
        rc = hx.register_tensor(f32, (BM, BN))
        hx.fill(rc, 0.0)
        for i in range(hx.cdiv(k, BK)):
            hx.copy(ga[:, :, i], ra)
            hx.copy(gb[:, :, i], rb)
            hx.gemm(rc, ra, rb)
        through_shared(rc, hx.global_view(c[bm:, bn:], ((BM, BN), (n, 1))))

    return simple_gemm


simple_gemm = register_gemm(f16)
