"""c = a b^T with the sum along k cut into parts, in one kernel: whoever finishes a tile last adds
up what the others left.

Each block leaves its part of the product and counts itself; `done` is 0 at the launch. The order
"acq_rel" makes of the counter a place where blocks meet: what was written before a count is seen by
whoever counts later. Only the last block reads, in the order of the parts, so the bits of c are
always the same.
"""

import hexcute_core as hx
from hexcute_core import f16, f32, i32

m, n, k, parts, rows, columns = hx.dims("m n k parts rows columns")


@hx.kernel
def split_k_once(
    a: f16[m, k], b: f16[n, k], w: f32[parts, m, n], done: i32[rows, columns], c: f16[m, n],
    *, BM: int = 64, BN: int = 64, BK: int = 32,
) -> None:  # fmt: skip
    hx.attrs.cuda.grid_dim = rows, columns, parts
    hx.attrs.cuda.block_dim = 128
    x, y, part, tiles = hx.blockIdx.x, hx.blockIdx.y, hx.blockIdx.z, hx.cdiv(k, BK)
    bm, bn, each = x * BM, y * BN, hx.cdiv(tiles, parts)
    ga = hx.global_view(a[bm:, :], ((BM, BK, tiles), (k, 1, BK)))
    gb = hx.global_view(b[bn:, :], ((BN, BK, tiles), (k, 1, BK)))
    gw = hx.global_view(w[:, bm:, bn:], ((BM, BN, parts), (n, 1, m * n)))
    rc, total = hx.register_tensor(f32, (BM, BN)), hx.register_tensor(f32, (BM, BN))
    hx.fill(rc, 0.0)
    for i in range(part * each, hx.minimum((part + 1) * each, tiles)):
        ra, rb = hx.register_tensor(f16, (BM, BK)), hx.register_tensor(f16, (BN, BK))
        hx.copy(ga[:, :, i], ra)
        hx.copy(gb[:, :, i], rb)
        hx.gemm(rc, ra, rb)
    hx.copy(rc, gw[:, :, part])
    counted = hx.atomic_add(done, (x, y), 1, order="acq_rel")
    if counted == parts - 1:
        hx.fill(total, 0.0)
        for p in range(parts):
            hx.copy(gw[:, :, p], rc)
            total += rc
        hx.copy(hx.cast(total, f16), hx.global_view(c[bm:, bn:], ((BM, BN), (n, 1))))
