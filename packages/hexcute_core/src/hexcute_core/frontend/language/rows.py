"""A mode whose stride is a tile of numbers: element i lies at coordinate rows[i] of a dimension.

A stride says how far the next element is; a shared tile of i32, one number per element, says where
each of them is. Copies read the numbers when they run: a load by such a view gathers, a store
scatters, and a number outside the dimension names nothing, read as zero and not written.
"""

from __future__ import annotations

from dataclasses import replace

from hexcute_core.dtypes import i32
from hexcute_core.frontend.language.builder import current
from hexcute_core.frontend.language.lift import Along
from hexcute_core.frontend.language.params import Param
from hexcute_core.frontend.language.subscript import static_int
from hexcute_core.frontend.language.tiles import LazyTile, Tile, TileValue, describe
from hexcute_core.scalar import as_scalar
from hexcute_core.tile import SharedTensor, SubMode, TileRef


def names_places(stride: object) -> bool:
    """Whether `stride` is a tile of numbers, or one along a dimension that is said."""
    return isinstance(stride.step if isinstance(stride, Along) else stride, TileValue)


def named_mode(buffer: Param, shape: object, stride: object) -> tuple[SubMode, TileRef]:
    """The mode of extent `shape` whose elements lie where `stride` says, and the numbers.

    Without hx.along they are coordinates of the first dimension that has no integer.
    """
    builder = current("hx.global_view")
    along = stride if isinstance(stride, Along) else None
    numbers = stride if along is None else along.step
    free = [d for d in range(len(buffer.origin)) if d not in buffer.fixed]
    dim = free[0] if along is None else along.dim
    if dim not in free:
        raise builder.error(
            f"rows named along dimension {dim} of `{buffer.tensor.name}`, of which the dimensions "
            f"{', '.join(map(str, free))} are left",
            fix=f"name one of them: hx.along({free[0]}, rows)",
        )
    held = isinstance(numbers, Tile) and isinstance(numbers.tensor, SharedTensor)
    if isinstance(numbers, LazyTile) or not isinstance(numbers, Tile) or not held:
        raise builder.error(
            f"rows named by {describe(numbers)}: any thread has to find the number of any row",
            fix="copy the numbers to a shared tensor, let the threads meet, and name the rows by "
            "that",
        )
    if numbers.ref.rank is not None:
        raise builder.error(
            f"rows named by {describe(numbers)}", fix="copy the numbers to a shared tensor of here"
        )
    if numbers.dtype != i32:
        raise builder.error(
            f"rows named by {describe(numbers)}",
            fix="make it a shared tensor of i32, and hx.cast(x, i32) before the copy to it",
        )
    extent = static_int(shape)
    if extent is None or numbers.shape != (extent,):
        raise builder.error(
            f"{describe(numbers)} names the rows of a mode of extent {shape}",
            fix="give the mode the tile's extent, and the tile one mode, one number per row",
        )
    starts = tuple(builder.stable(start, "rows_at") for start in numbers.ref.starts)
    mode = SubMode(as_scalar(extent), as_scalar(1), dim)
    return mode, replace(numbers.ref, starts=starts)
