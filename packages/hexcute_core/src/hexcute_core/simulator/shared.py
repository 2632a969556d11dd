"""Shared memory with shadow state: every granule knows if it is initialised and who touched it.

granule = the smallest access of the program. A granule's tags pack (epoch, site, lane); the epoch
of a lane counts the barriers it passed, so two accesses by different lanes in one epoch are
unordered, and one of them being a write makes them a race. A granule that an asynchronous copy
is filling may not be touched by anybody until the wait of the lane that issued it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hexcute_core.simulator.values import Array

if TYPE_CHECKING:
    from hexcute_core.simulator.machine import Machine

EMPTY, READY, IN_FLIGHT = 0, 1, 2
LANE_BITS, SITE_BITS = 20, 20
LANE_MASK = (1 << LANE_BITS) - 1
SITE_MASK = (1 << SITE_BITS) - 1
MANY = LANE_MASK
EPOCH_SHIFT = LANE_BITS + SITE_BITS


class SharedArena:
    """`size` bytes a block, for a batch of `blocks`."""

    def __init__(self, size: int, blocks: int, granule: int) -> None:
        self.size = size
        self.granule = granule
        self.stride = -(-size // 16) * 16
        cells = blocks * self.stride // granule
        self.data = np.zeros((cells, granule), dtype=np.uint8)
        self.state = np.zeros(cells, dtype=np.uint8)
        self.writer = np.full(cells, -1, dtype=np.int64)
        self.reader = np.full(cells, -1, dtype=np.int64)

    def cells(
        self, m: Machine, lanes: Array, address: Array, size: int, what: str, align: int = 0
    ) -> Array:
        """Granule indices [n, size / granule] of an access, its bounds and alignment checked."""
        outside = (address < 0) | (address > self.size - size)
        if outside.any():
            which = int(np.flatnonzero(outside)[0])
            m.fail(
                f"{what} of {size} bytes at byte {int(address[which])} is outside the shared "
                f"arena of {self.size} bytes",
                int(lanes[which]),
            )
        crooked = address % (align or size) != 0
        if crooked.any():
            which = int(np.flatnonzero(crooked)[0])
            m.fail(
                f"{what} of {size} bytes at shared byte {int(address[which])} is misaligned, it "
                f"must be a multiple of {align or size}",
                int(lanes[which]),
            )
        first = (address + m.block_of[lanes] * self.stride) // self.granule
        return first[:, None] + np.arange(size // self.granule)

    def load(self, m: Machine, lanes: Array, cells: Array, what: str, many: bool = False) -> Array:
        """Bytes [n, size] of granules `cells` [n, k].

        With `many` the bytes go to other lanes of the warp too, so no lane's own write covers
        them.
        """
        state = self.state[cells]
        if (state != READY).any():
            self._not_ready(m, lanes, cells, state, what)
        me = (np.full(len(lanes), MANY) if many else lanes)[:, None]
        now = m.epoch[lanes][:, None]
        writer = self.writer[cells]
        clash = (writer >> EPOCH_SHIFT == now) & ((writer & LANE_MASK) != me)
        if clash.any():
            self._race(m, lanes, cells, clash, self.writer, what, "written")
        tag = (now << EPOCH_SHIFT) | (m.site << LANE_BITS) | me
        earlier = self.reader[cells]
        shared = (earlier >> EPOCH_SHIFT == now) & ((earlier & LANE_MASK) != me)
        self.reader[cells] = np.where(shared, tag | MANY, tag)
        landed = self.reader[cells]
        doubled = (landed & LANE_MASK) != me
        if doubled.any():
            self.reader[cells[doubled]] = landed[doubled] | MANY
        return self.data[cells].reshape(len(lanes), -1)

    def claim(self, m: Machine, lanes: Array, cells: Array, what: str, raw: Array | None) -> None:
        """Checks that lanes may write `cells`: no unordered access by another lane.

        `raw`, the bytes of an immediate store, lets equal bytes be written by several lanes.
        """
        state = self.state[cells]
        if (state == IN_FLIGHT).any():
            self._not_ready(m, lanes, cells, state, what)
        me = lanes[:, None]
        now = m.epoch[lanes][:, None]
        writer = self.writer[cells]
        clash = (writer >> EPOCH_SHIFT == now) & ((writer & LANE_MASK) != me)
        if clash.any():
            if raw is not None:
                clash &= (self.data[cells] != raw.reshape(*cells.shape, -1)).any(axis=2)
            if clash.any():
                self._race(m, lanes, cells, clash, self.writer, what, "written")
        reader = self.reader[cells]
        clash = (reader >> EPOCH_SHIFT == now) & ((reader & LANE_MASK) != me)
        if clash.any():
            self._race(m, lanes, cells, clash, self.reader, what, "read")

    def store(self, m: Machine, lanes: Array, cells: Array, raw: Array, what: str) -> None:
        """Writes bytes [n, size] and marks them initialised."""
        self.claim(m, lanes, cells, what, raw)
        self.fill(m, lanes, cells, raw, m.site, what)

    def fill(
        self, m: Machine, lanes: Array, cells: Array, raw: Array, site: int, what: str
    ) -> None:
        """The bytes land: data, state and writer are those of `lanes` at `site`."""
        parts = raw.reshape(*cells.shape, -1)
        self.data[cells] = parts
        lost = (self.data[cells] != parts).any(axis=(1, 2))
        if lost.any():
            lane = int(lanes[np.flatnonzero(lost)[0]])
            m.fail(f"{what}: two threads write different values to the same shared bytes", lane)
        self.state[cells] = READY
        self.writer[cells] = self._tag(m, lanes, site)

    def hold(self, m: Machine, lanes: Array, cells: Array) -> None:
        """An asynchronous copy of the running statement now owns `cells`."""
        self.state[cells] = IN_FLIGHT
        self.writer[cells] = self._tag(m, lanes, m.site)

    @staticmethod
    def _tag(m: Machine, lanes: Array, site: int) -> Array:
        tag: Array = (m.epoch[lanes] << EPOCH_SHIFT) | (site << LANE_BITS) | lanes
        return tag[:, None]

    def _not_ready(self, m: Machine, lanes: Array, cells: Array, state: Array, what: str) -> None:
        flying = state == IN_FLIGHT
        if flying.any():
            row, column = np.argwhere(flying)[0]
            tag = int(self.writer[cells[row, column]])
            m.fail(
                f"{what} touches shared byte {self._byte(cells[row, column])} before the wait for "
                f"the asynchronous copy that fills it, issued {_origin(m, tag)}",
                int(lanes[row]),
                fix="wait for the copy's group, then synchronise the block, before this access",
            )
        row, column = np.argwhere(state == EMPTY)[0]
        m.fail(
            f"{what} reads shared byte {self._byte(cells[row, column])}, which was never written",
            int(lanes[row]),
        )

    def _race(
        self, m: Machine, lanes: Array, cells: Array, clash: Array, tags: Array, what: str, was: str
    ) -> None:
        row, column = np.argwhere(clash)[0]
        tag = int(tags[cells[row, column]])
        m.fail(
            f"race on shared byte {self._byte(cells[row, column])}: {what} here, {was} "
            f"{_origin(m, tag)}, no barrier between",
            int(lanes[row]),
            fix="put a block-wide barrier between the two",
        )

    def _byte(self, cell: int) -> int:
        return int(cell) * self.granule % max(self.stride, 1)


def _origin(m: Machine, tag: int) -> str:
    """`at file:line by thread t` of a tag."""
    lane = tag & LANE_MASK
    span = m.sites[(tag >> LANE_BITS) & SITE_MASK]
    place = "at an unknown line" if span is None else f"at {span}"
    who = "several threads" if lane == MANY else f"thread {lane % m.threads}"
    return f"{place} by {who}"
