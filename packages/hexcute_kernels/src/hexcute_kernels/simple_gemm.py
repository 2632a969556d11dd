"""c = a b^T with every layout left to the compiler: global memory to registers, no staging."""

from __future__ import annotations

import hexcute_core as hx
from hexcute_core import f16, f32

m, n, k = hx.dims("m n k")


@hx.kernel
def simple_gemm(
    a: f16[m, k], b: f16[n, k], c: f16[m, n], *, BM: int = 128, BN: int = 128, BK: int = 32
):
    """c[m, n] = a[m, k] b[n, k]^T in f16, accumulated in f32; 128 threads a BM x BN block."""
    hx.attrs.cuda.grid_dim = hx.cdiv(m, BM), hx.cdiv(n, BN)
    hx.attrs.cuda.block_dim = 128
    bm, bn = hx.blockIdx.x * BM, hx.blockIdx.y * BN
    ga = hx.global_view(a[bm:, :], ((BM, BK, hx.cdiv(k, BK)), (k, 1, BK)))
    gb = hx.global_view(b[bn:, :], ((BN, BK, hx.cdiv(k, BK)), (k, 1, BK)))
    ra, rb = hx.register_tensor(f16, (BM, BK)), hx.register_tensor(f16, (BN, BK))
    rc = hx.register_tensor(f32, (BM, BN))
    hx.fill(rc, 0.0)
    for i in range(hx.cdiv(k, BK)):
        hx.copy(ga[:, :, i], ra)
        hx.copy(gb[:, :, i], rb)
        hx.gemm(rc, ra, rb)
    sc = hx.shared_tensor(f16, (BM, BN))
    hx.copy(hx.cast(rc, f16), sc)
    hx.syncthreads()
    rd = hx.register_tensor(f16, (BM, BN))
    hx.copy(sc, rd)
    hx.copy(rd, hx.global_view(c[bm:, bn:], ((BM, BN), (n, 1))))
