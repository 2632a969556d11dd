"""Tile programs built by hand: each call adds one tensor or one statement on a line of its own."""

from __future__ import annotations

from contextlib import contextmanager

from hexcute_core.dtypes import accumulator, i32
from hexcute_core.errors import SourceSpan
from hexcute_core.scalar import Const, Var, as_scalar, binary
from hexcute_core.tile import (
    AsyncCommit,
    AsyncWait,
    CastTile,
    Copy,
    Elementwise,
    Fill,
    For,
    ForElements,
    Gemm,
    GlobalTensor,
    GlobalView,
    If,
    Rearrange,
    Reduce,
    RegisterTensor,
    Relabel,
    Role,
    Scan,
    SetElement,
    SharedTensor,
    SubMode,
    Sync,
    TileProgram,
    TileRef,
)
from hexcute_core.tile.ir import Promise, scan_operands

FILE = "program.py"


class TileBuilder:
    """Collects a program; tensors are named by the caller, statements numbered as they come."""

    def __init__(self, threads=128, grid=(1, 1, 1), symbols=(), promise=None):
        self.threads, self.grid, self.symbols = threads, grid, tuple(symbols)
        self.params, self.tensors, self.bodies = [], [], [[]]
        self.promise, self.count, self.line = promise, 0, 0

    def span(self):
        self.line += 1
        return SourceSpan(FILE, self.line)

    def _id(self):
        self.count += 1
        return self.count

    def symbol(self, name):
        return Var(name, i32)

    def param(self, name, dtype, *shape):
        """A row-major global tensor."""
        extents = tuple(as_scalar(e) for e in shape)
        self.params.append(GlobalTensor(name, dtype, extents, self.span()))
        return name

    def view(self, name, param, modes, origin=None):
        """`modes[m]` lists (extent, step, buffer dim), first fastest; or one such triple."""
        tensor = next(p for p in self.params if p.name == param)
        found = []
        for mode in modes:
            subs = mode if isinstance(mode, list) else [mode]
            found.append(tuple(SubMode(as_scalar(e), as_scalar(s), d) for e, s, d in subs))
        start = tuple(as_scalar(o) for o in origin or [0] * len(tensor.shape))
        view = GlobalView(name, param, tensor.dtype, start, tuple(found), self.span())
        self.tensors.append(view)
        return self.whole(view)

    def tile(self, name, dtype, *shape, origin=None, major=None, extents=None):
        """A parameter of the tile's own shape (or `extents`), and the view of it.

        `major` names the tile's dimensions in the buffer's order, e.g. (1, 0) for a transpose.
        """
        major = major or tuple(range(len(shape)))
        self.param(name, dtype, *(extents or [shape[d] for d in major]))
        modes = [(e, 1, major.index(d)) for d, e in enumerate(shape)]
        return self.view(f"g_{name}", name, modes, origin)

    def shared(self, name, dtype, *shape):
        self.tensors.append(SharedTensor(name, dtype, tuple(shape), self.span()))
        return self.whole(self.tensors[-1])

    def register(self, name, dtype, *shape):
        self.tensors.append(RegisterTensor(name, dtype, tuple(shape), self.span()))
        return self.whole(self.tensors[-1])

    def whole(self, tensor):
        extents = (
            tuple(_extent(mode) for mode in tensor.modes)
            if isinstance(tensor, GlobalView)
            else tensor.shape
        )
        zero = Const(0, i32)
        return TileRef(tensor.name, (zero,) * len(extents), extents, tuple(range(len(extents))))

    def part(self, ref, *index):
        """`ref` with each mode cut to (start, size), indexed by an int or scalar, or whole."""
        starts, extents, kept = list(ref.starts), list(ref.extents), []
        for m, at in enumerate(index):
            if at is None:
                kept.append(m)
            elif isinstance(at, tuple):
                starts[m], extents[m] = as_scalar(at[0]), at[1]
                kept.append(m)
            else:
                starts[m], extents[m] = as_scalar(at), 1
        return TileRef(ref.tensor, tuple(starts), tuple(extents), tuple(kept))

    def add(self, stmt):
        self.bodies[-1].append(stmt)

    def copy(self, src, dst):
        self.add(Copy(self._id(), src, dst, self.span()))

    def fill(self, dst, value, dtype):
        self.add(Fill(self._id(), dst, as_scalar(value, dtype), self.span()))

    def gemm(self, c, a, b, warps=None):
        self.add(Gemm(self._id(), c, a, b, self.span(), warps))

    def cast(self, src, dst):
        self.add(CastTile(self._id(), dst, src, self.span()))

    def relabel(self, src, dst, order=None):
        natural = tuple(range(len(src.shape)))
        types = {t.name: t.dtype for t in self.tensors}
        bits = types[src.tensor].bits, types[dst.tensor].bits
        self.add(Relabel(self._id(), dst, src, order or natural, bits, self.span()))

    def map(self, dst, expr, *srcs):
        self.add(Elementwise(self._id(), dst, tuple(srcs), expr, self.span()))

    def reduce(self, src, dst, axis, op="sum"):
        self.add(Reduce(self._id(), dst, src, axis, op, self.span()))

    def scan(self, srcs, dsts, axis, combine, reverse=False):
        """`combine` gets the scalars of what comes first, then of what follows, and gives one a
        tile."""
        types = [next(t for t in self.tensors if t.name == s.tensor).dtype for s in srcs]
        left, right = scan_operands(types)
        found = tuple(combine(*left, *right))
        self.add(Scan(self._id(), tuple(dsts), tuple(srcs), axis, found, reverse, self.span()))

    def cumulate(self, src, dst, axis, op="add", reverse=False):
        """A scan by a binary operation, narrow types in 32 bits."""
        dtype = next(t for t in self.tensors if t.name == src.tensor).dtype
        (left,), (right,) = scan_operands([accumulator(dtype)])
        found = (binary(op, left, right),)
        self.add(Scan(self._id(), (dst,), (src,), axis, found, reverse, self.span()))

    def rearrange(self, src, dst, layout=None):
        self.add(Rearrange(self._id(), dst, src, layout, self.span()))

    def sync(self):
        self.add(Sync(self.span()))

    def commit(self):
        self.add(AsyncCommit(self.span()))

    def wait(self, pending=0):
        self.add(AsyncWait(pending, self.span()))

    def settle(self):
        """Asynchronous copies done and visible to the block."""
        self.commit()
        self.wait()
        self.sync()

    @contextmanager
    def loop(self, name, stop, start=0):
        span = self.span()
        self.bodies.append([])
        yield Var(name, i32)
        body = tuple(self.bodies.pop())
        bounds = (as_scalar(start), as_scalar(stop), as_scalar(1))
        self.add(For(Var(name, i32), *bounds, body, span))

    @contextmanager
    def elements(self, ref, coords):
        span = self.span()
        self.bodies.append([])
        yield
        body = tuple(self.bodies.pop())
        self.add(ForElements(self._id(), ref, tuple(coords), body, span))

    def set_element(self, ref, coords, value):
        self.add(SetElement(ref.tensor, tuple(coords), value, self.span()))

    @contextmanager
    def role(self, first, threads):
        span = self.span()
        self.bodies.append([])
        yield
        body = tuple(self.bodies.pop())
        self.add(Role("consumer", first, threads, None, body, span))

    @contextmanager
    def when(self, cond):
        span = self.span()
        self.bodies.append([])
        yield
        self.add(If(cond, tuple(self.bodies.pop()), (), span))

    def program(self):
        grid = tuple(as_scalar(g) for g in self.grid)
        promise = self.promise or Promise((), frozenset(p.name for p in self.params))
        return TileProgram(
            "program", tuple(self.params), (), self.symbols, grid, self.threads,
            tuple(self.tensors), tuple(self.bodies[0]), promise, SourceSpan(FILE, 0),
        )  # fmt: skip


def _extent(mode):
    total = 1
    for sub in mode:
        total *= int(sub.extent.value) if isinstance(sub.extent, Const) else 1
    return total
