"""Shared memory: bytes[address] whose granules know if they are initialised, in use, and by whom.

A granule is empty, ready, or in flight: an asynchronous copy is filling it (`holder` tags the
copy), and nobody may touch it until the copy has been waited for. What threads wrote is seen by the
async proxy (bulk copies, wgmma) after a fence of theirs: `proxy` keeps UNFENCED, or the writer's
clock at its fence, or 0 for what the async proxy wrote itself. What another block wrote, and what
copies brought that arrived by themselves (LANDED), is seen after a fence here by whoever knew of
it: `fences` keeps who knew what at each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexcute_core.simulator.lanes.values import Array
from hexcute_core.simulator.memory.clocks import (
    LANDED,
    NEVER,
    SITE_MASK,
    SITE_SHIFT,
    UNFENCED,
    WHO_MASK,
    AtomicKind,
    VectorClock,
    tags,
)
from hexcute_core.simulator.memory.readers import Columns
from hexcute_core.simulator.memory.shadow import Shadow, origin

if TYPE_CHECKING:
    from hexcute_core.simulator.actor import Actor

EMPTY, READY, IN_FLIGHT = 0, 1, 2


@dataclass(frozen=True)
class Fence:
    """A proxy fence: the tags of the lanes that executed it, and what they knew then."""

    by: Array
    knew: VectorClock


class SharedArena:
    """`size` bytes per block, for `blocks` blocks; `columns` units may read them. Where other
    blocks write as well, it is the arena of block number `home` of the launch."""

    def __init__(
        self, size: int, blocks: int, granule: int, columns: int = 1, home: int | None = None
    ) -> None:
        self.size, self.home = size, home
        self.granule = granule
        self.stride = -(-size // 16) * 16
        cells = blocks * self.stride // granule
        self.data = np.zeros((cells, granule), dtype=np.uint8)
        self.state = np.zeros(cells, dtype=np.uint8)
        self.holder = np.zeros(cells, dtype=np.int64)
        self.proxy = np.zeros(cells, dtype=np.int64)
        self.shadow = Shadow(cells, Columns(cells, columns), False, self.place)
        self.fences: list[Fence] = []
        self._barriers: Array | None = None

    def cells(
        self, m: Actor, lanes: Array, address: Array, size: int, what: str, align: int = 0
    ) -> Array:
        """Granule indices [n, size / granule] of an access, its bounds and alignment checked."""
        outside = (address < 0) | (address > self.size - size)
        if outside.any():
            which = int(np.flatnonzero(outside)[0])
            m.stop(
                "out of bounds",
                f"{what} of {size} bytes at byte {int(address[which])} is outside the shared "
                f"arena of {self.size} bytes",
                int(lanes[which]),
            )
        crooked = address % (align or size) != 0
        if crooked.any():
            which = int(np.flatnonzero(crooked)[0])
            m.stop(
                "misaligned access",
                f"{what} of {size} bytes at shared byte {int(address[which])} is misaligned, it "
                f"must be a multiple of {align or size}",
                int(lanes[which]),
            )
        first = (address + m.block_of[lanes] * self.stride) // self.granule
        cells: Array = first[:, None] + np.arange(size // self.granule)
        return cells

    def reserve(self, cells: Array) -> None:
        """A barrier lies in `cells` from now on: they hold no data."""
        if self._barriers is None:
            self._barriers = np.zeros(len(self.data), dtype=np.bool_)
        self._barriers[cells] = True

    def _refuse_barrier(self, m: Actor, lanes: Array, cells: Array, what: str) -> None:
        if self._barriers is not None and self._barriers[cells].any():
            row, column = np.argwhere(self._barriers[cells])[0]
            m.report(
                "barrier misuse",
                f"{what} touches {self.place(cells[row, column])}, where an mbarrier lies",
                int(lanes[row]),
                "keep data and barriers in bytes of their own",
            )

    def load(
        self, m: Actor, lanes: Array, cells: Array, what: str, many: bool = False,
        atomic: AtomicKind = "no",
    ) -> Array:  # fmt: skip
        """Bytes [n, size] of granules `cells` [n, k]; `many` and `atomic` as for Shadow."""
        self._refuse_barrier(m, lanes, cells, what)
        state = self.state[cells]
        if (state != READY).any():
            self._not_ready(m, lanes, cells, state, what)
        self.shadow.read(m, lanes, cells, what, many, atomic)
        return self.data[cells].reshape(len(lanes), -1)

    def claim(
        self, m: Actor, lanes: Array, cells: Array, what: str, raw: Array | None,
        atomic: AtomicKind = "no",
    ) -> None:  # fmt: skip
        """Checks that lanes may write `cells`: nobody else is using them.

        `raw`, the bytes of an immediate store, lets equal bytes be written by several lanes.
        """
        if what != "mbarrier.init":
            self._refuse_barrier(m, lanes, cells, what)
        state = self.state[cells]
        if (state == IN_FLIGHT).any():
            self._not_ready(m, lanes, cells, state, what)

        def same() -> Array:
            if raw is None:
                return np.zeros(cells.shape, dtype=np.bool_)
            equal: Array = (self.data[cells] == raw.reshape(*cells.shape, -1)).all(axis=2)
            return equal

        self.shadow.claim(m, lanes, cells, what, same, atomic)

    def store(
        self, m: Actor, lanes: Array, cells: Array, raw: Array, what: str, atomic: AtomicKind = "no"
    ) -> None:
        """Writes bytes [n, size] and marks them initialised."""
        self.claim(m, lanes, cells, what, raw, atomic)
        self.fill(m, lanes, cells, raw, m.site, what, atomic)

    def fill(
        self, m: Actor, lanes: Array, cells: Array, raw: Array, site: int, what: str,
        atomic: AtomicKind = "no", proxy: int = UNFENCED,
    ) -> None:  # fmt: skip
        """The bytes land: data and state, and `lanes` at `site` are the last writers, through the
        generic proxy, UNFENCED or LANDED, or the async one, 0."""
        self.put(m, lanes, cells, raw, what)
        self.state[cells] = READY
        self.proxy[cells] = proxy
        self.shadow.wrote(m, lanes, cells, site, atomic)

    def put(self, m: Actor, lanes: Array, cells: Array, raw: Array, what: str) -> None:
        """The bytes alone land; lanes that meet must agree."""
        parts = raw.reshape(*cells.shape, -1)
        if m.world.watched and (self.data[cells] != parts).any():
            m.world.changes += 1
        self.data[cells] = parts
        lost = (self.data[cells] != parts).any(axis=(1, 2))
        if lost.any():
            lane = int(lanes[np.flatnonzero(lost)[0]])
            message = f"{what}: two threads write different values to the same shared bytes"
            m.report("race", message, lane, other=m.span)

    def fence(self, m: Actor, lanes: Array) -> None:
        """What `lanes` wrote, or know to have landed, becomes visible to the async proxy, for those
        who know of this."""
        mine = np.isin(self.shadow.writer & WHO_MASK, m.who[lanes]) & (self.proxy == UNFENCED)
        self.proxy[mine] = m.clock.now(lanes)
        others = (self.proxy == LANDED).any() or self._foreign(m, self.shadow.writer).any()
        if isinstance(m.clock, VectorClock) and others:
            knew = m.clock.copy()
            knew.known = knew.shows(m.alone(lanes))
            m.world.adopt(knew)
            self.fences.append(Fence(tags(knew.time, 0, m.who[lanes]), knew))

    def _foreign(self, m: Actor, writer: Array) -> Array:
        """Which of the tags `writer` are those of threads of other blocks than the arena's."""
        if self.home is None:
            return np.zeros(writer.shape, dtype=np.bool_)
        block = m.world.ordinals(writer & WHO_MASK)
        other: Array = (writer != NEVER) & (block >= 0) & (block != self.home)
        return other

    def _fenced_here(self, m: Actor, writer: Array) -> Array:
        """Which of the writes `writer` were known at a fence that `m` knows of."""
        seen = np.zeros(writer.shape, dtype=np.bool_)
        for fence in reversed(self.fences):
            if not m.clock.unordered(m.block_of, fence.by, True).all():
                seen |= ~fence.knew.unordered(m.block_of, writer, True)
        return seen

    def load_async(self, m: Actor, lanes: Array, cells: Array, what: str) -> Array:
        """Bytes [n, size] as the async proxy reads them."""
        self._need_fence(m, lanes, cells, f"{what} reads")
        return self.load(m, lanes, cells, what)

    def claim_async(self, m: Actor, lanes: Array, cells: Array, what: str) -> None:
        """Checks that the async proxy may write `cells`, over what threads wrote there as well."""
        self._need_fence(m, lanes, cells, f"{what} writes")
        self.claim(m, lanes, cells, what, None)

    def _need_fence(self, m: Actor, lanes: Array, cells: Array, does: str) -> None:
        """What threads wrote to `cells` must be known to the async proxy, which `does` something
        there."""
        proxy, writer = self.proxy[cells], self.shadow.writer[cells]
        hidden = (proxy < 0) | ((proxy > 0) & m.clock.unordered(lanes, tags(
            proxy, 0, writer & WHO_MASK), False))  # fmt: skip
        foreign = hidden & (self._foreign(m, writer) | (proxy == LANDED))
        if foreign.any():
            hidden[foreign] = ~self._fenced_here(m, writer[foreign])
        if hidden.any():
            row, column = np.argwhere(hidden)[0]
            tag = int(writer[row, column])
            m.report(
                "missing fence",
                f"{does} {self.place(cells[row, column])} through the async proxy, written "
                f"{origin(m, tag)} without a fence that comes before",
                int(lanes[row]),
                "let every writing thread execute fence.proxy before the barrier, or, of what "
                "another block wrote or copies that arrived by themselves, whoever waited for it, "
                "after its wait",
                m.sites[(tag >> SITE_SHIFT) & SITE_MASK],
            )

    def hold(self, m: Actor, lanes: Array, cells: Array) -> None:
        """An asynchronous copy of the running statement now owns `cells`."""
        self.state[cells] = IN_FLIGHT
        self.holder[cells] = tags(m.clock.now(lanes), m.site, m.who[lanes])[:, None]

    def _not_ready(self, m: Actor, lanes: Array, cells: Array, state: Array, what: str) -> None:
        flying = state == IN_FLIGHT
        if flying.any():
            row, column = np.argwhere(flying)[0]
            tag = int(self.holder[cells[row, column]])
            m.report(
                "use before wait",
                f"{what} touches {self.place(cells[row, column])} before the wait for "
                f"the asynchronous copy that fills it, issued {origin(m, tag)}",
                int(lanes[row]),
                other=m.sites[(tag >> SITE_SHIFT) & SITE_MASK],
                fix="wait for the copy's group, then synchronise the block, before this access",
            )
            return
        row, column = np.argwhere(state == EMPTY)[0]
        m.report(
            "uninitialised read",
            f"{what} reads {self.place(cells[row, column])}, which was never written",
            int(lanes[row]),
        )

    def place(self, cell: int) -> str:
        """`shared byte b` of a granule."""
        return f"shared byte {int(cell) * self.granule % max(self.stride, 1)}"
