"""regs[lane, offset + pieces[p] + j]: register arrays and the operands that name parts of them.

Each cell knows whether its lane has written it; reading one that was not is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from hexcute_core.dtypes import DType
from hexcute_core.errors import SimulationError, SourceSpan
from hexcute_core.simulator.values import Array, Value, storage
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
            m.fail(
                f"registers {self.array}[{offset + self._low}..{offset + self._high}] are outside "
                f"the array of {array.size}"
            )
        if self._dense:
            start = offset + self._low
            return array, slice(start, start + self.count)
        return array, self._index + offset

    def read(self, m: Machine, lanes: Array) -> Array:
        """Cells [all lanes, count]; each of `lanes` must have written its own."""
        array, columns = self.resolve(m)
        written = array.written[:, columns]
        if not written.all():
            _check_written(m, array, written, lanes)
        cells: Array = array.cells[:, columns]
        return cells

    def write(self, m: Machine, cells: Array) -> None:
        """Stores cells [lanes, count] for the executing lanes."""
        array, columns = self.resolve(m)
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


def _check_written(m: Machine, array: RegisterArray, written: Array, lanes: Array) -> None:
    missing = ~written[lanes].all(axis=1)
    if missing.any():
        lane = int(lanes[np.flatnonzero(missing)[0]])
        m.fail(f"read of registers {array.name} that were never written", lane)


def read_element(m: Machine, name: str, index: Value) -> Array:
    """array[index] of every lane, as a fresh array."""
    array = find_array(m, name)
    if isinstance(index, int):
        if not 0 <= index < array.size:
            m.fail(f"{name}[{index}] is outside the register array of {array.size}")
        written = array.written[:, index : index + 1]
        if not written.all():
            _check_written(m, array, written, m.active())
        column: Array = array.cells[:, index].copy()
        return column
    inside = _lane_index(m, array, index)
    written = array.written[m.all_lanes, inside][:, None]
    if not written.all():
        _check_written(m, array, written, m.active())
    cells: Array = array.cells[m.all_lanes, inside]
    return cells


def write_element(m: Machine, name: str, index: Value, value: Value) -> None:
    """array[index] = value for the executing lanes."""
    array = find_array(m, name)
    if isinstance(index, int):
        if not 0 <= index < array.size:
            m.fail(f"{name}[{index}] is outside the register array of {array.size}")
        if m.mask is None:
            array.cells[:, index] = value
            array.written[:, index] = True
        else:
            array.cells[m.mask, index] = value[m.mask] if isinstance(value, np.ndarray) else value
            array.written[m.mask, index] = True
        return
    inside = _lane_index(m, array, index)
    lanes = m.active()
    array.cells[lanes, inside[lanes]] = value[lanes] if isinstance(value, np.ndarray) else value
    array.written[lanes, inside[lanes]] = True


def _lane_index(m: Machine, array: RegisterArray, index: Value) -> Array:
    """A per-lane index, checked for the executing lanes and clipped for the others."""
    places = np.asarray(index)
    wrong = (places < 0) | (places >= array.size)
    if wrong.any():
        lanes = m.active()
        bad = lanes[wrong[lanes]]
        if len(bad):
            lane = int(bad[0])
            m.fail(
                f"{array.name}[{int(places[lane])}] is outside the register array of {array.size}",
                lane,
            )
        places = np.clip(places, 0, array.size - 1)
    return places
