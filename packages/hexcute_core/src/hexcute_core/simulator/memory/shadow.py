"""Shadow = who wrote and who read each granule of a memory last: the races of it.

granule = the smallest access of the program to that memory. Two accesses race if one of them
writes, they are by different threads, they are not atomic to each other, and neither is known to
come before the other. Of readers as many are kept as a writer must know of (`readers.py`).
`released` keeps what the last release to a granule hands on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from hexcute_core.simulator.lanes.state import Block
from hexcute_core.simulator.lanes.values import Array
from hexcute_core.simulator.memory.clocks import (
    ATOMIC,
    MANY,
    MARKS,
    NEAR,
    SITE_MASK,
    SITE_SHIFT,
    WHO_MASK,
    AtomicKind,
    tags,
)
from hexcute_core.simulator.memory.readers import Columns, Slots, differ

if TYPE_CHECKING:
    from hexcute_core.simulator.actor import Actor
    from hexcute_core.simulator.instructions.ordering import Released

Same = Callable[[], Array]


class Shadow:
    """Tags of `cells` granules; `place` names a granule in a message, `across` says whether
    threads of several blocks reach it."""

    def __init__(
        self, cells: int, readers: Columns | Slots, across: bool, place: Callable[[int], str]
    ) -> None:
        self.writer = np.zeros(cells, dtype=np.int64)
        self._readers = readers
        self.released: dict[int, Released] = {}
        self.across = across
        self._place = place

    def read(
        self, m: Actor, lanes: Array, cells: Array, what: str, many: bool = False,
        atomic: AtomicKind = "no",
    ) -> None:  # fmt: skip
        """`lanes` [n] read granules `cells` [n, k].

        With `many` the bytes go to other lanes of the warp too, so no lane's own write covers
        them.
        """
        mark = (MANY if many else 0) | MARKS[atomic]
        mine = (tags(m.clock.now(lanes), m.site, m.who[lanes]) | mark)[:, None]
        self._check(m, lanes, cells, self.writer[cells], mine, what, "written")
        self._readers.note(m, lanes, cells, mine, self.across)

    def claim(
        self, m: Actor, lanes: Array, cells: Array, what: str,
        same: Same | None = None, atomic: AtomicKind = "no",
    ) -> None:  # fmt: skip
        """Checks that `lanes` may write `cells`: no unordered access by another thread.

        `same` tells which granules' bytes [n, k] the write leaves as they are: several threads
        may write those at once, by one statement. Two statements that happen to write equal bytes
        would write others of other data.
        """
        mine = (tags(m.clock.now(lanes), m.site, m.who[lanes]) | MARKS[atomic])[:, None]
        if atomic != "no":
            # What an update leaves as it is, another may have been about to change.
            same = None
        self._check(m, lanes, cells, self.writer[cells], mine, what, "written", same)
        self._check(m, lanes, cells, self._readers.of(cells), mine[:, :, None], what, "read")

    def wrote(
        self, m: Actor, lanes: Array, cells: Array, site: int, atomic: AtomicKind = "no"
    ) -> None:
        """`lanes` are the last writers of `cells`, by the statement at `site`."""
        mine = tags(m.clock.now(lanes), site, m.who[lanes]) | MARKS[atomic]
        self.writer[cells] = mine[:, None]

    def _check(
        self, m: Actor, lanes: Array, cells: Array, tag: Array, mine: Array, what: str, was: str,
        same: Same | None = None,
    ) -> None:  # fmt: skip
        clash = m.clock.unordered(lanes, tag, self.across)
        if not clash.any():
            return
        clash &= differ(tag, mine) & ~self._atomic(m, tag, mine)
        if same is not None and clash.any():
            one = ((tag ^ mine) >> SITE_SHIFT) & SITE_MASK == 0
            clash &= ~(same() & one)
        if clash.any():
            place = tuple(np.argwhere(clash)[0])
            row, column = int(place[0]), int(place[1])
            lane, earlier = int(lanes[row]), int(tag[place])
            atomic = bool(np.broadcast_to(mine, tag.shape)[place] & ATOMIC)
            self._race(m, lane, int(cells[row, column]), earlier, what, was, atomic)

    def _atomic(self, m: Actor, tag: Array, mine: Array) -> Array:
        """Where two accesses are atomic to each other."""
        both: Array = (tag & mine & ATOMIC) != 0
        near = both & ((tag | mine) & NEAR != 0)
        if self.across and near.any():
            one, other = (m.world.ordinals(t & WHO_MASK) for t in np.broadcast_arrays(tag, mine))
            both = both & ~(near & (one != other))
        return both

    def _race(
        self, m: Actor, lane: int, cell: int, earlier: int, what: str, was: str, atomic: bool
    ) -> None:
        engine = m.world.is_engine(earlier & WHO_MASK)
        home = m.blocks[int(m.block_of[lane])]
        apart = m.world.describe(earlier & WHO_MASK)[1] != home
        far = "apart" if self.across else "cluster"
        # Atomic, but not to each other.
        narrow = apart and earlier & ATOMIC and atomic
        way = "engine" if engine else "scope" if narrow else far if apart else "barrier"
        missing, fix = _ADVICE[way]
        m.report(
            "race",
            f"race on {self._place(cell)}: {what} here, {was} "
            f"{origin(m, earlier, home)}, {missing}",
            lane=lane,
            other=m.sites[(earlier >> SITE_SHIFT) & SITE_MASK],
            fix=fix,
        )


_ADVICE = {
    "engine": (
        "which nothing has waited for",
        "wait for it, and synchronise with whoever waited, before this access",
    ),
    "apart": (
        "with nothing that orders the two blocks",
        "order them by an atomic flag: a release after the first, an acquire before this",
    ),
    "scope": (
        "which is atomic to the threads of one block alone, and these are of two",
        'widen the scope of both: scope="gpu", which is what leaving it out means',
    ),
    "cluster": (
        "with nothing that orders the two blocks",
        "let the blocks of a cluster meet between the two: hx.cluster_sync()",
    ),
    "barrier": ("no barrier between", "put a block-wide barrier between the two"),
}


def origin(m: Actor, tag: int, home: Block | None = None) -> str:
    """`at file:line by thread t` of a tag, with the block where that is not `home`, or none that
    runs here."""
    span = m.sites[(tag >> SITE_SHIFT) & SITE_MASK]
    place = "at an unknown line" if span is None else f"at {span}"
    if tag & MANY:
        return f"{place} by several threads"
    name, block = m.world.describe(tag & WHO_MASK)
    near = block in m.blocks if home is None else block == home
    return f"{place} by {name}" + ("" if near else f" of block {block}")
