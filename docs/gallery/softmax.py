"""y = exp(x - max) / sum of exp(x - max) along rows of any length.

The row is read twice, in tiles of BN columns: first for its maximum and sum, which are corrected
whenever a larger maximum is found, then for the results.
"""

import hexcute_core as hx
from hexcute_core import f16, f32

m, n = hx.dims("m n")
LOWEST = -60000.0  # Near the least number of f16.


@hx.kernel
def softmax(x: f16[m, n], y: f16[m, n], *, BM: int = 4, BN: int = 512) -> None:
    hx.attrs.cuda.grid_dim = hx.cdiv(m, BM)
    hx.attrs.cuda.block_dim = 128
    bm, tiles = hx.blockIdx.x * BM, hx.cdiv(n, BN)
    gx = hx.global_view(x[bm:, :], ((BM, BN, tiles), (n, 1, BN)))
    gy = hx.global_view(y[bm:, :], ((BM, BN, tiles), (n, 1, BN)))
    top, total = hx.register_tensor(f32, (BM, 1)), hx.register_tensor(f32, (BM, 1))
    hx.fill(top, LOWEST)
    hx.fill(total, 0.0)
    for i in range(tiles):
        rx = hx.register_tensor(f16, (BM, BN))
        hx.copy(gx[:, :, i], rx, outside=LOWEST)
        wide = hx.cast(rx, f32)
        higher = hx.maximum(top, hx.max(wide, 1))
        total = total * hx.exp(top - higher) + hx.sum(hx.exp(wide - higher), 1)
        top = higher
    for i in range(tiles):
        rx = hx.register_tensor(f16, (BM, BN))
        hx.copy(gx[:, :, i], rx)
        hx.copy(hx.cast(hx.exp(hx.cast(rx, f32) - top) / total, f16), gy[:, :, i])
