"""Shared memory: loads, stores, matrix loads and stores, addresses without bank conflicts."""

from __future__ import annotations

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
from hexcute_core.thread import Assign, DeclareArray, Prim, Regs, SetElement, SharedPtr

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


def _load(size: int) -> Row:
    dtype, count, step = holder(size)
    name = f"ld.shared.{size}"
    loads = tuple(
        Prim(name, (words("v", call * step, count, dtype), SharedPtr(_place(call, size))))
        for call in range(CALLS)
    )
    full = program(
        f"{name} issue", WARPS * WARP, (*loads, *gathered(dtype, CALLS * max(1, size // 4))),
        before=(DeclareArray("v", dtype, CALLS * step), *SUMS),
        after=kept("acc", count=4), shared=ARENA,
    )  # fmt: skip
    return Row(name, MULTIPROCESSOR, Probe(full, WARPS * CALLS, TRIPS, FULL), _chase(size))


def _chase(size: int) -> Probe:
    """A lane's word holds that word's own address."""
    dtype, count, step = holder(size)
    at = Var("at")
    own = SetElement("v", i32(0), cast(LANE * size, dtype))
    put = Prim(f"st.shared.{size}", (SharedPtr(LANE * size), words("v", 0, count, dtype)))
    load = Prim(f"ld.shared.{size}", (words("v", 0, count, dtype), SharedPtr(at)))
    follow = Assign(at, cast(element("v", 0, dtype), dt.i32), False)
    chain = program(
        f"ld.shared.{size} latency", WARP, (load, follow, *gathered(dtype, count)) * CHAIN,
        before=(*zeroed("v", dtype, step), *SUMS, own, put, Assign(at, LANE * size, True)),
        after=kept("acc", count=4), shared=ARENA,
    )  # fmt: skip
    return Probe(chain, CHAIN, TRIPS, CHAINED)


def _store(size: int) -> Row:
    dtype, count, step = holder(size)
    name = f"st.shared.{size}"
    value = (*zeroed("v", dtype, step), SetElement("v", i32(0), cast(LANE, dtype)))
    stores = tuple(
        Prim(name, (SharedPtr(_place(call, size)), words("v", 0, count, dtype)))
        for call in range(CALLS)
    )
    full = program(f"{name} issue", WARPS * WARP, stores, before=value, shared=ARENA)
    at = Var("at")
    there = (
        Prim(name, (SharedPtr(at), words("v", 0, count, dtype))),
        Prim(f"ld.shared.{size}", (words("v", 0, count, dtype), SharedPtr(xor(at, size)))),
        Assign(at, cast(element("v", 0, dtype), dt.i32), False),
        *gathered(dtype, count),
    )
    own = SetElement("v", i32(0), cast(LANE * size, dtype))
    chain = program(
        f"{name} latency", WARP, there * CHAIN,
        before=(*zeroed("v", dtype, step), *SUMS, own, Assign(at, LANE * size, True)),
        after=kept("acc", count=4), shared=ARENA,
    )  # fmt: skip
    method = (
        f"one warp, {CHAIN} times a trip: an address stored, the next lane's loaded and followed; "
        "less the load"
    )
    return Row(
        name, MULTIPROCESSOR, Probe(full, WARPS * CALLS, TRIPS, FULL),
        Probe(chain, CHAIN, TRIPS, method, less=f"ld.shared.{size}"),
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
    found = [make(size) for size in SIZES for make in (_load, _store)]
    shapes = [(count, suffix) for count in (1, 2, 4) for suffix in ("", ".trans")]
    found += [_ldmatrix(*shape) for shape in shapes]
    return [*found, *(_stmatrix(*shape) for shape in shapes)]
