"""hx.iota(shape, d): a tile whose elements are their own coordinates along mode d."""

from __future__ import annotations

from collections.abc import Sequence

from hexcute_core.dtypes import i32
from hexcute_core.frontend.builder import current
from hexcute_core.frontend.subscript import static_int
from hexcute_core.frontend.tileops import register_tensor
from hexcute_core.frontend.tiles import Tile
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
