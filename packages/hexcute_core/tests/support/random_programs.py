"""Random tile programs: copies in all directions, elementwise with broadcasting, reductions, casts,
rearranges, gemms in all operand orders, chains of them; sizes not only powers of two, all types.

`random_program(seed)` is a program for sm_89, its symbols' values and its arrays; equal seeds give
equal programs. Values are small whole numbers, so that sums are exact in every order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tile_builder import TileBuilder

from hexcute_core import dtypes as dt
from hexcute_core.scalar import Const, Element, Var, cast, compare, maximum, minimum, select
from hexcute_core.simulator.lanes.values import storage
from hexcute_core.tile.promise import Promise

THREADS = (32, 64, 96, 128, 160, 256)
EXTENTS = (1, 3, 5, 8, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 176, 229)
MAX_ELEMENTS = 8192
MOVED = (dt.f16, dt.bf16, dt.f32, dt.i8, dt.u8, dt.i32, dt.u32, dt.i16, dt.i64, dt.f8e4m3,
         dt.f8e5m2, dt.u4, dt.i4, dt.u2, dt.i2, dt.u1, dt.i1)  # fmt: skip
COMPUTED = (dt.f16, dt.bf16, dt.f32, dt.i32, dt.i8, dt.u8)
GEMMS = (
    (dt.f16, dt.f32), (dt.f16, dt.f16), (dt.bf16, dt.f32), (dt.tf32, dt.f32), (dt.i8, dt.i32),
    (dt.u8, dt.i32), (dt.f32, dt.f32), (dt.i32, dt.i32), (dt.f8e4m3, dt.f32), (dt.f8e5m2, dt.f32),
)  # fmt: skip
MMA_K = {16: 16, 8: 32, 32: 8}


@dataclass(frozen=True)
class Case:
    """A program with what it runs on."""

    program: object
    sizes: dict
    arrays: dict
    kind: str


class Maker:
    """Tensors, copies and random choices of one program."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.arrays = {}
        self.sizes = {}
        self.count = 0
        self.ragged = self.chance(0.3)
        self.aligned = self.chance(0.8)
        self.builder = TileBuilder(threads=self.pick(THREADS))

    def chance(self, p):
        return bool(self.rng.random() < p)

    def pick(self, items):
        return items[int(self.rng.integers(len(items)))]

    def name(self, stem):
        self.count += 1
        return f"{stem}{self.count}"

    def shape(self, limit=MAX_ELEMENTS):
        while True:
            shape = (self.pick(EXTENTS), self.pick(EXTENTS))
            if shape[0] * shape[1] <= limit:
                return shape

    def major(self):
        return self.pick([(0, 1), (1, 0)])

    def tile(self, dtype, shape, output=False, major=None):
        """A global tile of `shape`: exact, cut off by the buffer's edge, or inside a larger one."""
        b, major = self.builder, major or self.major()
        whole = [shape[d] for d in major]
        place = [0, 0]
        if self.ragged and self.chance(0.7):
            axis = int(self.rng.integers(2))
            if whole[axis] > 1:
                whole[axis] -= int(self.rng.integers(1, min(whole[axis], 9)))
        elif self.chance(0.3):
            axis = int(self.rng.integers(2))
            extra = 8 * int(self.rng.integers(1, 3))
            whole[axis] += extra
            place[axis] = extra
        if dtype.bits < 8:
            per_byte = 8 // dtype.bits
            whole[1] = -(-whole[1] // per_byte) * per_byte
        extents = list(whole)
        if self.chance(0.25):
            symbol = self.name("n")
            axis = int(self.rng.integers(2))
            b.symbols = (*b.symbols, symbol)
            self.sizes[symbol] = whole[axis]
            extents[axis] = b.symbol(symbol)
        name = self.name("out" if output else "in")
        ref = b.tile(name, dtype, *shape, major=major, extents=extents, origin=place)
        self.arrays[name] = self.array(dtype, tuple(whole))
        return ref

    def array(self, dtype, shape):
        rng, count = self.rng, int(np.prod(shape))
        if dtype.bits < 8:
            return rng.integers(0, 256, count * dtype.bits // 8, dtype=np.uint8)
        low, high = (0, 4) if dtype.kind == "uint" else (-3, 4)
        return rng.integers(low, high, shape).astype(storage(dtype))

    def register(self, dtype, shape):
        return self.builder.register(self.name("r"), dtype, *shape)

    def shared(self, dtype, shape):
        return self.builder.shared(self.name("s"), dtype, *shape)

    def load(self, dtype, shape):
        """A register tile holding data from global memory, directly or through shared memory."""
        b = self.builder
        registers = self.register(dtype, shape)
        source = self.tile(dtype, shape)
        if self.chance(0.5):
            b.copy(source, registers)
            return registers
        stage = self.shared(dtype, shape)
        if self.chance(0.25):
            through = self.register(dtype, shape)
            b.copy(source, through)
            b.copy(through, stage)
            b.sync()
        else:
            b.copy(source, stage)
            b.settle()
        b.copy(stage, registers)
        return registers

    def store(self, ref, dtype):
        """Registers to global memory, directly or through shared memory."""
        b, shape = self.builder, ref.shape
        if self.chance(0.4):
            stage, other = self.shared(dtype, shape), self.register(dtype, shape)
            b.copy(ref, stage)
            b.sync()
            if self.chance(0.3):
                b.copy(stage, self.tile(dtype, shape, output=True))
                return
            b.copy(stage, other)
            ref = other
        b.copy(ref, self.tile(dtype, shape, output=True))

    def program(self):
        promise = Promise(
            tuple((s, 8 if n % 8 == 0 and self.aligned else 1) for s, n in self.sizes.items()),
            frozenset(p.name for p in self.builder.params) if self.aligned else frozenset(),
        )
        self.builder.promise = promise
        return self.builder.program()


def _move(m):
    """Global to global over any path."""
    dtype, shape = m.pick(MOVED), m.shape()
    ref = m.load(dtype, shape)
    if m.chance(0.3):
        moved = m.register(dtype, shape)
        m.builder.rearrange(ref, moved)
        ref = moved
    m.store(ref, dtype)


def _stages(m):
    """A ring of shared stages filled and read by index."""
    b, dtype = m.builder, m.pick((dt.f16, dt.f32, dt.i8))
    shape = m.shape(2048)
    stages = int(m.rng.integers(2, 4))
    ring = m.shared(dtype, (*shape, stages))
    sources = [m.tile(dtype, shape) for _ in range(stages)]
    for i, source in enumerate(sources):
        b.copy(source, b.part(ring, None, None, i))
    b.settle()
    total = m.register(dtype, shape)
    b.fill(total, 0, dtype)
    part = m.register(dtype, shape)
    with b.loop("i", stages) as i:
        b.copy(b.part(ring, None, None, i), part)
        b.map(total, Var("$0", dtype) + Var("$1", dtype), total, part)
    m.store(total, dtype)


def _slices(m):
    """Halves of a shared tile, written and read in pieces."""
    b, dtype = m.builder, m.pick((dt.f16, dt.f32))
    rows, columns = m.pick((16, 32, 48)), m.pick((16, 24, 64))
    whole = m.shared(dtype, (2 * rows, columns))
    for half in range(2):
        b.copy(m.tile(dtype, (rows, columns)), b.part(whole, (half * rows, rows), None))
    b.settle()
    for half in range(2):
        held = m.register(dtype, (rows, columns))
        b.copy(b.part(whole, (half * rows, rows), None), held)
        m.store(held, dtype)


def _compute(m):
    """Elementwise operations, broadcasting, casts and reductions."""
    b = m.builder
    dtype = m.pick(COMPUTED)
    shape = m.shape(4096)
    held = [(m.load(dtype, shape), dtype)]
    for _ in range(int(m.rng.integers(1, 4))):
        ref, dtype = m.pick(held)
        made = m.register(dtype, ref.shape)
        step = m.pick(("map", "map", "broadcast", "reduce", "cast", "rearrange"))
        if step == "map":
            other = m.pick([h for h in held if h[1] == dtype and h[0].shape == ref.shape])[0]
            a, c = Var("$0", dtype), Var("$1", dtype)
            expr = m.pick((a + c, a - c, maximum(a, c), minimum(a, c)))
            if expr.dtype != dtype:
                continue
            b.map(made, expr, ref, other)
        elif step == "broadcast":
            axis = int(m.rng.integers(2))
            thin = tuple(1 if d == axis else e for d, e in enumerate(ref.shape))
            line = m.load(dtype, thin)
            expr = Var("$0", dtype) + Var("$1", dtype)
            if expr.dtype != dtype:
                continue
            b.map(made, expr, ref, line)
        elif step == "reduce":
            axis = int(m.rng.integers(2))
            thin = tuple(1 if d == axis else e for d, e in enumerate(ref.shape))
            made = m.register(dtype, thin)
            op = m.pick(("sum", "max", "min"))
            if dtype.bits < 16 or (op == "sum" and dtype.bits < 32):
                op = "max"
            b.reduce(ref, made, axis, op)
        elif step == "cast":
            target = m.pick(COMPUTED)
            made = m.register(target, ref.shape)
            b.cast(ref, made)
            dtype = target
        else:
            b.rearrange(ref, made)
        held.append((made, dtype))
    for ref, kind in held[-2:]:
        m.store(ref, kind)


def _narrow(m):
    """Types narrower than a byte, cast to f16 and used."""
    b, dtype = m.builder, m.pick((dt.u4, dt.i4, dt.u2, dt.i2, dt.u1))
    shape = (m.pick((8, 16, 24, 48)), m.pick((16, 32, 64, 96)))
    ref = m.load(dtype, shape)
    wide = m.register(dt.f16, shape)
    b.cast(ref, wide)
    if m.chance(0.5):
        scale = m.load(dt.f16, (shape[0], 1))
        made = m.register(dt.f16, shape)
        b.map(made, Var("$0", dt.f16) * Var("$1", dt.f16), wide, scale)
        wide = made
    m.store(wide, dt.f16)


def _gemm(m):
    """One gemm, its operands from global or shared memory, perhaps in a loop, perhaps cast."""
    operand, result = m.pick(GEMMS)
    b = m.builder
    step = 1 if operand in (dt.f32, dt.i32) else MMA_K[operand.bits]
    if step == 1:
        rows, columns, depth = (m.pick((4, 8, 16, 24)) for _ in range(3))
    else:
        rows, columns = m.pick((16, 32, 48, 64, 80, 96)), m.pick((8, 16, 24, 32, 48, 64, 80))
        depth = step * m.pick((1, 2, 3, 4))
    left, right = m.load(operand, (rows, depth)), m.load(operand, (columns, depth))
    total = m.register(result, (rows, columns))
    b.fill(total, 0, result)
    times = m.pick((1, 1, 2))
    if times == 1:
        b.gemm(total, left, right)
    else:
        with b.loop("i", times):
            b.gemm(total, left, right)
    ref, dtype = total, result
    if m.chance(0.5) and result == dt.f32:
        ref, dtype = m.register(dt.f16, (rows, columns)), dt.f16
        b.cast(total, ref)
    if m.chance(0.3):
        thin = m.register(dtype, (rows, 1))
        b.reduce(ref, thin, 1, "max")
        m.store(thin, dtype)
    m.store(ref, dtype)


def _attention(m):
    """S = Q K^T, its row maximum and sum, P = f(S) cast, O = P V."""
    b = m.builder
    rows, keys = m.pick((16, 32, 48, 64)), m.pick((16, 32, 48, 64))
    width, out = m.pick((16, 32, 48)), m.pick((8, 16, 32, 64))
    q, k = m.load(dt.f16, (rows, width)), m.load(dt.f16, (keys, width))
    s = m.register(dt.f32, (rows, keys))
    b.fill(s, 0.0, dt.f32)
    b.gemm(s, q, k)
    top, total = m.register(dt.f32, (rows, 1)), m.register(dt.f32, (rows, 1))
    b.reduce(s, top, 1, "max")
    clipped = m.register(dt.f32, (rows, keys))
    a, c = Var("$0", dt.f32), Var("$1", dt.f32)
    b.map(clipped, maximum(a - c, Const(-2.0, dt.f32)), s, top)
    b.reduce(clipped, total, 1, "sum")
    p = m.register(dt.f16, (rows, keys))
    b.cast(clipped, p)
    v = m.load(dt.f16, (out, keys))
    o = m.register(dt.f32, (rows, out))
    b.fill(o, 0.0, dt.f32)
    b.gemm(o, p, v)
    shifted = m.register(dt.f32, (rows, out))
    b.map(shifted, a + c, o, total)
    m.store(shifted, dt.f32)
    if m.chance(0.5):
        m.store(top, dt.f32)


def _mixed(m):
    """Narrow weights with a scale a row, cast to f16 in registers, times f16 activations."""
    b, dtype = m.builder, m.pick((dt.u4, dt.i4, dt.u2, dt.i8, dt.u8, dt.f8e4m3))
    rows, columns = m.pick((16, 32, 64)), m.pick((16, 32, 48, 64))
    depth = m.pick((32, 64, 128))
    left, weights = m.load(dt.f16, (rows, depth)), m.load(dtype, (columns, depth))
    wide = m.register(dt.f16, (columns, depth))
    b.cast(weights, wide)
    if m.chance(0.7):
        scale, scaled = m.load(dt.f16, (columns, 1)), m.register(dt.f16, (columns, depth))
        b.map(scaled, Var("$0", dt.f16) * Var("$1", dt.f16), wide, scale)
        wide = scaled
    total = m.register(dt.f32, (rows, columns))
    b.fill(total, 0.0, dt.f32)
    b.gemm(total, left, wide)
    m.store(total, dt.f32)


def _chain(m):
    """Products that feed products, some under arrangements that do not agree."""
    b = m.builder
    b.threads = min(b.threads, 128)
    groups = b.threads // 32
    pairs = [(x, groups // x) for x in range(1, groups + 1) if groups % x == 0]
    size = 16 * max(groups, 2)
    operand, shape = m.load(dt.f16, (size, size)), (size, size)
    for _ in range(int(m.rng.integers(2, 4))):
        other, total = m.load(dt.f16, shape), m.register(dt.f32, shape)
        b.fill(total, 0.0, dt.f32)
        warps = m.pick(pairs) if m.chance(0.5) else None
        b.gemm(total, operand, other, warps)
        clipped, operand = m.register(dt.f32, shape), m.register(dt.f16, shape)
        bound = Const(2.0, dt.f32)
        b.map(clipped, minimum(maximum(Var("$0", dt.f32), -bound), bound), total)
        b.cast(clipped, operand)
    m.store(operand, dt.f16)


def _elements(m):
    """Thread-level code over the elements of a tile, by their coordinates."""
    b, dtype = m.builder, m.pick((dt.f32, dt.i32))
    shape = m.shape(2048)
    ref, made = m.load(dtype, shape), m.register(dtype, shape)
    coords = (Var(m.name("i"), dt.i32), Var(m.name("j"), dt.i32))
    value = Element(ref.tensor, coords, dtype) + cast(coords[0] * 3 + coords[1], dtype)
    spared = select(compare("lt", coords[0], coords[1]), value, Const(0, dtype))
    with b.elements(made, coords):
        b.set_element(made, coords, spared)
    m.store(made, dtype)


def _independent(m):
    """Buffers that share nothing."""
    for _ in range(int(m.rng.integers(2, 5))):
        dtype = m.pick((dt.f16, dt.f32, dt.u8))
        m.store(m.load(dtype, m.shape(1024)), dtype)


KINDS = {
    "move": (_move, 5), "stages": (_stages, 2), "slices": (_slices, 1), "compute": (_compute, 5),
    "narrow": (_narrow, 2), "gemm": (_gemm, 5), "attention": (_attention, 2),
    "independent": (_independent, 1), "mixed": (_mixed, 3), "chain": (_chain, 2),
    "elements": (_elements, 1),
}  # fmt: skip


def random_program(seed):
    """The program of `seed`."""
    names = [name for name, (_, weight) in KINDS.items() for _ in range(weight)]
    kind = names[seed % len(names)]
    maker = Maker(seed)
    KINDS[kind][0](maker)
    return Case(maker.program(), maker.sizes, maker.arrays, kind)
