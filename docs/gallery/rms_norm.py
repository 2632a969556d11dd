"""y = x / sqrt(mean of x^2 along the row + eps) * w.

A block takes BM whole rows. Columns beyond the row read as zeros, which add nothing to the sum.
"""

import hexcute_core as hx
from hexcute_core import f16, f32

m, n = hx.dims("m n")


@hx.kernel
def rms_norm(
    x: f16[m, n], w: f16[n], y: f16[m, n], eps: f32, *, BM: int = 4, BN: int = 1024
) -> None:
    hx.attrs.cuda.grid_dim = hx.cdiv(m, BM)
    hx.attrs.cuda.block_dim = 128
    assert BN % 32 == 0, "whole warps a row"
    bm = hx.blockIdx.x * BM
    hx.device_assert(n <= BN, "BN is shorter than a row")
    rx, rw = hx.register_tensor(f16, (BM, BN)), hx.register_tensor(f16, (1, BN))
    hx.copy(hx.global_view(x[bm:, :], ((BM, BN), (n, 1))), rx)
    # One row of weights for all rows of the tile: a stride of 0.
    hx.copy(hx.global_view(w, ((1, BN), (0, 1))), rw)
    wide = hx.cast(rx, f32)
    scale = hx.rsqrt(hx.sum(wide * wide, 1) / hx.cast(n, f32) + eps)
    result = hx.cast(wide * scale * hx.cast(rw, f32), f16)
    hx.copy(result, hx.global_view(y[bm:, :], ((BM, BN), (n, 1))))
