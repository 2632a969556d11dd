"""y = x with rows of whole 16 bytes, the rest zeros: what TMA needs of an operand.

    y[i, j] = x[i, j], or x[j, i] of an operand that lies the other way    for j < k, else 0

Reading a matrix once more costs little beside multiplying it by tiles that no wide copy can bring.
"""

from __future__ import annotations

from functools import cache

import hexcute_core as hx
from hexcute_kernels.parts.operands import operand_type
from hexcute_kernels.parts.schedule import await_launch_ahead

rows, others, wide = hx.dims("rows others wide")
ROWS, COLUMNS = 32, 128
"""A block's tile."""


@hx.device
def move(x, y, major, row, column):
    """The tile of y that begins at `row` and `column`, through shared memory: it is read along x's
    rows and written along y's, when the launch ahead has ended."""
    await_launch_ahead()
    shape = (ROWS, COLUMNS)
    if major == "k":
        gx = hx.global_view(x[row:, column:], (shape, (x.shape[1], 1)))
    else:
        gx = hx.global_view(x[column:, row:], (shape, (1, x.shape[1])))
    given, kept = hx.register_tensor(x.dtype, shape), hx.register_tensor(x.dtype, shape)
    turned = hx.shared_tensor(x.dtype, shape)
    hx.copy(gx, given)
    hx.copy(given, turned)
    hx.syncthreads()
    hx.copy(turned, kept)
    hx.copy(kept, hx.global_view(y[row:, column:], (shape, (y.shape[1], 1))))


@cache
def pack(dtype: hx.DType, major: str, run: int = 1) -> hx.Kernel:
    """The kernel from x[rows, k] where `major` is "k", else x[k, rows], to y[rows, wide], whose
    `wide` is k in whole 16 bytes; k is a multiple of `run`."""
    k = hx.dim("k", multiple_of=run)
    x_type = operand_type(dtype, rows, k, major)

    @hx.kernel
    def packed(x: x_type, y: dtype[rows, wide]):
        hx.attrs.cuda.block_dim = 128
        hx.attrs.cuda.grid_dim = hx.cdiv(wide, COLUMNS), hx.cdiv(rows, ROWS)
        move(x, y, major, hx.blockIdx.y * ROWS, hx.blockIdx.x * COLUMNS)

    return packed


@cache
def pack_both(dtype: hx.DType, first: str, second: str, run: int = 1) -> hx.Kernel:
    """The kernel that does so with two operands of one k in one launch: from x of `rows` to y, from
    v of `others` to w."""
    k = hx.dim("k", multiple_of=run)
    x_type, v_type = operand_type(dtype, rows, k, first), operand_type(dtype, others, k, second)

    @hx.kernel
    def both_packed(x: x_type, y: dtype[rows, wide], v: v_type, w: dtype[others, wide]):
        hx.attrs.cuda.block_dim = 128
        above = hx.cdiv(rows, ROWS)
        hx.attrs.cuda.grid_dim = hx.cdiv(wide, COLUMNS), above + hx.cdiv(others, ROWS)
        row, column = hx.blockIdx.y, hx.blockIdx.x * COLUMNS
        if row < above:
            move(x, y, first, row * ROWS, column)
        else:
            move(v, w, second, (row - above) * ROWS, column)

    return both_packed
