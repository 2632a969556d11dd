"""Global memory: loads, stores and asynchronous copies, of data in L2 and of data in DRAM.

One multiprocessor alone reads L2; all of them together read DRAM, each its share of the bandwidth.
A launch never touches the same bytes twice, so that nothing comes from L1.
"""

from __future__ import annotations

from hexcute_bench.microbench.probe import (
    BLOCK,
    BLOCKS,
    LANE,
    MULTIPROCESSOR,
    THREAD,
    TRIP,
    TRUE,
    WARP,
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
from hexcute_bench.microbench.shared_rows import SIZES, holder
from hexcute_core import dtypes as dt
from hexcute_core.dtypes import DType
from hexcute_core.scalar import Scalar, Var, cast
from hexcute_core.thread import Assign, DeclareArray, GlobalPtr, Prim, SharedPtr, Stmt

CALLS = 8
ACCESS_WARPS, COPY_WARPS = 32, 16
FAR_BLOCKS = 2
"""Blocks of accesses per multiprocessor where all read: enough bytes in flight for DRAM."""
NEAR_TRIPS, FAR_TRIPS = (8, 16, 24, 32), (3, 6, 9, 12)
STEPS = (16, 32, 48, 64)
CHAIN = 4
STRIDE = 8192 + 512
"""Bytes between the places that a chain visits."""
PLACES = (("l2", False), ("dram", True))


def _place(call: int, size: int, dtype: DType, warps: int = ACCESS_WARPS) -> Scalar:
    """Element that a lane accesses: consecutive lanes, warps, calls, blocks and trips."""
    block = (TRIP * BLOCKS + BLOCK) * (CALLS * warps * WARP)
    at = block + THREAD + call * (warps * WARP)
    return at * (size * 8 // dtype.bits)


def _spread(
    name: str, loop: tuple[Stmt, ...], place: str, far: bool, dtype: DType, *,
    warps: int = ACCESS_WARPS, blocks: int = FAR_BLOCKS, before: tuple[Stmt, ...] = (),
    drain: tuple[Stmt, ...] = (), after: tuple[Stmt, ...] = (), shared: int = 0,
) -> Probe:  # fmt: skip
    made = program(
        f"{name}.{place} issue", warps * WARP, loop, data=dtype, before=before, drain=drain,
        after=after, shared=shared,
    )  # fmt: skip
    blocks = blocks if far else 1
    who = f"all multiprocessors, {blocks * warps} warps each" if far else f"{warps} warps"
    method = f"{who}, {CALLS} independent calls a trip and warp, data in {place.upper()}"
    trips = FAR_TRIPS if far else NEAR_TRIPS
    return Probe(made, blocks * warps * CALLS, trips, method, blocks if far else 0, far)


def _load(size: int, place: str, far: bool) -> Row:
    dtype, count, step = holder(size)
    name = f"ld.global.{size}"
    loads = tuple(
        Prim(name, (words("v", call * step, count, dtype),
                    GlobalPtr("data", _place(call, size, dtype), dtype), TRUE))
        for call in range(CALLS)
    )  # fmt: skip
    sums = gathered(dtype, CALLS * max(1, size // 4))
    before = (DeclareArray("v", dtype, CALLS * step), *zeroed("acc", dt.u32, 4))
    full = _spread(
        name, (*loads, *sums), place, far, dtype, before=before, after=kept("acc", count=4)
    )
    at = Var("at")
    follow = (
        Prim(name, (words("v", 0, count, dtype), GlobalPtr("data", at, dtype), TRUE)),
        Assign(at, at + cast(element("v", 0, dtype), dt.i32) + STRIDE * 8 // dtype.bits, False),
        *gathered(dtype, count),
    )
    first = Assign(at, LANE * (size * 8 // dtype.bits), True)
    chain = program(
        f"{name}.{place} latency", WARP, follow * CHAIN, data=dtype,
        before=(*zeroed("v", dtype, step), *zeroed("acc", dt.u32, 4), first),
        after=kept("acc", count=4),
    )  # fmt: skip
    method = (
        f"one warp, {CHAIN} calls a trip, each address computed from what the last one loaded, "
        f"data in {place.upper()}"
    )
    return Row(
        f"{name}.{place}", MULTIPROCESSOR, full, Probe(chain, CHAIN, STEPS, method, cold=far)
    )


def _store(size: int, place: str, far: bool) -> Row:
    dtype, count, step = holder(size)
    name = f"st.global.{size}"
    stores = tuple(
        Prim(name, (GlobalPtr("data", _place(call, size, dtype), dtype),
                    words("v", 0, count, dtype), TRUE))
        for call in range(CALLS)
    )  # fmt: skip
    full = _spread(name, stores, place, far, dtype, before=zeroed("v", dtype, step))
    return Row(f"{name}.{place}", MULTIPROCESSOR, full)


def _copy(size: int, place: str, far: bool) -> Row:
    """Two halves of shared memory in turn; the copies of one trip are in flight in the next."""
    name = f"cp.async.{size}"
    every = COPY_WARPS * WARP
    half = CALLS * every * size
    copies = tuple(
        Prim(name, (
            SharedPtr(TRIP % 2 * half + (call * every + THREAD) * size),
            GlobalPtr("data", _place(call, size, dt.u32, COPY_WARPS), dt.u32),
            TRUE,
        ))
        for call in range(CALLS)
    )  # fmt: skip
    commit, wait = Prim("cp.async.commit", ()), Prim("cp.async.wait", (i32(1),))
    drain = (Prim("cp.async.wait", (i32(0),)),)
    full = _spread(
        name, (*copies, commit, wait), place, far, dt.u32, drain=drain, shared=2 * half,
        warps=COPY_WARPS, blocks=1,
    )
    source = (TRIP * STRIDE + LANE * size) // 4
    one = (
        Prim(name, (SharedPtr(LANE * size), GlobalPtr("data", source, dt.u32), TRUE)),
        commit, *drain,
    )  # fmt: skip
    chain = program(f"{name}.{place} latency", WARP, one, shared=16 * WARP)
    method = f"one warp, copied, committed and waited for, data in {place.upper()}"
    return Row(
        f"{name}.{place}", MULTIPROCESSOR, full,
        Probe(chain, 1, tuple(4 * n for n in STEPS), method, cold=far),
    )  # fmt: skip


def rows() -> list[Row]:
    """All of them."""
    found = []
    for place, far in PLACES:
        for size in SIZES:
            found += [_load(size, place, far), _store(size, place, far)]
            if size >= 4:
                found.append(_copy(size, place, far))
    return found
