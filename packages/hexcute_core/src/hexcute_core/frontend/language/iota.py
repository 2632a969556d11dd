"""Tiles of coordinates: hx.iota(shape, d) holds them, hx.argmax(t, d) finds the coordinate of the
largest element.

argmax = the least coordinate whose element equals the maximum along the mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from hexcute_core.dtypes import i32
from hexcute_core.frontend.language.builder import current
from hexcute_core.frontend.language.elementwise import where
from hexcute_core.frontend.language.subscript import static_int
from hexcute_core.frontend.language.tileops import reduce, register_of, register_tensor
from hexcute_core.frontend.language.tiles import Tile
from hexcute_core.tile import ForElements, SetElement


def iota(shape: int | Sequence[int], d: int) -> Tile:
    """An i32 register tile of `shape` that holds, everywhere, the coordinate along mode `d`."""
    builder = current("hx.iota")
    tile = register_tensor(i32, shape)
    mode, rank = static_int(d), len(tile.shape)
    if mode is None or not -rank <= mode < rank:
        raise builder.error(
            f"hx.iota along mode {d} of a tile {tile.shape}",
            fix=f"name one of its modes, from 0 to {rank - 1}",
        )
    coords = tuple(builder.variable("i", i32) for _ in tile.shape)
    number = builder.next_id()
    with builder.nested("elements") as region:
        region.coords, region.shape = coords, tile.shape
        builder.emit(SetElement(tile.tensor.name, coords, coords[mode], builder.span))
    block = tuple(region.block)
    builder.emit(ForElements(number, tile.ref, coords, block, builder.span))
    return tile


def argmax(a: object, d: int) -> Any:
    """Where the maximum of `a` along mode `d` stands, the first of equal ones: an i32 register tile
    whose mode `d` has extent 1, like that of `hx.max`. A row of NaN alone has none: it gives the
    mode's extent."""
    return _first(a, d, "max")


def argmin(a: object, d: int) -> Any:
    """Where the minimum of `a` along mode `d` stands; see `argmax`."""
    return _first(a, d, "min")


def _first(a: object, d: int, op: Literal["max", "min"]) -> Any:
    tile = register_of(a, f"hx.arg{op}")
    extreme = reduce(tile, d, op)
    axis = (static_int(d) or 0) % len(tile.shape)
    along = tuple(e if mode == axis else 1 for mode, e in enumerate(tile.shape))
    return reduce(where(tile == extreme, iota(along, axis), tile.shape[axis]), axis, "min")
