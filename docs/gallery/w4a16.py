"""c = a (scale (q - 8))^T, where q has 4 bits: bytes hold two weights, one of each half of a tile.

Byte j of a tile of BK weights holds number j in its low bits and number j + BK / 2 in its high
ones, so each half is a product of its own. A scale serves GROUP weights of a row.
"""

import hexcute_core as hx
from hexcute_core import f16, f32, u8

m, n, k, kb, groups = hx.dims("m n k kb groups")


@hx.kernel
def w4a16(
    a: f16[m, k], q: u8[n, kb], scale: f16[n, groups], c: f16[m, n],
    *, BM: int = 32, BN: int = 64, BK: int = 64, GROUP: int = 128,
) -> None:  # fmt: skip
    hx.attrs.cuda.grid_dim = hx.cdiv(m, BM), hx.cdiv(n, BN)
    hx.attrs.cuda.block_dim = 128
    assert GROUP % BK == 0, "one scale a row for a tile"
    bm, bn, half, tiles = hx.blockIdx.x * BM, hx.blockIdx.y * BN, BK // 2, hx.cdiv(k, BK)
    ga = hx.global_view(a[bm:, :], ((BM, half, 2, tiles), (k, 1, half, BK)))
    gq = hx.global_view(q[bn:, :], ((BN, half, tiles), (kb, 1, half)))
    gs = hx.global_view(scale[bn:, :], ((BN, 1, groups), (groups, 1, 1)))
    rc = hx.register_tensor(f32, (BM, BN))
    hx.fill(rc, 0.0)
    for i in range(tiles):
        ra = hx.register_tensor(f16, (BM, half, 2))
        rq, rs = hx.register_tensor(u8, (BN, half)), hx.register_tensor(f16, (BN, 1))
        hx.copy(ga[:, :, :, i], ra)
        hx.copy(gq[:, :, i], rq)
        hx.copy(gs[:, :, i * BK // GROUP], rs)
        for j in hx.static_range(2):
            weights = (hx.cast((rq >> (4 * j)) & 15, f16) - 8.0) * rs
            hx.gemm(rc, ra[:, :, j], weights)
    hx.copy(hx.cast(rc, f16), hx.global_view(c[bm:, bn:], ((BM, BN), (n, 1))))
