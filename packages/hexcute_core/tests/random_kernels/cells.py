"""What tiles hold, on numpy: whole numbers in 64 bits, each write checked to be exact in its type.

A kernel has one meaning only where no result rounds or wraps, nothing is read before it is
written, and a barrier stands between two accesses to shared memory. What breaks that is `Invalid`:
no fault of the compiler, and the kernel is drawn again.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

NUMPY = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
    "tf32": np.float32, "f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2,
    "i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16, "i32": np.int32,
    "u32": np.uint32, "i64": np.int64, "u64": np.uint64, "bool": np.bool_,
    "u4": np.uint8, "i4": np.int8, "u2": np.uint8, "i2": np.int8, "u1": np.uint8,
}  # fmt: skip
WHOLE = {
    "f16": 1 << 11, "bf16": 1 << 8, "f32": 1 << 24, "f64": 1 << 53, "tf32": 1 << 11,
    "f8e4m3": 1 << 4, "f8e5m2": 1 << 3,
}  # fmt: skip
"""Up to here a float holds every whole number."""
LATER = 1 << 40
"""The epoch of what nobody has waited for."""


class Invalid(Exception):
    """The kernel has no one meaning."""


def wide(dtype):
    """The numpy type that cells of `dtype` are computed in."""
    return np.float64 if dtype.kind == "float" else np.bool_ if dtype.kind == "bool" else np.int64


def unpacked(rows, dtype):
    """The numbers that rows of bytes hold, the first in the lowest bits."""
    per = 8 // dtype.bits
    shifted = rows[..., None].astype(np.int64) >> np.arange(per) * dtype.bits
    return signed(shifted, dtype).reshape(*rows.shape[:-1], -1).astype(NUMPY[dtype.name])


def packed(values, dtype):
    """Rows of bytes that hold numbers."""
    per = 8 // dtype.bits
    low = values.astype(np.int64).reshape(*values.shape[:-1], -1, per) & (1 << dtype.bits) - 1
    return (low << np.arange(per) * dtype.bits).sum(-1).astype(np.uint8)


def signed(bits, dtype):
    """The number of the low bits of each integer."""
    low = bits & (1 << dtype.bits) - 1
    return low - (low >> dtype.bits - 1 << dtype.bits) if dtype.kind == "int" else low


def as_bits(values, source, target):
    """Numbers of `source` read as those of `target`, the low bits first along the last mode."""
    low = values.astype(np.int64) & (1 << source.bits) - 1
    if source.bits >= target.bits:
        per = source.bits // target.bits
        parts = low[..., None] >> np.arange(per) * target.bits
        return signed(parts, target).reshape(*low.shape[:-1], -1)
    per = target.bits // source.bits
    parts = low.reshape(*low.shape[:-1], -1, per) << np.arange(per) * source.bits
    return signed(parts.sum(-1), target)


def bounds(dtype):
    """The least and the greatest whole number of an interval that `dtype` holds all of."""
    if dtype.kind == "float":
        return -WHOLE[dtype.name], WHOLE[dtype.name]
    if dtype.kind == "bool":
        return 0, 1
    bits = min(dtype.bits, 62)
    return (0, (1 << bits) - 1) if dtype.kind == "uint" else (-(1 << bits - 1), (1 << bits - 1) - 1)


def exact(values, dtype):
    """`values`, which `dtype` must hold."""
    low, high = bounds(dtype)
    if values.size and (values.min() < low or values.max() > high):
        raise Invalid(f"{dtype} does not hold all of {values.min()} to {values.max()}")
    if dtype.kind == "float" and np.any(values != np.rint(values)):
        raise Invalid("a fraction")
    return values.astype(wide(dtype))


@dataclass
class Cells:
    """Cells of registers or shared memory, or a part of them; `written` and `read` say in which
    epoch, between two barriers, shared memory was accessed last, `updated` when atomically."""

    values: np.ndarray
    known: np.ndarray
    written: np.ndarray | None = None
    read: np.ndarray | None = None
    updated: np.ndarray | None = None

    @staticmethod
    def new(dtype, shape, shared):
        epochs = [np.full(shape, -1, np.int64) if shared else None for _ in range(3)]
        return Cells(np.zeros(shape, wide(dtype)), np.zeros(shape, bool), *epochs)

    def part(self, index):
        """The cells that numpy's basic `index` selects, not copied."""
        arrays = (self.values, self.known, self.written, self.read, self.updated)
        index = index if isinstance(index, tuple) else (index,)
        return Cells(*(None if a is None else a[(*index, ...)] for a in arrays))

    def load(self, epoch):
        if not self.known.all():
            raise Invalid("a read of what was not written")
        if self.read is not None:
            if (self.written >= epoch).any():
                raise Invalid("a read without a barrier after the write")
            self.read[...] = epoch
        return self.values.copy()

    def store(self, values, dtype, epoch, later=False):
        if self.read is not None:
            if (self.written >= epoch).any() or (self.read >= epoch).any():
                raise Invalid("a write without a barrier before it")
            self.written[...] = LATER if later else epoch
        self.values[...] = np.broadcast_to(exact(np.asarray(values), dtype), self.values.shape)
        self.known[...] = True


    def update(self, change, dtype, epoch):
        """Replaces the values by what `change` makes of them, and gives what they were: beside
        other updates, but neither reads nor writes."""
        if not self.known.all():
            raise Invalid("an update of what was not written")
        if self.read is not None:
            plain = (self.written >= epoch) & (self.updated < epoch)
            if plain.any() or (self.read >= epoch).any():
                raise Invalid("an update without a barrier before it")
            self.written[...] = self.updated[...] = epoch
        old = self.values.copy()
        self.values[...] = exact(np.asarray(change(old)), dtype)
        return old


class Buffer:
    """A tensor parameter: read or written, each place by one statement of one block."""

    def __init__(self, dtype, array):
        self.dtype, self.array = dtype, array
        self.writers = {}
        self.used, self.most = None, None

    def use(self, how):
        if self.used not in (None, how):
            raise Invalid("a buffer both read and written")
        self.used = how

    def load(self, at, outside=0):
        """Cells at coordinate arrays `at`, `outside` where there are none."""
        self.use("read")
        inside = self.inside(at)
        clipped = tuple(np.clip(a, 0, n - 1) for a, n in zip(at, self.array.shape))
        return np.where(inside, self.array[clipped].astype(wide(self.dtype)), outside)

    def combine(self, at, values, op, writer):
        """Adds what lies inside to what is there, or keeps the least or the greatest."""
        held = self.array[tuple(np.clip(a, 0, n - 1) for a, n in zip(at, self.array.shape))]
        combine = {"add": np.add, "min": np.minimum, "max": np.maximum}[op]
        self.store(at, exact(combine(held.astype(wide(self.dtype)), values), self.dtype), writer)

    def update(self, at, change, writer):
        """Updates what lies inside, one element after another: `change` makes of an element, and of
        its place in the tile, what it becomes; gives what was there, zero outside. Sums are exact
        in any order."""
        self.use("written")
        old = np.zeros(at[0].shape, wide(self.dtype))
        inside = self.inside(at)
        if self.most is None:
            self.most = np.abs(self.array.astype(np.float64))
        for place in np.argwhere(inside):
            index = tuple(place)
            cell = tuple(int(a[index]) for a in at)
            if self.writers.setdefault(cell, writer) != writer:
                raise Invalid("one place updated by two statements")
            old[index] = self.array[cell]
            new = exact(np.asarray(change(old[index], index)), self.dtype)
            self.most[cell] += abs(float(new) - float(old[index]))
            exact(self.most[cell], self.dtype)
            self.array[cell] = new
        return old

    def store(self, at, values, writer):
        """Writes what lies inside."""
        self.use("written")
        inside = self.inside(at)
        places = [tuple(place) for place in np.stack([a[inside] for a in at], -1)]
        if len(set(places)) < len(places):
            raise Invalid("one place written twice by one copy")
        if any(self.writers.setdefault(place, writer) != writer for place in places):
            raise Invalid("one place written by two statements")
        self.array[tuple(a[inside] for a in at)] = values[inside].astype(self.array.dtype)

    def inside(self, at):
        found = np.ones(at[0].shape, bool)
        for a, n in zip(at, self.array.shape):
            found &= (a >= 0) & (a < n)
        return found
