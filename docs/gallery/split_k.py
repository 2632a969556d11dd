"""c = a b^T with the sum along k cut into parts, where m and n alone give too few blocks.

The first kernel leaves a product for every part, the second adds them up. The order of the sums is
always the same, and so are the bits of c.
"""

import hexcute_core as hx
from hexcute_core import f16, f32

m, n, k, parts = hx.dims("m n k parts")


@hx.kernel
def multiply_parts(
    a: f16[m, k], b: f16[n, k], w: f32[parts, m, n], *, BM: int = 64, BN: int = 64, BK: int = 32
) -> None:
    """w[p] = the product over the tiles of k that are part p's, the same number for all parts."""
    hx.attrs.cuda.grid_dim = hx.cdiv(m, BM), hx.cdiv(n, BN), parts
    hx.attrs.cuda.block_dim = 128
    bm, bn, part, tiles = hx.blockIdx.x * BM, hx.blockIdx.y * BN, hx.blockIdx.z, hx.cdiv(k, BK)
    ga = hx.global_view(a[bm:, :], ((BM, BK, tiles), (k, 1, BK)))
    gb = hx.global_view(b[bn:, :], ((BN, BK, tiles), (k, 1, BK)))
    each = hx.cdiv(tiles, parts)
    rc = hx.register_tensor(f32, (BM, BN))
    hx.fill(rc, 0.0)
    for i in range(part * each, hx.minimum((part + 1) * each, tiles)):
        ra, rb = hx.register_tensor(f16, (BM, BK)), hx.register_tensor(f16, (BN, BK))
        hx.copy(ga[:, :, i], ra)
        hx.copy(gb[:, :, i], rb)
        hx.gemm(rc, ra, rb)
    hx.copy(rc, hx.global_view(w[part, bm:, bn:], ((BM, BN), (n, 1))))


@hx.kernel
def add_parts(w: f32[parts, m, n], c: f16[m, n], *, BM: int = 16, BN: int = 128) -> None:
    hx.attrs.cuda.grid_dim = hx.cdiv(m, BM), hx.cdiv(n, BN)
    hx.attrs.cuda.block_dim = 128
    bm, bn = hx.blockIdx.x * BM, hx.blockIdx.y * BN
    gw = hx.global_view(w[:, bm:, bn:], ((BM, BN, parts), (n, 1, m * n)))
    total = hx.register_tensor(f32, (BM, BN))
    hx.fill(total, 0.0)
    for part in range(parts):
        r = hx.register_tensor(f32, (BM, BN))
        hx.copy(gw[:, :, part], r)
        total += r
    hx.copy(hx.cast(total, f16), hx.global_view(c[bm:, bn:], ((BM, BN), (n, 1))))
