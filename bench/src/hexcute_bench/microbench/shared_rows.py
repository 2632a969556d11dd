"""Shared memory: loads, stores, matrix loads and stores, addresses without bank conflicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hexcute_bench.microbench.probe import (
    LANE,
    MULTIPROCESSOR,
    TRIP,
    WARP,
    WARP_INDEX,
    Probe,
    Row,
    element,
    gathered,
    i32,
    kept,
    program,
    words,
    zeroed,
)
from hexcute_core import dtypes as dt
from hexcute_core.dtypes import DType
from hexcute_core.scalar import Scalar, Var, cast, xor
from hexcute_core.thread import (
    Assign,
    DeclareArray,
    Operand,
    Prim,
    Regs,
    SetElement,
    SharedPtr,
    Stmt,
)

WARPS, CALLS = 16, 8
TRIPS = (64, 128, 192, 256)
CHAIN = 8
# Each warp its own 4 KiB out of four, one call after another; every other trip the upper half.
REGION, HALF = 4096, 16384
ARENA = 2 * HALF
FULL = f"{WARPS} warps, {CALLS} independent calls each a trip"
CHAINED = f"one warp, {CHAIN} calls a trip, each at the address the last one loaded"
SIZES = (16, 8, 4, 2, 1)
SUMS = zeroed("acc", dt.u32, 4)
_DTYPE: dict[int, DType] = {1: dt.u8, 2: dt.u16}


def holder(size: int) -> tuple[DType, int, int]:
    """Element type, elements moved, and elements of a whole word, of an access of `size` bytes."""
    dtype = _DTYPE.get(size, dt.u32)
    return dtype, max(1, size // 4), max(32 // dtype.bits, size // 4)


def _place(call: int, lane_bytes: int) -> Scalar:
    at = WARP_INDEX % 4 * REGION + LANE * lane_bytes + TRIP % 2 * HALF
    return at + call * (REGION // CALLS)


@dataclass(frozen=True)
class Window:
    """Shared memory as accesses of `space` see it: the operand of an address, what opens and closes
    it, and how it is launched."""

    space: str
    at: Callable[[Scalar], Operand]
    arena: int
    opened: tuple[Stmt, ...] = ()
    closed: tuple[Stmt, ...] = ()
    cluster: int = 1
    blocks: int = 0
    capability: int = 80


OWN = Window("shared", SharedPtr, ARENA)


def load(window: Window, size: int) -> Row:
    """Loads of `size` bytes per lane."""
    dtype, count, step = holder(size)
    name = f"ld.{window.space}.{size}"
    loads = tuple(
        Prim(name, (words("v", call * step, count, dtype), window.at(_place(call, size))))
        for call in range(CALLS)
    )
    full = program(
        f"{name} issue", WARPS * WARP, (*loads, *gathered(dtype, CALLS * max(1, size // 4))),
        before=(DeclareArray("v", dtype, CALLS * step), *SUMS, *window.opened),
        after=(*kept("acc", count=4), *window.closed), shared=window.arena, cluster=window.cluster,
    )  # fmt: skip
    issue = Probe(full, WARPS * CALLS, TRIPS, FULL, window.blocks)
    return Row(name, MULTIPROCESSOR, issue, _chase(window, size), window.capability)


def _chase(window: Window, size: int) -> Probe:
    """A lane's word holds that word's own address."""
    dtype, count, step = holder(size)
    at = Var("at")
    name = f"ld.{window.space}.{size}"
    own = SetElement("v", i32(0), cast(LANE * size, dtype))
    put = Prim(f"st.shared.{size}", (SharedPtr(LANE * size), words("v", 0, count, dtype)))
    follow = Assign(at, cast(element("v", 0, dtype), dt.i32), False)
    there = (Prim(name, (words("v", 0, count, dtype), window.at(at))), follow)
    start = Assign(at, LANE * size, True)
    chain = program(
        f"{name} latency", WARP, (*there, *gathered(dtype, count)) * CHAIN,
        before=(*zeroed("v", dtype, step), *SUMS, own, put, start, *window.opened),
        after=(*kept("acc", count=4), *window.closed), shared=window.arena, cluster=window.cluster,
    )  # fmt: skip
    return Probe(chain, CHAIN, TRIPS, CHAINED)


def store(window: Window, size: int) -> Row:
    """Stores of `size` bytes per lane."""
    dtype, count, step = holder(size)
    name, inverse = f"st.{window.space}.{size}", f"ld.{window.space}.{size}"
    value = (*zeroed("v", dtype, step), SetElement("v", i32(0), cast(LANE, dtype)))
    stores = tuple(
        Prim(name, (window.at(_place(call, size)), words("v", 0, count, dtype)))
        for call in range(CALLS)
    )
    full = program(
        f"{name} issue", WARPS * WARP, stores, before=(*value, *window.opened),
        after=window.closed, shared=window.arena, cluster=window.cluster,
    )  # fmt: skip
    at = Var("at")
    there = (
        Prim(name, (window.at(at), words("v", 0, count, dtype))),
        Prim(inverse, (words("v", 0, count, dtype), window.at(xor(at, size)))),
        Assign(at, cast(element("v", 0, dtype), dt.i32), False),
        *gathered(dtype, count),
    )
    own = SetElement("v", i32(0), cast(LANE * size, dtype))
    start = Assign(at, LANE * size, True)
    chain = program(
        f"{name} latency", WARP, there * CHAIN,
        before=(*zeroed("v", dtype, step), *SUMS, own, start, *window.opened),
        after=(*kept("acc", count=4), *window.closed), shared=window.arena, cluster=window.cluster,
    )  # fmt: skip
    method = (
        f"one warp, {CHAIN} times a trip: an address stored, the next lane's loaded and followed; "
        "less the load"
    )
    return Row(
        name, MULTIPROCESSOR, Probe(full, WARPS * CALLS, TRIPS, FULL, window.blocks),
        Probe(chain, CHAIN, TRIPS, method, less=inverse), window.capability,
    )  # fmt: skip


def _matrices(call: int, count: int) -> Regs:
    return Regs("v", i32(0), tuple(range(count * call, count * (call + 1))), 1, dt.u32)


def _ldmatrix(count: int, suffix: str) -> Row:
    """Rows of 16 bytes one after another: eight fill all banks once."""
    name = f"ldmatrix.x{count}{suffix}"
    loads = tuple(
        Prim(name, (_matrices(call, count), SharedPtr(_place(call, 16)))) for call in range(CALLS)
    )
    full = program(
        f"{name} issue", WARPS * WARP, (*loads, *gathered(dt.u32, CALLS * count)),
        before=(DeclareArray("v", dt.u32, CALLS * count), *SUMS),
        after=kept("acc", count=4), shared=ARENA,
    )  # fmt: skip
    at = Var("at")
    step = (
        Prim(name, (_matrices(0, count), SharedPtr(at))),
        Assign(at, cast(element("v", 0), dt.i32), False),
        *gathered(dt.u32, count),
    )
    put = Prim("st.shared.16", (SharedPtr(LANE * 16), words("v", 0, 4)))
    chain = program(
        f"{name} latency", WARP, step * CHAIN,
        before=(*zeroed("v", dt.u32, 4), *SUMS, put, Assign(at, LANE * 16, True)),
        after=kept("acc", count=4), shared=ARENA,
    )  # fmt: skip
    method = f"one warp, {CHAIN} calls a trip, each at the row address the last one loaded"
    return Row(
        name, MULTIPROCESSOR, Probe(full, WARPS * CALLS, TRIPS, FULL),
        Probe(chain, CHAIN, TRIPS, method),
    )  # fmt: skip


def _stmatrix(count: int, suffix: str) -> Row:
    name = f"stmatrix.x{count}{suffix}"
    stores = tuple(
        Prim(name, (SharedPtr(_place(call, 16)), _matrices(0, count))) for call in range(CALLS)
    )
    full = program(
        f"{name} issue", WARPS * WARP, stores, before=zeroed("v", dt.u32, count), shared=ARENA
    )
    return Row(name, MULTIPROCESSOR, Probe(full, WARPS * CALLS, TRIPS, FULL), capability=90)


def rows() -> list[Row]:
    """All of them."""
    found = [make(OWN, size) for size in SIZES for make in (load, store)]
    shapes = [(count, suffix) for count in (1, 2, 4) for suffix in ("", ".trans")]
    found += [_ldmatrix(*shape) for shape in shapes]
    return [*found, *(_stmatrix(*shape) for shape in shapes)]
