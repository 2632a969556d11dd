"""Global buffers: bytes[address] with bounds and alignment checked for every lane.

The bytes are a copy of the caller's array and go back when the run has ended well. A pointer
that does not promise 16-byte alignment is aligned to its element only, whatever numpy did: its
base address is taken as one element.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hexcute_core.dtypes import DType
from hexcute_core.simulator.values import Array

if TYPE_CHECKING:
    from hexcute_core.simulator.machine import Machine


class GlobalBuffer:
    """The bytes behind one pointer parameter."""

    def __init__(self, name: str, dtype: DType, array: Array, aligned: bool) -> None:
        self.name = name
        self.dtype = dtype
        self.array = array
        self.size = array.nbytes
        self.base = 0 if aligned else max(1, dtype.bits // 8)
        self.changed = False
        self._bytes = np.zeros(-(-array.nbytes // 16) * 16, dtype=np.uint8)
        self._bytes[: self.size] = array.reshape(-1).view(np.uint8)
        self._views = {
            size: self._bytes.view(f"u{size}").reshape(-1, 1) for size in (1, 2, 4, 8)
        } | {16: self._bytes.view("u8").reshape(-1, 2)}

    def _check(self, m: Machine, lanes: Array, address: Array, size: int, what: str) -> None:
        outside = (address < 0) | (address > self.size - size)
        if outside.any():
            which = int(np.flatnonzero(outside)[0])
            m.fail(
                f"{what} of {size} bytes at byte {int(address[which])} is outside {self.name}, "
                f"which has {self.size} bytes",
                int(lanes[which]),
            )
        crooked = (address + self.base) % size != 0
        if crooked.any():
            which = int(np.flatnonzero(crooked)[0])
            promise = "" if not self.base else ", whose pointer does not promise 16-byte alignment"
            m.fail(
                f"{what} of {size} bytes at byte {int(address[which])} of {self.name}{promise} is "
                f"misaligned",
                int(lanes[which]),
            )

    def load(self, m: Machine, lanes: Array, address: Array, size: int, what: str) -> Array:
        """Bytes [n, size] at byte `address` [n] for `lanes` [n]."""
        self._check(m, lanes, address, size, what)
        if address.size and int((address % size).any()):
            return self._bytes[address[:, None] + np.arange(size)]
        cells: Array = self._views[size][address // size]
        return cells.view(np.uint8)

    def store(self, m: Machine, lanes: Array, address: Array, raw: Array, what: str) -> None:
        """Writes bytes [n, size] at byte `address` [n]; lanes that meet must agree."""
        self._check(m, lanes, address, raw.shape[1], what)
        self.changed = True
        place = address[:, None] + np.arange(raw.shape[1])
        self._bytes[place] = raw
        lost = (self._bytes[place] != raw).any(axis=1)
        if lost.any():
            which = int(np.flatnonzero(lost)[0])
            m.fail(
                f"{what}: two threads write different values to byte {int(address[which])} of "
                f"{self.name}",
                int(lanes[which]),
            )

    def write_back(self) -> None:
        """Hands the bytes back to the caller's array, in place."""
        if self.changed:
            self.array.reshape(-1).view(np.uint8)[:] = self._bytes[: self.size]
