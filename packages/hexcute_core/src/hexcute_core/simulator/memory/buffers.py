"""Global buffers: bytes[address] with bounds and alignment checked for every lane.

The bytes are a copy of the caller's array and go back when the run has ended well; of an array with
strides of its own they reach from its first element to its last, and those between that are not its
own are out of bounds. A pointer that does not promise 16-byte alignment is aligned to what it does
or its element, whatever numpy did: its base address is taken as so much and no more. Of a buffer
that the program writes, each granule knows its last writer and its readers, so that blocks and
threads that meet in it are found; and, as in shared memory, whether a fence has shown the async
proxy what threads wrote (`proxy`: UNFENCED, the writer's clock at its fence, or 0).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hexcute_core.dtypes import DType
from hexcute_core.simulator.lanes.values import Array
from hexcute_core.simulator.memory.clocks import (
    SITE_MASK,
    SITE_SHIFT,
    UNFENCED,
    WHO_MASK,
    AtomicKind,
    tags,
)
from hexcute_core.simulator.memory.readers import Slots
from hexcute_core.simulator.memory.shadow import Shadow, origin
from hexcute_core.simulator.memory.strided import laid, line, own, steps_of

if TYPE_CHECKING:
    from hexcute_core.simulator.actor import Actor


class GlobalBuffer:
    """The bytes behind one pointer parameter; `granule` is the smallest access to them, None
    where the program never writes them."""

    def __init__(
        self, name: str, dtype: DType, array: Array, aligned: bool, granule: int | None,
        begins: int = 1,
    ) -> None:
        self.name = name
        self.dtype = dtype
        self.array = array
        memory = line(array)
        self.size = memory.nbytes
        self.base = 0 if aligned else max(begins, dtype.bits // 8)
        self.changed = False
        self._own = None if array.flags.c_contiguous else np.repeat(own(array), array.itemsize)
        self._bytes = np.zeros(-(-self.size // 16) * 16, dtype=np.uint8)
        self._bytes[: self.size] = memory.view(np.uint8)
        self._views = {
            size: self._bytes.view(f"u{size}").reshape(-1, 1) for size in (1, 2, 4, 8)
        } | {16: self._bytes.view("u8").reshape(-1, 2)}
        self._granule = granule or 1
        self.shadow: Shadow | None = None
        if granule is not None:
            cells = len(self._bytes) // granule + 1
            self.shadow = Shadow(cells, Slots(cells), True, self.place)
            self._proxy = np.zeros(cells, dtype=np.int64)
            self._held = np.zeros(cells, dtype=np.int64)
            self._holder = np.zeros(cells, dtype=np.int64)

    def place(self, cell: int) -> str:
        """`byte b of name` of a granule."""
        return f"byte {cell * self._granule} of {self.name}"

    def cells(self, address: Array, size: int) -> Array:
        """Granules [n, size / granule] of accesses at byte `address` [n]."""
        first = address // self._granule
        return first[:, None] + np.arange(max(1, size // self._granule))

    def check(self, m: Actor, lanes: Array, address: Array, size: int, what: str) -> None:
        """Stops the run where an access is out of bounds or misaligned."""
        outside = (address < 0) | (address > self.size - size)
        if outside.any():
            which = int(np.flatnonzero(outside)[0])
            m.stop(
                "out of bounds",
                f"{what} of {size} bytes at byte {int(address[which])} is outside {self.name}, "
                f"which has {self.size} bytes",
                int(lanes[which]),
            )
        if self._own is not None and address.size:
            beside = ~self._own[address[:, None] + np.arange(size)].all(axis=1)
            if beside.any():
                which = int(np.flatnonzero(beside)[0])
                m.stop(
                    "out of bounds",
                    f"{what} of {size} bytes at byte {int(address[which])} of {self.name} touches "
                    "what lies between its rows",
                    int(lanes[which]),
                )
        crooked = (address + self.base) % size != 0
        if crooked.any():
            which = int(np.flatnonzero(crooked)[0])
            promise = "" if not self.base else ", whose pointer does not promise 16-byte alignment"
            m.stop(
                "misaligned access",
                f"{what} of {size} bytes at byte {int(address[which])} of {self.name}{promise} is "
                f"misaligned",
                int(lanes[which]),
            )

    def fence(self, m: Actor, lanes: Array) -> None:
        """What `lanes` wrote becomes visible to the async proxy, to whoever knows of this."""
        if self.shadow is not None:
            mine = np.isin(self.shadow.writer & WHO_MASK, m.who[lanes])
            self._proxy[mine & (self._proxy == UNFENCED)] = m.clock.now(lanes)

    def need_fence(self, m: Actor, lanes: Array, address: Array, size: int, does: str) -> None:
        """What threads wrote there must be known to the async proxy, which `does` something with
        `size` bytes at each `address`."""
        if self.shadow is None:
            return
        cells = self.cells(address, size)
        proxy, writer = self._proxy[cells], self.shadow.writer[cells]
        hidden = (proxy == UNFENCED) | ((proxy > 0) & m.clock.unordered(lanes, tags(
            proxy, 0, writer & WHO_MASK), True))  # fmt: skip
        if hidden.any():
            row, column = np.argwhere(hidden)[0]
            tag = int(writer[row, column])
            m.report(
                "missing fence",
                f"{does} {self.place(int(cells[row, column]))} through the async proxy, written "
                f"{origin(m, tag)} without a fence that comes before",
                int(lanes[row]),
                "let every writing thread execute fence.proxy.global before the barrier",
                m.sites[(tag >> SITE_SHIFT) & SITE_MASK],
            )

    def hold(self, m: Actor, address: Array, size: int) -> None:
        """Copies of the running statement may read there until `let_go`."""
        if self.shadow is not None:
            cells = self.cells(address, size)
            np.add.at(self._held, cells, 1)
            self._holder[cells] = m.site

    def let_go(self, m: Actor, lanes: Array, address: Array, size: int, what: str) -> None:
        """They have read, at the latest now."""
        if self.shadow is not None:
            cells = self.cells(address, size)
            np.subtract.at(self._held, cells, 1)
            self.shadow.read(m, lanes, cells, what)

    def _refuse_held(self, m: Actor, lanes: Array, cells: Array, what: str) -> None:
        held = self._held[cells] > 0
        if held.any():
            row, column = np.argwhere(held)[0]
            cell = int(cells[row, column])
            span = m.sites[int(self._holder[cell])]
            m.report(
                "use before wait",
                f"{what} writes {self.place(cell)} before the wait for the asynchronous copy that "
                f"reads it, issued at {span or 'an unknown line'}",
                int(lanes[row]),
                "wait for the copy's group, then synchronise the block, before this access",
                span,
            )

    def load(
        self, m: Actor, lanes: Array, address: Array, size: int, what: str,
        atomic: AtomicKind = "no",
    ) -> Array:  # fmt: skip
        """Bytes [n, size] at byte `address` [n] for `lanes` [n]."""
        self.check(m, lanes, address, size, what)
        if self.shadow is not None:
            self.shadow.read(m, lanes, self.cells(address, size), what, atomic=atomic)
        if address.size and int((address % size).any()):
            return self._bytes[address[:, None] + np.arange(size)]
        cells: Array = self._views[size][address // size]
        return cells.view(np.uint8)

    def store(
        self, m: Actor, lanes: Array, address: Array, raw: Array, what: str,
        atomic: AtomicKind = "no", generic: bool = True,
    ) -> None:  # fmt: skip
        """Writes bytes [n, size] at byte `address` [n], through the generic proxy or the async one;
        threads that meet must agree."""
        size = raw.shape[1]
        self.check(m, lanes, address, size, what)
        self.changed = True
        place = address[:, None] + np.arange(size)
        if self.shadow is not None:
            cells = self.cells(address, size)

            def same() -> Array:
                kept = (self._bytes[place] == raw).reshape(*cells.shape, -1)
                equal: Array = kept.all(axis=2)
                return equal

            self._refuse_held(m, lanes, cells, what)
            self.shadow.claim(m, lanes, cells, what, same, atomic)
            self.shadow.wrote(m, lanes, cells, m.site, atomic)
            self._proxy[cells] = UNFENCED if generic else 0
        if m.world.watched and (self._bytes[place] != raw).any():
            m.world.changes += 1
        self._bytes[place] = raw
        lost = (self._bytes[place] != raw).any(axis=1)
        if lost.any() and atomic == "no":
            which = int(np.flatnonzero(lost)[0])
            m.report(
                "race",
                f"{what}: two threads write different values to byte {int(address[which])} of "
                f"{self.name}",
                int(lanes[which]),
                other=m.span,
            )

    def holds_same(self, other: GlobalBuffer) -> bool:
        """Whether both hold the same bytes."""
        return bool(np.array_equal(self._bytes, other._bytes))

    def write_back(self) -> None:
        """Hands the bytes back to the caller's array, in place."""
        if not self.changed:
            return
        left = self._bytes[: self.size]
        if self._own is None:
            self.array.reshape(-1).view(np.uint8)[:] = left
        else:
            # What lies between its rows may be another argument's.
            elements = left.view(self.array.dtype)
            self.array[...] = laid(elements, self.array.shape, steps_of(self.array))
