"""c = a (scale (q - 8))^T, where q has 4 bits: two weights a byte, the first in its low bits.

The weights are a parameter of u4, moved as they lie and cast in registers, two at a time: bytes are
permuted, bits cut out behind those of a constant, the constant taken off. A scale serves GROUP
weights of a row.
"""

import hexcute_core as hx
from hexcute_core import f16, f32, u4

m, n, k, groups = hx.dims("m n k groups")


@hx.kernel
def w4a16(
    a: f16[m, k], q: u4[n, k], scale: f16[n, groups], c: f16[m, n],
    *, BM: int = 32, BN: int = 64, BK: int = 64, GROUP: int = 128,
) -> None:  # fmt: skip
    hx.attrs.cuda.grid_dim = hx.cdiv(m, BM), hx.cdiv(n, BN)
    hx.attrs.cuda.block_dim = 128
    assert GROUP % BK == 0, "one scale a row for a tile"
    bm, bn, tiles = hx.blockIdx.x * BM, hx.blockIdx.y * BN, hx.cdiv(k, BK)
    ga = hx.global_view(a[bm:, :], ((BM, BK, tiles), (k, 1, BK)))
    gq = hx.global_view(q[bn:, :], ((BN, BK, tiles), (k, 1, BK)))
    gs = hx.global_view(scale[bn:, :], ((BN, 1, groups), (groups, 1, 1)))
    rc = hx.register_tensor(f32, (BM, BN))
    hx.fill(rc, 0.0)
    for i in range(tiles):
        ra = hx.register_tensor(f16, (BM, BK))
        rq, rs = hx.register_tensor(u4, (BN, BK)), hx.register_tensor(f16, (BN, 1))
        hx.copy(ga[:, :, i], ra)
        hx.copy(gq[:, :, i], rq)
        hx.copy(gs[:, :, i * BK // GROUP], rs)
        hx.gemm(rc, ra, (hx.cast(rq, f16) - 8.0) * rs)
    hx.copy(hx.cast(rc, f16), hx.global_view(c[bm:, bn:], ((BM, BN), (n, 1))))
