"""Readers of granules, as many as a later writer must know of.

Of memory that a block's units read, each unit has a column: its last read. Of memory that all
blocks read there are too many units for that: a granule has slots, one for each unit whose read
nobody who read later is known to have come after. Whoever is ordered behind the later one is
behind both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hexcute_core.simulator.lanes.values import Array
from hexcute_core.simulator.memory.clocks import MANY, NEVER, WHO_MASK, BlockClock

if TYPE_CHECKING:
    from hexcute_core.simulator.actor import Actor

FEWEST, MOST = 2, 64


class Columns:
    """The last read of each of `columns` units."""

    def __init__(self, cells: int, columns: int) -> None:
        self._tags = np.zeros((cells, columns), dtype=np.int64)

    def of(self, cells: Array) -> Array:
        """The tags of the readers of `cells` [n, k], along a last axis."""
        tags: Array = self._tags[cells]
        return tags

    def note(self, m: Actor, lanes: Array, cells: Array, mine: Array, across: bool) -> None:
        """`lanes` [n] have read `cells` [n, k], tagged `mine` [n, 1]."""
        column = m.column if self._tags.shape[1] > 1 else 0
        _keep(m, lanes, self._tags, cells, np.full(cells.shape, column), mine, across)


class Slots:
    """The reads of a granule that are not known to be over; the slots grow with their number."""

    def __init__(self, cells: int) -> None:
        self._tags = np.zeros((cells, FEWEST), dtype=np.int64)

    def of(self, cells: Array) -> Array:
        """As for Columns."""
        tags: Array = self._tags[cells]
        return tags

    def note(self, m: Actor, lanes: Array, cells: Array, mine: Array, across: bool) -> None:
        """As for Columns."""
        if not isinstance(m.clock, BlockClock):
            self._note(m, lanes, cells, mine, across)
            return
        # Blocks side by side read one granule in one call: one after another.
        block = m.block_of[lanes]
        for one in np.unique(block):
            rows = block == one
            self._note(m, lanes[rows], cells[rows], mine[rows], across)

    def _note(self, m: Actor, lanes: Array, cells: Array, mine: Array, across: bool) -> None:
        held = self._tags[cells]
        free = (held == NEVER) | ~m.clock.unordered(lanes, held, across)
        free |= m.clock.own(lanes, held)
        slot = free.argmax(axis=2)
        full = ~free.any(axis=2)
        # In lockstep nothing orders blocks: of readers of two blocks one races with any writer.
        if full.any() and not isinstance(m.clock, BlockClock) and held.shape[2] < MOST:
            self._tags = np.pad(self._tags, ((0, 0), (0, held.shape[2])))
            slot[full] = held.shape[2]
            full[:] = False
        rows, columns = np.nonzero(~full)
        if len(rows):
            cells, slot = cells[rows, columns][:, None], slot[rows, columns][:, None]
            _keep(m, lanes[rows], self._tags, cells, slot, mine[rows], across)


def _keep(
    m: Actor, lanes: Array, tags: Array, cells: Array, slot: Array, mine: Array, across: bool
) -> None:
    """Puts `mine` [n, 1] into `tags[cells, slot]`: as several threads', where others of its unit
    read there and are not known to be done."""
    earlier = tags[cells, slot]
    fresh = m.clock.unordered(lanes, earlier, across) & differ(earlier, mine)
    tags[cells, slot] = np.where(fresh, mine | MANY, mine)
    landed = tags[cells, slot]
    doubled = (landed & WHO_MASK) != (mine & WHO_MASK)
    if doubled.any():
        tags[cells[doubled], slot[doubled]] = landed[doubled] | MANY


def differ(tag: Array, mine: Array) -> Array:
    """Where two accesses are not both by one and the same thread for itself."""
    other: Array = ((tag ^ mine) & WHO_MASK != 0) | ((tag | mine) & MANY != 0)
    return other
