"""A stand-in for `hx` on numpy: Python itself runs the kernel's text, block after block.

Roles run one after the other, for a pipeline's slots are counted without an end: each is memory of
its own, filled once, so nobody has to wait.
"""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import numpy as np

from hexcute_core import dtypes
from random_kernels.cells import Cells, Invalid, as_bits, exact, wide
from random_kernels.tiles import Along, SlotNumber, Tile, View, made


def _truncated(values, dtype):
    return np.trunc(values) if dtype.kind in ("int", "uint") else values


def _updated(op, old, *given):
    """What becomes of `old` atomically."""
    match op:
        case "add":
            return old + given[0]
        case "min" | "max":
            return (np.minimum if op == "min" else np.maximum)(old, given[0])
        case "and" | "or" | "xor":
            function = getattr(np, f"bitwise_{op}")
            return function(np.asarray(old, np.int64), np.asarray(given[0], np.int64))
        case "xchg":
            return given[0] + 0 * old
        case "cas":
            return np.where(old == given[0], given[1], old)


class Pipeline:
    """A ring as roles count it; `done` holds how far each role came."""

    def __init__(self, machine, stages, readers):
        self.machine, self.stages, self.readers = machine, stages, readers
        self.done = {}

    def _next(self, use, count=1):
        counts = self.done.setdefault(self.machine.role, Counter())
        counts[use] += count
        return SlotNumber(counts[use] - count)

    @contextmanager
    def produce(self):
        yield self._next("produce")

    @contextmanager
    def consume(self):
        yield self.wait()
        self.release()

    def wait(self):
        number = self._next("wait")
        self._next("read")
        return number

    def release(self):
        self._next("release")

    def skip(self, count):
        self._next("wait", count)
        self._next("release", count)

    def check(self):
        """Every slot filled, each read by every reader, or by one."""
        filled = sum(c["produce"] for c in self.done.values())
        readers = [c for c in self.done.values() if c["wait"] or not c["produce"]]
        if any(c["wait"] != filled or c["release"] != filled for c in readers):
            raise Invalid("slots that are not read, or waited for in vain")
        if self.readers == "one" and sum(c["read"] for c in readers) != filled:
            raise Invalid("a slot read by two roles, or by none")


class Machine:
    """One block: `hx` as its kernel sees it."""

    def __init__(self, block, grid, explicit):
        self.blockIdx = SimpleNamespace(**dict(zip("xyz", block)))
        self.gridDim = SimpleNamespace(**dict(zip("xyz", grid)))
        self.attrs = SimpleNamespace(cuda=SimpleNamespace())
        # What it asks of a thread's own number, the first one answers.
        self.threadIdx = SimpleNamespace(x=0)
        self.block, self.explicit = block, explicit
        self.epoch, self.role, self.over_elements = 0, 0, False
        self.issued, self.groups, self.pipelines = [], [], []

    def writer(self):
        """The statement that writes: the nearest line of the kernel, of this block."""
        frame = sys._getframe()
        while frame.f_code.co_filename != "<kernel>":
            frame = frame.f_back
        return self.block, frame.f_lineno

    def __getattr__(self, name):
        if name.startswith("atomic_"):
            return partial(self._atomic, name.removeprefix("atomic_"))
        return getattr(dtypes, name)

    # Tensors

    def register_tensor(self, dtype, shape):
        return Tile(self, dtype, Cells.new(dtype, shape, False))

    def shared_tensor(self, dtype, shape):
        return Tile(self, dtype, Cells.new(dtype, shape, True))

    def global_view(self, param, layout):
        shape, stride = (e if isinstance(e, tuple) else (e,) for e in layout)
        return param.view(shape, stride)

    along = staticmethod(Along)

    def multiple_of(self, value, divisor):
        assert value % divisor == 0
        return value

    def ds(self, start, size):
        return slice(start, start + size)

    # Operations

    def copy(self, src, dst, mbarrier=None, reduce=None, hint=None, outside=None):
        if src.shape != dst.shape or src.dtype != dst.dtype:
            raise Invalid("a copy between different tiles")
        if reduce is not None:
            dst.combine(src.load(), reduce)
            return
        slot = isinstance(dst, Tile) and dst.shared and isinstance(src, View)
        if outside is not None:
            dst.store(src.load(outside))
            return
        later = slot and self.explicit and mbarrier is None
        dst.store(src.load(), later)
        if later:
            self.issued.append(dst.cells)
        if mbarrier is not None:
            # The wait that follows orders it for all threads.
            dst.cells.written[...] = self.epoch - 1

    def _atomic(self, op, target, *given, order=None, scope=None):
        values = 2 if op == "cas" else 1
        writer = op if scope else self.writer()
        if len(given) == values:
            cells = [g.load() if isinstance(g, Tile) else np.full(target.shape, g) for g in given]
            if isinstance(target, View):
                old = target.update(lambda x, i: _updated(op, x, *(c[i] for c in cells)), writer)
            else:
                old = target.cells.update(
                    lambda x: _updated(op, x, *cells), target.dtype, self.epoch
                )
            return made(self, target.dtype, old)
        index, *numbers = given
        index = index if isinstance(index, tuple) else (index,)
        if isinstance(target, Tile):
            if not all(0 <= i < e for i, e in zip(index, target.shape)):
                return 0
            part = target.cells.part(tuple(int(i) for i in index))
            return part.update(
                lambda x: _updated(op, x, *numbers), target.dtype, self.epoch
            ).item()
        place = [np.asarray(start + i) for start, i in zip(target.origin, index)]
        view = View(self, target.buffer, place)
        return view.update(lambda x, _: _updated(op, x, *numbers), writer).item()

    def number(self, tile):
        return tile.load().item()

    def fill(self, tile, value):
        tile.store(np.asarray(value))

    def rearrange(self, tile):
        return made(self, tile.dtype, tile.load())

    def transpose(self, tile, *order):
        return made(self, tile.dtype, tile.load().transpose(order))

    def reshape(self, tile, shape):
        return made(self, tile.dtype, tile.load().reshape(shape))

    def bitcast(self, tile, dtype):
        return made(self, dtype, as_bits(tile.load(), tile.dtype, dtype))

    def gemm(self, c, a, b, accumulate=True, asynchronous=False):
        left, right = a.load(), b.load()
        held = c.load() if accumulate else np.zeros(c.shape, wide(c.dtype))
        # The greatest that any order of adding may reach.
        exact(np.abs(held) + np.abs(left) @ np.abs(right).T, c.dtype)
        c.store(held + left @ right.T)

    def cast(self, value, dtype):
        if isinstance(value, Tile):
            return made(self, dtype, _truncated(value.load(), dtype))
        return float(value) if dtype.is_float else int(value)

    def _reduced(self, function, tile, axis):
        return made(self, tile.dtype, function(tile.load(), axis=axis, keepdims=True))

    def sum(self, tile, axis):
        exact(np.abs(tile.load()).sum(axis), tile.dtype)
        return self._reduced(np.sum, tile, axis)

    def max(self, tile, axis):
        return self._reduced(np.max, tile, axis)

    def min(self, tile, axis):
        return self._reduced(np.min, tile, axis)

    def reduce(self, tile, axis, op, keep=1):
        if callable(op):
            scanned = self.scan(tile, axis, op).load()
            return made(self, tile.dtype, np.take(scanned, [-1], axis))
        cells = np.moveaxis(tile.load(), axis, -1)
        cells = cells.reshape(*cells.shape[:-1], -1, keep)
        if op == "sum":
            exact(np.abs(cells).sum(-2), tile.dtype)
        cells = {"sum": np.sum, "max": np.max, "min": np.min}[op](cells, axis=-2)
        return made(self, tile.dtype, np.moveaxis(cells, -1, axis))

    def argmax(self, tile, axis):
        return made(self, dtypes.i32, np.argmax(tile.load(), axis, keepdims=True))

    def argmin(self, tile, axis):
        return made(self, dtypes.i32, np.argmin(tile.load(), axis, keepdims=True))

    def iota(self, shape, axis):
        return made(self, dtypes.i32, np.indices(shape)[axis])

    def clamp(self, tile, low, high):
        return self.minimum(self.maximum(tile, low), high)

    def floor(self, tile):
        return made(self, tile.dtype, np.floor(tile.load()))

    def ceil(self, tile):
        return made(self, tile.dtype, np.ceil(tile.load()))

    def printf(self, text, *values):
        pass

    def device_assert(self, holds, text=""):
        if not holds:
            raise Invalid(text)

    def scan(self, tiles, axis, combine, reverse=False):
        several = isinstance(tiles, tuple)
        given = tiles if several else (tiles,)
        lines = [np.moveaxis(t.load(), axis, 0) for t in given]
        lines = [line[::-1] if reverse else line for line in lines]
        results, so_far = [[] for _ in lines], None
        for here in zip(*lines):
            if so_far is not None:
                here = combine(*so_far, *here)
                here = here if several else (here,)
            so_far = here
            for result, cells in zip(results, here):
                result.append(cells)
        moved = [np.moveaxis(np.stack(r[::-1] if reverse else r), 0, axis) for r in results]
        found = tuple(made(self, t.dtype, m) for t, m in zip(given, moved))
        return found if several else found[0]

    def cumsum(self, tile, axis, reverse=False):
        exact(np.abs(tile.load()).sum(axis), tile.dtype)
        return self.scan(tile, axis, np.add, reverse)

    def cummax(self, tile, axis, reverse=False):
        return self.scan(tile, axis, np.maximum, reverse)

    def cummin(self, tile, axis, reverse=False):
        return self.scan(tile, axis, np.minimum, reverse)

    def maximum(self, a, b):
        return a._with(b, np.maximum) if isinstance(a, Tile) else np.maximum(a, b)

    def minimum(self, a, b):
        return a._with(b, np.minimum) if isinstance(a, Tile) else np.minimum(a, b)

    def where(self, cond, a, b):
        if not isinstance(cond, Tile):
            return a if cond else b
        chosen = cond.load()
        return a._with(b, lambda x, y: np.where(chosen, x, y))

    select = where

    # Control flow

    def elements(self, tile):
        self.over_elements = True
        try:
            yield from np.ndindex(*tile.shape)
        finally:
            self.over_elements = False

    def grid(self, *extents):
        return np.ndindex(*(max(e, 0) for e in extents))

    unroll = static_range = staticmethod(range)

    def persistent(self, count, even=False):
        return range(self.blockIdx.x, count, self.gridDim.x)

    @staticmethod
    def cdiv(a, b):
        return -(-a // b)

    # Order

    def syncthreads(self):
        self.epoch += 1

    sync_role = syncthreads

    def cp_async_commit(self):
        self.groups.append(self.issued)
        self.issued = []

    def cp_async_wait(self, pending):
        done = self.groups[: len(self.groups) - pending]
        self.groups = self.groups[len(done) :]
        for cells in (c for group in done for c in group):
            cells.written[...] = self.epoch

    def pipeline(self, stages, readers="all"):
        self.pipelines.append(Pipeline(self, stages, readers))
        return self.pipelines[-1]

    def mbarrier(self, count):
        return SimpleNamespace(expect=lambda count: None, wait=lambda parity: None)

    def turns(self, count):
        return SimpleNamespace(turn=lambda number: self.alone())

    @contextmanager
    def alone(self):
        yield

    @contextmanager
    def warp_groups_producer(self, groups=1, registers=None):
        self.role += 1
        self.epoch += 1
        yield
        self.epoch += 1

    warp_groups_consumer = warp_groups_producer

    def wait_gemm(self, pending=0):
        pass

    def prefetch(self, view):
        view.load()
