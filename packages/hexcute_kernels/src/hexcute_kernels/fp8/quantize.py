"""x -> q, s: numbers of eight bits and a float32 scale for every block, x = s q but for rounding.

    s[block] = max of |x| in the block / 448, at least 2^-126
    q = x / s, to the nearest e4m3

448 is e4m3's largest number; a scale may be rounded up to a power of two. A block is a row of
activations, or 128 rows of weights, by 128 columns. All of a tile is on its way before the first
number is looked at, and x is read once. NaN stays NaN, and counts for no scale. An infinity becomes
448 with an infinite scale, and so do products with it.
"""

from __future__ import annotations

from functools import cache

import hexcute_core as hx
from hexcute_core import f8e4m3, f32, i32
from hexcute_kernels.fp8.blockwise import BLOCK

matrices, m, k, lines, groups = hx.dims("matrices m k lines groups")

PART = float.fromhex("0x1.249248p-9")
"""1 / 448 rounded down: 448 times a power of two has that power for a scale."""
LEAST, MOST = 2.0**-126, 2.0**120
"""Scales that have inverses; all of finite numbers are between."""
ABOVE = 0x7FFFFF
"""What carries into a float's exponent unless it is a power of two."""


@cache
def quantize(dtype: hx.DType, high: int, power_of_two: bool, scale_major: str) -> hx.Kernel:
    """The kernel for matrices x[matrices, m, k] of `dtype`, with a scale for `high` rows and 128
    columns: s[matrices, groups, lines] where `scale_major` is "m", else [matrices, lines, groups].

    Its constants: BM rows and WIDE times 128 columns of a tile, WARPS of a block.
    """
    s_type = f32[matrices, groups, lines] if scale_major == "m" else f32[matrices, lines, groups]

    @hx.kernel
    def quantize_blocks(
        x: dtype[matrices, m, k],
        q: f8e4m3[matrices, m, k],
        s: s_type,
        *,
        BM: int = 16,
        WARPS: int = 4,
        WIDE: int = 1,
    ):
        assert BM % high == 0, "a tile has whole blocks: high divides BM"
        down, across = hx.cdiv(m, BM), hx.cdiv(groups, WIDE)
        hx.attrs.cuda.grid_dim = down, across, matrices
        hx.attrs.cuda.block_dim = 32 * WARPS
        # No division by what is known at run time: it takes as long as the rest.
        bm, g, at = hx.blockIdx.x * BM, hx.blockIdx.y * WIDE, hx.blockIdx.z
        shape, strides = (BM // high, high, WIDE, BLOCK), (high * k, k, BLOCK, 1)
        given = hx.register_tensor(dtype, shape)
        hx.copy(hx.global_view(x[at, bm:, g * BLOCK :], (shape, strides)), given)
        wide = hx.cast(given, f32)
        largest = hx.max(hx.max(abs(wide), 3), 1)
        scale = hx.maximum(largest * PART, LEAST)
        if power_of_two:
            scale = hx.bitcast(hx.bitcast(scale, i32) + ABOVE >> 23 << 23, f32)
        small = hx.cast(wide * (1.0 / hx.minimum(scale, MOST)), f8e4m3)
        hx.copy(small, hx.global_view(q[at, bm:, g * BLOCK :], (shape, strides)))
        places, line = (BM // high, 1, WIDE, 1), bm // high
        if scale_major == "m":
            gs = hx.global_view(s[at, g:, line:], (places, (1, 1, lines, 1)))
        else:
            gs = hx.global_view(s[at, line:, g:], (places, (groups, 1, 1, 1)))
        hx.copy(scale, gs)

    return quantize_blocks
