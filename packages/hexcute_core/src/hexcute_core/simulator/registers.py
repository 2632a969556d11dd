"""regs[lane, offset + pieces[p] + j]: register arrays and the operands that name parts of them.

Each cell knows whether its lane has written it; reading one that was not is a finding, and copying
it to another, as where a tile is declared anew on one of two paths, makes that one such a cell. A
cell may
be locked by an asynchronous instruction that still reads or writes it: nobody may touch it then.
`stamp` says when lanes touched a column last, in the order in which they touch any, `sites` where.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexcute_core.dtypes import DType
from hexcute_core.errors import SimulationError, SourceSpan
from hexcute_core.simulator.lanes.values import Array, Value, storage
from hexcute_core.thread import Regs

if TYPE_CHECKING:
    from hexcute_core.simulator.machine import Machine


class RegisterArray:
    """Cells [lanes, size] of one element type, and which of them were written."""

    def __init__(self, name: str, dtype: DType, size: int, lanes: int) -> None:
        self.name = name
        self.dtype = dtype
        self.size = size
        self.cells = np.zeros((lanes, size), dtype=storage(dtype))
        self.written = np.zeros((lanes, size), dtype=np.bool_)
        self.stamp = np.zeros(size, dtype=np.int64)
        self.sites = np.zeros(size, dtype=np.int64)
        self._locks: dict[tuple[int, int], Lock] = {}

    def lock(
        self, key: tuple[int, int], lanes: Array, columns: slice | Array, reads: bool, site: int
    ) -> None:
        """An asynchronous instruction at `site` now uses cells [lanes, columns]: it only reads
        them (`reads`), so that others may read too, or it writes them."""
        places = np.zeros(self.cells.shape, dtype=np.bool_)
        places[np.ix_(lanes, np.arange(self.size)[columns])] = True
        self._locks[key] = Lock(places, reads, site)

    def unlock(self, key: tuple[int, int]) -> None:
        """The instruction that locked under `key` has finished."""
        self._locks.pop(key, None)

    def check_locks(self, m: Machine, columns: slice | Array | int, writes: bool) -> None:
        """Reports an executing lane that touches a locked cell."""
        for lock in self._locks.values():
            if lock.reads and not writes:
                continue
            taken = lock.places[m.active()][:, columns].reshape(len(m.active()), -1).any(axis=1)
            if taken.any():
                lane = int(m.active()[np.flatnonzero(taken)[0]])
                place = m.sites[lock.site]
                m.report(
                    "use before wait",
                    f"registers {self.name} are {'written' if writes else 'read'} before the wait "
                    f"for the asynchronous instruction that uses them, issued at "
                    f"{place or 'an unknown line'}",
                    lane,
                    "wait for the instruction's group before this use",
                    place,
                )

    @property
    def is_locked(self) -> bool:
        """Whether any cell is locked."""
        return bool(self._locks)


@dataclass(frozen=True)
class Lock:
    """The cells [lanes, size] an unfinished instruction uses, and where it was issued."""

    places: Array
    reads: bool
    site: int


def find_array(m: Machine, name: str) -> RegisterArray:
    """The register array `name`, or a located error."""
    array = m.registers.get(name)
    if array is None:
        m.fail(f"register array {name} is used before it is declared")
    return array


class RegOperand:
    """A `Regs` operand made ready: `offset` is compiled, pieces are flattened."""

    def __init__(self, regs: Regs, offset: Callable[[Machine], Value], site: SourceSpan | None):
        self.array = regs.array
        self.count = regs.count
        self.dtype = regs.dtype
        self._offset = offset
        self._site = site
        flat = [piece + j for piece in regs.pieces for j in range(regs.width)]
        self._low, self._high = min(flat), max(flat)
        self._dense = flat == list(range(flat[0], flat[0] + len(flat)))
        self._index = np.array(flat)

    def resolve(self, m: Machine) -> tuple[RegisterArray, slice | Array]:
        """The register array and the columns this operand names now."""
        array = find_array(m, self.array)
        if storage(array.dtype) != storage(self.dtype) or array.dtype.bits != self.dtype.bits:
            raise SimulationError(
                f"operand {self.array} is used as {self.dtype} and declared as {array.dtype}",
                self._site,
            )
        offset = self._offset(m)
        if not isinstance(offset, int):
            m.fail(f"the offset into registers {self.array} differs from thread to thread")
        if offset + self._low < 0 or offset + self._high >= array.size:
            m.stop(
                "out of bounds",
                f"registers {self.array}[{offset + self._low}..{offset + self._high}] are outside "
                f"the array of {array.size}",
            )
        if self._dense:
            start = offset + self._low
            return array, slice(start, start + self.count)
        return array, self._index + offset

    def read(self, m: Machine, lanes: Array) -> Array:
        """Cells [all lanes, count]; each of `lanes` must have written its own."""
        array, columns = self.resolve(m)
        _stamp(m, array, columns)
        return self.held(m, lanes)

    def held(self, m: Machine, lanes: Array) -> Array:
        """The same for an engine: no thread touches them."""
        array, columns = self.resolve(m)
        if array.is_locked:
            array.check_locks(m, columns, writes=False)
        written = array.written[:, columns]
        if not written.all():
            _check_written(m, array, written, lanes)
        cells: Array = array.cells[:, columns]
        return cells

    def write(self, m: Machine, cells: Array) -> None:
        """Stores cells [lanes, count] for the executing lanes."""
        array, columns = self.resolve(m)
        _touch(m, array, columns)
        if m.mask is None:
            array.cells[:, columns] = cells
            array.written[:, columns] = True
        elif isinstance(columns, slice):
            array.cells[m.mask, columns] = cells[m.mask]
            array.written[m.mask, columns] = True
        else:
            place = np.ix_(np.flatnonzero(m.mask), columns)
            array.cells[place] = cells[m.mask]
            array.written[place] = True


def _touch(m: Machine, array: RegisterArray, columns: slice | Array | int) -> None:
    """The executing lanes are about to write `columns`."""
    if array.is_locked:
        array.check_locks(m, columns, writes=True)
    _stamp(m, array, columns)


def _stamp(m: Machine, array: RegisterArray, columns: slice | Array | int) -> None:
    """The executing lanes touch `columns` now."""
    m.touches += 1
    array.stamp[columns] = m.touches
    array.sites[columns] = m.site


def _check_written(m: Machine, array: RegisterArray, written: Array, lanes: Array) -> None:
    missing = ~written[lanes].all(axis=1)
    if missing.any():
        lane = int(lanes[np.flatnonzero(missing)[0]])
        m.report(
            "uninitialised read", f"read of registers {array.name} that were never written", lane
        )


def read_element(m: Machine, name: str, index: Value) -> Array:
    """array[index] of every lane, as a fresh array."""
    cells, written = _element(m, name, index)
    if np.count_nonzero(written) < m.lanes:
        _check_written(m, find_array(m, name), written[:, None], m.active())
    return cells


def copy_element(m: Machine, source: str, place: Value, name: str, index: Value) -> None:
    """array[index] = source[place] for the executing lanes; nobody uses the number yet."""
    cells, written = _element(m, source, place)
    write_element(m, name, index, cells, written)


def _element(m: Machine, name: str, index: Value) -> tuple[Array, Array]:
    """array[index] of every lane, a fresh array, and whether it was written, which is not to
    change."""
    array = find_array(m, name)
    if isinstance(index, int):
        if not 0 <= index < array.size:
            m.stop(
                "out of bounds", f"{name}[{index}] is outside the register array of {array.size}"
            )
        if array.is_locked:
            array.check_locks(m, index, writes=False)
        _stamp(m, array, index)
        return array.cells[:, index].copy(), array.written[:, index]
    inside = _lane_index(m, array, index)
    _stamp(m, array, np.unique(inside))
    return array.cells[m.all_lanes, inside], array.written[m.all_lanes, inside]


def write_element(
    m: Machine, name: str, index: Value, value: Value, written: Array | None = None
) -> None:
    """array[index] = value for the executing lanes; `written`: whether each lane's is a number,
    which without it all are."""
    array = find_array(m, name)
    if isinstance(index, int):
        if not 0 <= index < array.size:
            m.stop(
                "out of bounds", f"{name}[{index}] is outside the register array of {array.size}"
            )
        _touch(m, array, index)
        if m.mask is None:
            array.cells[:, index] = value
            array.written[:, index] = True if written is None else written
        else:
            array.cells[m.mask, index] = value[m.mask] if isinstance(value, np.ndarray) else value
            array.written[m.mask, index] = True if written is None else written[m.mask]
        return
    inside = _lane_index(m, array, index)
    _touch(m, array, np.unique(inside))
    lanes = m.active()
    array.cells[lanes, inside[lanes]] = value[lanes] if isinstance(value, np.ndarray) else value
    array.written[lanes, inside[lanes]] = True if written is None else written[lanes]


def _lane_index(m: Machine, array: RegisterArray, index: Value) -> Array:
    """A per-lane index, checked for the executing lanes and clipped for the others."""
    places = np.asarray(index)
    wrong = (places < 0) | (places >= array.size)
    if wrong.any():
        lanes = m.active()
        bad = lanes[wrong[lanes]]
        if len(bad):
            lane = int(bad[0])
            m.stop(
                "out of bounds",
                f"{array.name}[{int(places[lane])}] is outside the register array of {array.size}",
                lane,
            )
        places = np.clip(places, 0, array.size - 1)
    return places
