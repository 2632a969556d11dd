"""Scope = the lanes of the interpreter's scalar code: threads of a block, or elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from hexcute_core.errors import SourceSpan
from hexcute_core.scalar import Scalar
from hexcute_core.simulator.lanes.state import Block, LaneState
from hexcute_core.simulator.lanes.values import Array, Value, storage
from hexcute_core.simulator.oracle.tile_math import cast_tile
from hexcute_core.simulator.oracle.tiles import LocalTile
from hexcute_core.tile import Say, SetElement


class Scope(LaneState):
    """One lane per thread of a block, or one lane an element inside `ForElements`."""

    def __init__(
        self, values: Mapping[str, Value], lanes: int, block: Block, part: range | None = None
    ) -> None:
        super().__init__(values, lanes, [block], part)
        self.place: SourceSpan | None = None
        self.arrived = 0
        self.tiles: Mapping[str, LocalTile] | None = None

    @property
    def span(self) -> SourceSpan | None:
        """Where the running statement was written."""
        return self.place

    def where(self, lane: int) -> str:
        """`block (x, y, z)` and what the lane is."""
        what = "thread" if self.tiles is None else "element"
        return f"block {self.blocks[0]} {what} {lane}"

    def together(self) -> None:
        """Refuses what all threads of the block run together where some do not get there."""
        if self.mask is not None or self.tiles is not None:
            self.fail(
                "a tile operation stands under a condition that differs from thread to thread",
                fix="let all threads of the block reach it",
            )

    def cell(self, value: Value) -> Array:
        """A value on which all threads agree, as one cell."""
        cells = np.asarray(value)
        if cells.ndim and (cells != cells[0]).any():
            self.fail("the value of a fill differs from thread to thread")
        return cells.reshape(-1)[:1]

    def element(self, array: str, indices: tuple[Value, ...]) -> Value:
        """Element `indices` of register tensor `array` on every lane."""
        tile, place = self.locate(array, indices)
        if not tile.written[place][self.active()].all():
            self.fail(f"{array} is read before it was written")
        cells: Array = tile.cells[place]
        return cells

    def locate(self, array: str, indices: Sequence[Value]) -> tuple[LocalTile, tuple[Array, ...]]:
        """The tile called `array` and an index array per dimension."""
        if self.tiles is None or array not in self.tiles:
            self.fail(f"elements of {array} can only be named inside a loop over its elements")
        tile = self.tiles[array]
        if len(indices) != len(tile.shape):
            self.fail(f"{array} has {len(tile.shape)} dimensions, got {len(indices)} indices")
        place = []
        for index, extent in zip(indices, tile.shape, strict=True):
            at = np.broadcast_to(np.asarray(index), self.lanes)
            if ((at < 0) | (at >= extent))[self.active()].any():
                self.fail(f"an index of {array} is outside its extent {extent}")
            place.append(np.clip(at, 0, extent - 1))
        return tile, tuple(place)

    def role(self, first: int, threads: int) -> Scope:
        """The lanes of threads [first, first + threads), with variables of their own."""
        part = slice(first, first + threads)
        values = {
            name: value[part] if isinstance(value, np.ndarray) else value
            for name, value in self.vars.items()
        }
        inner = Scope(values, self.threads, self.blocks[0], range(first, first + threads))
        inner.place = self.place
        return inner


def say(stmt: Say, scope: Scope, holds: Value | None) -> None:
    """What is printed changes no tensor; what is asserted has to hold on every running lane."""
    if holds is not None and not np.broadcast_to(holds, scope.lanes)[scope.active()].all():
        scope.fail(f"assertion failed: {stmt.text}" if stmt.text else "assertion failed")


def set_element(stmt: SetElement, scope: Scope, value: Callable[[Scalar], Value]) -> None:
    """Every running lane sets its element; `value` evaluates on all lanes."""
    tile, place = scope.locate(stmt.tensor, [value(coordinate) for coordinate in stmt.coords])
    given = np.broadcast_to(np.asarray(value(stmt.value)), scope.lanes)
    cells = cast_tile(given.astype(storage(stmt.value.dtype)), stmt.value.dtype, tile.dtype)
    lanes = scope.active()
    inside = tuple(index[lanes] for index in place)
    tile.cells[inside] = cells[lanes]
    tile.written[inside] = True
