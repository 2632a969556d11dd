"""Tiles of the stand-in for `hx`: parts, arithmetic, and what a kernel reads and writes."""

from __future__ import annotations

import numpy as np

from hexcute_core.dtypes import boolean
from random_kernels.cells import Cells, Invalid, exact


class SlotNumber(int):
    """The number of a pipeline's slot, counted without an end: no slot is used twice."""


class Tile:
    """A tile in registers or shared memory; arithmetic makes new ones in registers."""

    def __init__(self, machine, dtype, cells, rings=None):
        self.machine, self.dtype, self.cells = machine, dtype, cells
        # A shared tensor's slots, each with memory of its own.
        self.rings = rings if rings is not None else {}

    @property
    def shape(self):
        return self.cells.values.shape

    @property
    def shared(self):
        return self.cells.read is not None

    @property
    def nbytes(self):
        return self.cells.values.size * self.dtype.bits // 8

    def load(self):
        return self.cells.load(self.machine.epoch)

    def store(self, values, later=False):
        self.cells.store(values, self.dtype, self.machine.epoch, later)

    def _at(self, index):
        entries = index if isinstance(index, tuple) else (index,)
        for mode, entry in enumerate(entries):
            if isinstance(entry, SlotNumber):
                rest = tuple(e for m, e in enumerate(entries) if m != mode)
                shape = tuple(e for m, e in enumerate(self.shape) if m != mode)
                cells = self.rings.setdefault(
                    (mode, int(entry)), Cells.new(self.dtype, shape, True)
                )
                return cells.part(rest)
        for entry, extent in zip(entries, self.shape):
            start, stop = (
                (entry.start or 0, extent if entry.stop is None else entry.stop)
                if isinstance(entry, slice)
                else (int(entry), int(entry) + 1)
            )
            if not 0 <= start < stop <= extent:
                raise Invalid(f"[{start}, {stop}) of a mode of {extent}")
        return self.cells.part(entries)

    def _element(self, index):
        entries = index if isinstance(index, tuple) else (index,)
        single = all(isinstance(e, (int, np.integer)) for e in entries)
        return self.machine.over_elements and single

    def __getitem__(self, index):
        if self._element(index):
            cells = self._at(index)
            if not cells.known:
                raise Invalid("an element that was not written")
            return cells.values.item()
        return Tile(self.machine, self.dtype, self._at(index))

    def __setitem__(self, index, value):
        part = Tile(self.machine, self.dtype, self._at(index))
        part.store(np.asarray(value) if not isinstance(value, Tile) else value.load())

    def _made(self, dtype, values):
        return made(self.machine, dtype, values)

    def _with(self, other, function, dtype=None, flip=False):
        if isinstance(other, Tile):
            if other.dtype != self.dtype:
                raise Invalid("two types")
            right = other.load()
        else:
            right = exact(np.asarray(other, dtype=float if self.dtype.is_float else int),
                          self.dtype)  # fmt: skip
        left = self.load()
        values = function(right, left) if flip else function(left, right)
        return self._made(dtype or self.dtype, values)

    def __add__(self, other):
        return self._with(other, np.add)

    __radd__ = __add__

    def __sub__(self, other):
        return self._with(other, np.subtract)

    def __rsub__(self, other):
        return self._with(other, np.subtract, flip=True)

    def __mul__(self, other):
        return self._with(other, np.multiply)

    __rmul__ = __mul__

    def __floordiv__(self, other):
        return self._with(other, np.floor_divide)

    def __mod__(self, other):
        return self._with(other, np.mod)

    def __and__(self, other):
        return self._with(other, np.bitwise_and)

    def __or__(self, other):
        return self._with(other, np.bitwise_or)

    def __xor__(self, other):
        return self._with(other, np.bitwise_xor)

    def __lshift__(self, other):
        return self._with(other, np.left_shift)

    def __rshift__(self, other):
        return self._with(other, np.right_shift)

    def __lt__(self, other):
        return self._with(other, np.less, boolean)

    def __le__(self, other):
        return self._with(other, np.less_equal, boolean)

    def __gt__(self, other):
        return self._with(other, np.greater, boolean)

    def __ge__(self, other):
        return self._with(other, np.greater_equal, boolean)

    def __eq__(self, other):
        return self._with(other, np.equal, boolean)

    def __ne__(self, other):
        return self._with(other, np.not_equal, boolean)

    __hash__ = object.__hash__

    def __neg__(self):
        return self._made(self.dtype, -self.load())

    def __abs__(self):
        return self._made(self.dtype, np.abs(self.load()))

    def _change(self, result):
        if result.shape != self.shape:
            raise Invalid("an assignment in place that broadcasts")
        self.store(result.load())
        return self

    def __iadd__(self, other):
        return self._change(self + other)

    def __isub__(self, other):
        return self._change(self - other)

    def __imul__(self, other):
        return self._change(self * other)


def made(machine, dtype, values):
    """A register tile that holds `values`."""
    tile = Tile(machine, dtype, Cells.new(dtype, np.shape(values), False))
    tile.store(values)
    return tile


class View:
    """A tile of global memory: for each dimension of the buffer, where each element lies."""

    def __init__(self, machine, buffer, at):
        self.machine, self.buffer, self.at = machine, buffer, at

    @property
    def dtype(self):
        return self.buffer.dtype

    @property
    def shape(self):
        return self.at[0].shape

    @property
    def nbytes(self):
        return self.at[0].size * self.dtype.bits // 8

    def __getitem__(self, index):
        return View(self.machine, self.buffer, [a[index] for a in self.at])

    def load(self, outside=0):
        return self.buffer.load(self.at, outside)

    def store(self, values, later=False):
        self.buffer.store(self.at, values, self.machine.writer())

    def update(self, change, writer):
        """What was there, of the tile's shape; `change` is given an element and its index."""
        return self.buffer.update(self.at, change, writer)

    def combine(self, values, op):
        self.buffer.combine(self.at, values, op, self.machine.writer())


class Param:
    """A tensor parameter, its origin moved by subscripts."""

    def __init__(self, machine, buffer, origin=None, fixed=(), units=()):
        self.machine, self.buffer, self.fixed, self.units = machine, buffer, fixed, units
        self.origin = origin or (0,) * buffer.array.ndim

    def __getitem__(self, index):
        entries = index if isinstance(index, tuple) else (index,)
        origin, fixed = list(self.origin), list(self.fixed)
        for d, entry in enumerate(entries):
            if isinstance(entry, slice):
                origin[d] += entry.start or 0
            else:
                origin[d] += int(entry)
                fixed.append(d)
        if len(fixed) == len(origin):
            # An integer for every dimension: the number there.
            return int(self.buffer.load([np.asarray(at) for at in origin]))
        return Param(self.machine, self.buffer, tuple(origin), tuple(fixed), self.units)

    def view(self, shape, stride):
        """Strides mean the fewest steps, along the outermost of the dimensions whose own stride
        divides them."""
        extents = self.buffer.array.shape
        row_major = [int(np.prod(extents[d + 1 :])) for d in range(len(extents))]
        units = list(self.units) or row_major
        free = next(d for d in range(len(units)) if d not in self.fixed)
        modes = [offsets(s, t, units, free) for s, t in zip(shape, stride)]
        at = []
        for d, start in enumerate(self.origin):
            total = np.asarray(start)
            for mode in modes:
                total = np.add.outer(total, mode[d])
            at.append(total)
        return View(self.machine, self.buffer, at)


class Along:
    """A stride of `step` along dimension `dim`, or a tile of places there."""

    def __init__(self, dim, step=1):
        self.dim, self.step = dim, step


def offsets(shape, stride, units, free):
    """For each dimension, how far each place of a mode lies along it; `free` is the first that a
    tile of numbers may speak of."""
    if isinstance(shape, tuple):
        total = [np.zeros(1, int) for _ in units]
        for s, t in zip(shape, stride):
            inner = offsets(s, t, units, free)
            # First fastest: the sub-modes that come later are the slower digits.
            total = [np.add.outer(b, a).reshape(-1) for a, b in zip(total, inner)]
        return total
    found = [np.zeros(shape, int) for _ in units]
    numbers = stride.step if isinstance(stride, Along) else stride
    if isinstance(numbers, Tile):
        found[stride.dim if isinstance(stride, Along) else free] = numbers.load()
    elif isinstance(stride, Along):
        found[stride.dim] = np.arange(shape) * stride.step
    elif stride:
        fits = [d for d, unit in enumerate(units) if unit and stride % unit == 0]
        dim = min(fits, key=lambda d: (stride // units[d], d))
        found[dim] = np.arange(shape) * (stride // units[dim])
    return found
