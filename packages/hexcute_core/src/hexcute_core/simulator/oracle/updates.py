"""Atomic updates of whole tiles and of one element per lane, as a tile program means them.

Elements that lie in one place, as rows that a tile names twice, are updated one after another, in
the order of the tile or of the lanes; a sum of f32 in global memory takes subnormals for zeros.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hexcute_core import dtypes
from hexcute_core.arch.updates import UpdateOp
from hexcute_core.dtypes import DType
from hexcute_core.scalar import Scalar
from hexcute_core.simulator.lanes.values import Array, Value, storage
from hexcute_core.simulator.oracle.scope import Scope
from hexcute_core.simulator.oracle.tiles import Index, TileMemory
from hexcute_core.tile import Copy, UpdateElement
from hexcute_core.unions import assert_never


def update_tile(memory: TileMemory, stmt: Copy, at: Index) -> None:
    """A copy that updates what it would write."""
    update, span = stmt.update, stmt.span
    assert update is not None
    new = memory.read(stmt.src, at, span)
    compare = None if update.compare is None else memory.read(update.compare, at, span)
    view = memory.views.get(stmt.dst.tensor)
    if view is None:
        old = memory.read(stmt.dst, at, span)
        memory.write(stmt.dst, updated(update.op, old, new, compare), at, span)
    else:
        buffer, place, inside = memory.locate(view, stmt.dst, at, span)
        old = np.zeros(new.shape, new.dtype)
        held = None if compare is None else compare[inside]
        old[inside] = _in_turns(
            update.op, buffer.cells, place[inside], new[inside], held, view.dtype == dtypes.f32
        )
    if update.old is not None:
        memory.write(update.old, old, at, span)


def update_element(
    memory: TileMemory,
    stmt: UpdateElement,
    scope: Scope,
    value: Callable[[Scalar], Value],
) -> None:
    """Every running lane's update of its element; `value` evaluates on all lanes."""
    dtype, lanes = memory.dtype(stmt.dst), scope.active()

    def cells(e: Scalar, kind: DType) -> Array:
        return np.broadcast_to(np.asarray(value(e), storage(kind)), scope.lanes)[lanes]

    new = cells(stmt.value, dtype)
    compare = None if stmt.compare is None else cells(stmt.compare, dtype)
    starts = [cells(e, dtypes.i64) for e in stmt.dst.starts]
    view = memory.views.get(stmt.dst.tensor)
    if view is None:
        tile = memory.local[stmt.dst.tensor]
        shape, coords, flat = tile.shape, starts, tile.cells.reshape(-1)
    else:
        buffer = memory.buffers[view.param]
        coords = [cells(e, dtypes.i64) for e in view.origin]
        for (sub,), start in zip(view.modes, starts, strict=True):
            coords[sub.dim] = coords[sub.dim] + start * cells(sub.step, dtypes.i64)
        shape, flat = buffer.shape, buffer.cells
    inside, place = np.ones(len(lanes), np.bool_), np.zeros(len(lanes), np.int64)
    for coordinate, extent in zip(coords, shape, strict=True):
        inside &= (coordinate >= 0) & (coordinate < extent)
        place = place * extent + coordinate
    if view is None and not tile.written.reshape(-1)[place[inside]].all():
        scope.fail(f"{tile.name} is updated before it was written")
    held = None if compare is None else compare[inside]
    old = np.zeros(scope.lanes, new.dtype)
    rounds = view is not None and dtype == dtypes.f32
    old[lanes[inside]] = _in_turns(stmt.op, flat, place[inside], new[inside], held, rounds)
    if stmt.old is not None:
        scope.vars[stmt.old.name] = old


def _in_turns(
    op: UpdateOp, flat: Array, place: Array, new: Array, compare: Array | None, flushes: bool
) -> Array:
    """Updates `flat` at `place` [n], those that meet one after another, and gives what was there
    before each."""
    old = np.zeros(len(place), flat.dtype)
    order = np.argsort(place, kind="stable")
    ranked = place[order]
    starts = np.flatnonzero(np.r_[np.ones(min(1, len(place)), np.bool_), ranked[1:] != ranked[:-1]])
    turn = np.arange(len(place)) - np.repeat(starts, np.diff(np.r_[starts, len(place)]))
    for now in range(int(turn.max(initial=-1)) + 1):
        mine = order[turn == now]
        old[mine] = flat[place[mine]]
        held = None if compare is None else compare[mine]
        flat[place[mine]] = updated(op, old[mine], new[mine], held, flushes)
    return old


def updated(
    op: UpdateOp, old: Array, new: Array, compare: Array | None, flushes: bool = False
) -> Array:
    """What becomes of cells, in their own type."""
    match op:
        case "add":
            total = _flushed(_flushed(old) + _flushed(new)) if flushes else old + new
            return total.astype(old.dtype)
        case "min":
            return np.minimum(old, new)
        case "max":
            return np.maximum(old, new)
        case "and":
            return old & new
        case "or":
            return old | new
        case "xor":
            return old ^ new
        case "exch":
            return new
        case "cas":
            assert compare is not None
            return np.where(old == compare, new, old)
        case _:
            assert_never(op)


def _flushed(cells: Array) -> Array:
    """Zeros of the same sign for subnormals."""
    tiny = np.abs(cells) < np.finfo(cells.dtype).tiny
    return np.where(tiny, np.copysign(np.zeros_like(cells), cells), cells)
