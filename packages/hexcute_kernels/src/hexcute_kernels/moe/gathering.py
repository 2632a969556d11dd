"""Rows of x in the order of `sorting`, so that TMA can fetch a tile's, for several blocks at once.

    ordered[b * BM + r] = x[token[b * BM + r]],  zeros where that is -1
"""

from __future__ import annotations

from functools import cache

import hexcute_core as hx
from hexcute_core import i32

tokens, k, blocks, rows = hx.dims("tokens k blocks rows")

WIDE = 256
"""Columns that a block moves."""


@cache
def gather(dtype: hx.DType) -> hx.Kernel:
    """The kernel for x and ordered of `dtype`, beside the tables of `sorting`."""

    @hx.kernel
    def ordered_rows(
        x: dtype[tokens, k],
        table: i32[4, blocks],
        used: i32[1],
        token: i32[rows],
        ordered: dtype[rows, k],
        *,
        BM: int = 64,
    ):
        hx.attrs.cuda.grid_dim = hx.cdiv(k, WIDE), blocks
        hx.attrs.cuda.block_dim = 256
        t, column = hx.blockIdx.y, hx.blockIdx.x * WIDE
        names = hx.shared_tensor(i32, (BM,))
        if t < used[0]:
            first = (table[1, t] + t - table[2, t]) * BM
            hx.copy(hx.global_view(token[first:], ((BM,), (1,))), names)
            hx.syncthreads()
            r = hx.register_tensor(dtype, (BM, WIDE))
            hx.copy(hx.global_view(x[:, column:], ((BM, WIDE), (names, 1))), r)
            hx.copy(r, hx.global_view(ordered[first:, column:], ((BM, WIDE), (k, 1))))

    return ordered_rows
