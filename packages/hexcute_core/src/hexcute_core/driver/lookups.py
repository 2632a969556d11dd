"""Numbers that name rows, in the proof of addresses: drawn at random, and looked up where they lie.

A lowered copy reads a row's number from shared memory before it makes an address of it. Here that
read is answered from `numbers`, drawn for the proof. What lies beside the tile that holds them is
`ASTRAY`, no row of any tensor, so a call that looks there is seen to move another row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hexcute_core.scalar import Element, Scalar
from hexcute_core.scalar.visit import walk
from hexcute_core.simulator.lanes.state import LaneState
from hexcute_core.simulator.lanes.values import Array, Value
from hexcute_core.synthesis.proof.tables import Table
from hexcute_core.thread.ir import Prim, Regs, SharedPtr, Stmt
from hexcute_core.thread.visit import statements
from hexcute_core.tile import Copy, GlobalView, TileProgram, TileRef

Numbers: TypeAlias = Callable[[NDArray[np.int64]], Array]
"""What the bytes at offsets of the arena hold."""
NUMBER_BYTES = 4
ASTRAY = -(1 << 20)


def named_side(program: TileProgram, op: Copy) -> tuple[GlobalView, int, TileRef] | None:
    """The view of `op` whose rows a tile names, along which dimension, and that tile."""
    for ref in (op.src, op.dst):
        view = program.tensor(ref.tensor)
        if isinstance(view, GlobalView) and view.named is not None and ref.rows is not None:
            return view, view.modes[view.named][0].dim, ref.rows
    return None


def numbers_at(
    view: GlobalView, rows: TileRef, first: Sequence[int], where: Sequence[Table], numbers: Table
) -> Table | None:
    """Of all the `numbers` of a tensor, those of the tile `rows` of it, which begins at `first`, at
    the indices `where` of the view's modes; None where the tile leaves its tensor."""
    ends = (at + extent for at, extent in zip(first, rows.extents))
    if view.named is None or min(first) < 0 or any(e > n for e, n in zip(ends, numbers.shape)):
        return None
    (mode,) = rows.kept
    index = [at + where[view.named] if m == mode else at for m, at in enumerate(first)]
    return np.asarray(numbers[tuple(index)])


def found_at(base: int, table: Table, numbers: Table) -> Numbers:
    """What lies in the arena where a tensor that holds `numbers`, laid out as `table`, begins at
    `base`."""
    held = {base + at * NUMBER_BYTES: number for at, number in zip(table.flat, numbers.flat)}
    return lambda offsets: np.array([held.get(at, ASTRAY) for at in offsets.tolist()], np.int32)


def lookups(body: Iterable[Stmt]) -> dict[str, Scalar]:
    """For each register that a number is read into: the byte of the arena where it lies."""
    found: dict[str, Scalar] = {}
    for stmt in statements(body):
        if isinstance(stmt, Prim) and stmt.op is None and stmt.name == "ld.shared.4":
            into, where = stmt.operands
            if isinstance(into, Regs) and isinstance(where, SharedPtr):
                found[into.array] = where.offset
    return found


def looked_up(e: Scalar, known: Mapping[str, Scalar]) -> list[Scalar]:
    """The bytes whose numbers `e` is made of."""
    arrays = [node.array for node in walk(e) if isinstance(node, Element)]
    return [known[array] for array in arrays if array in known]


class Lanes(LaneState):
    """Lanes that read the numbers of rows: `at` gives the byte where a register's lies."""

    def __init__(
        self,
        values: Mapping[str, Value],
        lanes: int,
        at: Callable[[LaneState, str], Value | None],
        numbers: Numbers | None,
    ) -> None:
        super().__init__(values, lanes, [(0, 0, 0)])
        self._at, self._numbers = at, numbers

    def element(self, array: str, indices: tuple[Value, ...]) -> Value:
        offset = self._at(self, array)
        if offset is None or self._numbers is None:
            return super().element(array, indices)
        return self._numbers(np.broadcast_to(np.asarray(offset, np.int64), self.lanes))
