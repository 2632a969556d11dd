"""Probe = a kernel `read the clock, loop trips times, read the clock`, and how to launch it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hexcute_core import dtypes as dt
from hexcute_core.dtypes import DType
from hexcute_core.scalar import Call, Const, Element, Scalar, Var, cast, compare, sub, xor
from hexcute_core.thread import (
    Assign,
    DeclareArray,
    For,
    GlobalPtr,
    If,
    Prim,
    Regs,
    SetElement,
    Stmt,
    TensorMap,
    ThreadParam,
    ThreadProgram,
)

THREAD, BLOCK, BLOCKS = Var("threadIdx.x"), Var("blockIdx.x"), Var("gridDim.x")
TRIP, TRIPS = Var("trip"), Var("trips")
WARP = 32
MULTIPROCESSOR, SUBCORE = "multiprocessor", "quarter of a multiprocessor"
"""What an instruction keeps busy, so that others of its kind there wait."""
LANE, WARP_INDEX = THREAD % WARP, THREAD // WARP
DATA_BYTES = 2**29
"""Size of the zeros that global accesses read and write: several times L2."""
SINK_WORDS = 4096
MOST_BLOCKS = 1024
ROW = 64
"""Elements of a row of `data` where a tensor map reads it: 128 bytes of f16."""


def i32(value: int) -> Const:
    return Const(value, dt.i32)


TRUE = Const(True, dt.boolean)


def words(array: str, first: int, count: int, dtype: DType = dt.u32) -> Regs:
    """`count` consecutive elements of a register array as one piece."""
    return Regs(array, i32(0), (first,), count, dtype)


def element(array: str, index: int, dtype: DType = dt.u32) -> Element:
    return Element(array, (i32(index),), dtype)


def zeroed(array: str, dtype: DType, size: int) -> tuple[Stmt, ...]:
    """An array of zeros."""
    at = Var(f"{array}_at")
    zero = Const(0.0, dt.f32) if dtype.is_float else Const(0, dt.i32)
    fill = SetElement(array, at, cast(zero, dt.f32 if dtype == dt.tf32 else dtype))
    loop = For(at, i32(0), i32(size), i32(1), (fill,), unroll=True)
    return DeclareArray(array, dtype, size), loop


def kept(array: str, dtype: DType = dt.u32, count: int = 1) -> tuple[Stmt, ...]:
    """Writes the first `count` words of `array` out, so that what made them is needed."""
    return tuple(
        Prim("st.global.4", (
            GlobalPtr("sink", THREAD * 4 + word % 4, dt.u32),
            words(array, word * (32 // dtype.bits), 32 // dtype.bits, dtype), TRUE,
        ))
        for word in range(count)
    )  # fmt: skip


def gathered(dtype: DType, count: int) -> tuple[Stmt, ...]:
    """acc[i % 4] ^= word i of the array v, for `count` words: all that was loaded is needed."""
    per = 32 // dtype.bits
    words_of_v = [cast(element("v", i * per, dtype), dt.u32) for i in range(count)]
    return tuple(
        SetElement("acc", i32(i % 4), xor(element("acc", i % 4), word))
        for i, word in enumerate(words_of_v)
    )


@dataclass(frozen=True)
class Probe:
    """A kernel and its launch.

    `calls` is what the slope is divided by: calls a trip that one unit runs one after another.
    `trips` are the loop's lengths, `blocks` run on every multiprocessor, or one block, or one
    cluster, alone where it is 0; `cold` empties L2 of the data before each launch, `less` names the
    row whose latency is part of a call's and is taken off.
    """

    program: ThreadProgram
    calls: float
    trips: tuple[int, ...]
    method: str
    blocks: int = 0
    cold: bool = False
    less: str = ""

    @property
    def data_dtype(self) -> DType:
        """Element type of `data`."""
        return next(p.dtype for p in self.program.params if p.name == "data")


@dataclass(frozen=True)
class Row:
    """A line of the table: a name of `arch` or of its own, with either or both quantities."""

    name: str
    unit: str
    issue: Probe | None = None
    latency: Probe | None = None
    capability: int = 80


def program(
    name: str,
    threads: int,
    loop: Sequence[Stmt],
    *,
    before: Sequence[Stmt] = (),
    drain: Sequence[Stmt] = (),
    after: Sequence[Stmt] = (),
    shared: int = 0,
    data: DType = dt.u32,
    maps: tuple[TensorMap, ...] = (),
    cluster: int = 1,
) -> ThreadProgram:
    """The kernel: `before`, then `loop` and `drain` between two readings of the clock, `after`.

    Parameters are clocks i64 [blocks], sink u32, data (rows of `ROW` where there are maps), trips.
    """
    size = DATA_BYTES * 8 // data.bits
    shape: tuple[Scalar, ...] = (i32(size // ROW), i32(ROW)) if maps else (i32(size),)
    params = (
        ThreadParam("clocks", dt.i64, (i32(MOST_BLOCKS),), pointer=True, aligned=True),
        ThreadParam("sink", dt.u32, (i32(SINK_WORDS),), pointer=True, aligned=True),
        ThreadParam("data", data, shape, pointer=True, aligned=True),
        ThreadParam("trips", dt.i32),
    )
    start, stop = Var("start", dt.i64), Var("stop", dt.i64)
    read = Call("clock", (), dt.i64)
    out = Prim("st.global.8", (GlobalPtr("clocks", BLOCK, dt.i64), words("took", 0, 1, dt.i64),
                               TRUE))  # fmt: skip
    body = (
        *before,
        Prim("bar.sync", ()),
        Assign(start, read, True),
        For(TRIP, i32(0), TRIPS, i32(1), tuple(loop)),
        *drain,
        Prim("bar.sync", ()),
        Assign(stop, read, True),
        DeclareArray("took", dt.i64, 1),
        SetElement("took", i32(0), sub(stop, start)),
        If(compare("eq", THREAD, 0), (out,)),
        *after,
    )
    text = "".join(c if c.isalnum() else "_" for c in name)
    return ThreadProgram(
        f"probe_{text}", params, (i32(1),) * 3, threads, shared, body, maps=maps,
        cluster_dim=(cluster, 1, 1),
    )  # fmt: skip
