"""Before a name's tile is updated in place, other names of the same tensor get a copy of it.

In Python `old = acc` followed by `acc = acc * 2` leaves `old` alone; here both name one tensor.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hexcute_core.frontend.interpreter.frame import Binding, Frame
from hexcute_core.frontend.interpreter.sharing import Sharing, holds
from hexcute_core.frontend.language.builder import current
from hexcute_core.frontend.language.tiles import Tile, copy_of


def aliases(frame: Frame, name: str, tensor: str) -> Iterator[tuple[Frame, str]]:
    """Every other name, in this call and its callers, that holds a part of `tensor`."""
    here: Frame | None = frame
    while here is not None:
        for other, binding in here.bindings.items():
            if (here is not frame or other != name) and holds(binding.value, tensor):
                yield here, other
        here = here.caller


def own_copy(sharing: Sharing, frame: Frame, name: str) -> None:
    """Gives `name` a tensor of its own, holding what its tile holds now."""
    binding = frame.bindings[name]
    if isinstance(binding.value, Tile):
        copied = copy_of(binding.value, name)
        sharing.relate(binding.value.tensor.name, copied.tensor.name, name)
        frame.bindings[name] = replace(binding, value=copied)


def release(sharing: Sharing, frame: Frame, name: str, tile: Tile) -> None:
    """Moves every alias of `name`'s whole tile to one copy, made here."""
    found = list(aliases(frame, name, tile.tensor.name))
    if not found:
        return
    copied = copy_of(tile, found[0][1])
    sharing.relate(tile.tensor.name, copied.tensor.name, name)
    for where, other in found:
        binding = where.bindings[other]
        moved = _moved(binding.value, tile.tensor.name, copied)
        where.bindings[other] = Binding(moved, binding.region, binding.span)


def _moved(value: object, tensor: str, copied: Tile) -> object:
    match value:
        case Tile() if value.tensor.name == tensor:
            return Tile(copied.tensor, replace(value.ref, tensor=copied.tensor.name))
        case tuple():
            moved = [_moved(item, tensor, copied) for item in value]
            return getattr(value, "_make", tuple)(moved)
        case list():
            value[:] = [_moved(item, tensor, copied) for item in value]
            return value
        case dict():
            for key, item in value.items():
                value[key] = _moved(item, tensor, copied)
            return value
        case _ if holds(value, tensor):
            raise current("a tile").error(
                f"a {type(value).__name__} holds the tile `{tensor}`, of which run-time control "
                "flow here makes another value in its place",
                fix="keep the tile in a tuple, a list or a dict, or give the name a tile of its "
                "own first, as in `x = x * 1`",
            )
        case _:
            return value
