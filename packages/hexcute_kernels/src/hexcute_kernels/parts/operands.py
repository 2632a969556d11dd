"""An operand x of rows x k may lie either way in memory, and be one of a batch: one type, and one
view of its tiles.

    order        "k": x[rows, k], K contiguous        else x[k, rows], rows contiguous
    batch        x[batch, rows, k], or x[batch, k, rows]
    tiles        (rows, depth, tiles of k), whatever the order
"""

from __future__ import annotations

import hexcute_core as hx


def operand_type(
    dtype: hx.DType, rows: object, k: object, major: str, batch: object = None
) -> hx.TensorType:
    """The parameter type of an operand of `rows` x `k` elements whose `major` is contiguous: "k",
    or anything else for the rows; of a `batch` of them where it is given."""
    extents = (rows, k) if major == "k" else (k, rows)
    return dtype[extents if batch is None else (batch, *extents)]


@hx.device
def matrix(x, index):
    """The matrix number `index` of a batch, or `x` itself where it is none."""
    return x[index] if len(x.shape) == 3 else x


@hx.device
def k_tiles(x, major, start, rows, depth):
    """`rows` of operand `x` from row `start` on, as tiles of `depth` along K: a view of shape
    (rows, depth, number of tiles)."""
    if major == "k":
        k = x.shape[-1]
        return hx.global_view(x[start:, :], ((rows, depth, hx.cdiv(k, depth)), (k, 1, depth)))
    k, length = x.shape[-2:]
    shape = (rows, depth, hx.cdiv(k, depth))
    return hx.global_view(x[:, start:], (shape, (1, length, depth * length)))
