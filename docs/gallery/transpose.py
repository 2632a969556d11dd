"""y = x^T.

Rows are contiguous on both sides, so the tile turns on its way through shared memory. Nothing says
how it lies there: both copies move 16 bytes without conflicts, or a launch's alignment forbids it.
"""

import hexcute_core as hx
from hexcute_core import f16

m, n = hx.dims("m n")


@hx.kernel
def transpose(x: f16[m, n], y: f16[n, m], *, BM: int = 64, BN: int = 64) -> None:
    hx.attrs.cuda.grid_dim = hx.cdiv(m, BM), hx.cdiv(n, BN)
    hx.attrs.cuda.block_dim = 128
    bm, bn = hx.blockIdx.x * BM, hx.blockIdx.y * BN
    tile = hx.shared_tensor(f16, (BM, BN))
    turned = hx.register_tensor(f16, (BM, BN))
    hx.copy(hx.global_view(x[bm:, bn:], ((BM, BN), (n, 1))), tile)
    hx.syncthreads()
    hx.copy(tile, turned)
    hx.copy(turned, hx.global_view(y[bn:, bm:], ((BM, BN), (1, m))))
