"""Tensor copies of boxes of several sizes, mbarriers and barriers."""

from __future__ import annotations

from hexcute_bench.microbench.probe import (
    BLOCK,
    BLOCKS,
    MULTIPROCESSOR,
    ROW,
    THREAD,
    TRIP,
    TRIPS,
    WARP,
    WARP_INDEX,
    Probe,
    Row,
    i32,
    program,
)
from hexcute_core import dtypes as dt
from hexcute_core.scalar import Scalar, Var, compare
from hexcute_core.thread import For, If, MapRef, Prim, SharedPtr, Stmt, TensorMap

ROW_BYTES = 128
BOXES = (8, 32, 64, 128, 256)
"""Rows of a box."""
RING_BYTES, MOST_SLOTS = 131072, 16
LOOPS, WAITS, FAR = (8, 16, 24, 32), (32, 64, 96, 128), (6, 12, 18, 24)
SYNC_TRIPS, SYNCS = (64, 128, 192, 256), 4
PLACES = (("l2", False), ("dram", True))
FIRST = compare("eq", THREAD, 0)


def _barriers(base: int, count: int) -> tuple[Stmt, ...]:
    """One thread makes `count` barriers of one arrival."""
    init = Prim("mbarrier.init", (SharedPtr(i32(base) + Var("made") * 8), i32(1)))
    loop = For(Var("made"), i32(0), i32(count), i32(1), (init,), unroll=True)
    return If(FIRST, (loop, Prim("fence.mbarrier", ()))), Prim("bar.sync", ())


def _box(rows: int, place: str, far: bool) -> Row:
    size = rows * ROW_BYTES
    slots = min(MOST_SLOTS, RING_BYTES // size)
    base = slots * size
    maps = (TensorMap("boxes", "data", (rows, ROW), 128),)

    def fill(slot: int, round_: Scalar, ring: int) -> tuple[Stmt, ...]:
        barrier = SharedPtr(i32(base + 8 * slot))
        row = ((round_ * BLOCKS + BLOCK) * ring + slot) * rows
        load = (SharedPtr(i32(slot * size)), MapRef("boxes", (row, i32(0))), barrier)
        return Prim("mbarrier.expect", (barrier, i32(size))), Prim("tma.load", load)

    def wait(slot: int, parity: Scalar) -> Stmt:
        return Prim("mbarrier.wait", (SharedPtr(i32(base + 8 * slot)), parity))

    name = f"tma.load.{size}.{place}"
    ahead = tuple(s for slot in range(slots) for s in fill(slot, i32(0), slots))
    turn = tuple(
        s for slot in range(slots) for s in (wait(slot, TRIP % 2), *fill(slot, TRIP + 1, slots))
    )
    full = program(
        f"{name} issue", WARP, (If(FIRST, turn),), data=dt.f16, maps=maps, shared=base + 8 * slots,
        before=(*_barriers(base, slots), If(FIRST, ahead)),
        after=(If(FIRST, tuple(wait(slot, TRIPS % 2) for slot in range(slots))),),
    )  # fmt: skip
    chain = program(
        f"{name} latency", WARP, (If(FIRST, (*fill(0, TRIP, 1), wait(0, TRIP % 2))),),
        data=dt.f16, maps=maps, shared=base + 8 * slots, before=_barriers(base, slots),
    )  # fmt: skip
    where = f"boxes of {rows} x {ROW_BYTES} bytes, data in {place.upper()}"
    many = "all multiprocessors, " if far else ""
    return Row(
        name, MULTIPROCESSOR,
        Probe(full, slots, FAR if far else LOOPS, f"{many}{slots} in flight, {where}",
              int(far), far),
        Probe(chain, 1, WAITS, f"one thread, loaded and waited for, {where}", cold=far),
        capability=90,
    )  # fmt: skip


def _bar_sync(warps: int) -> Row:
    loop = (Prim("bar.sync", ()),) * SYNCS
    made = program(f"bar.sync.{warps}", warps * WARP, loop)
    method = f"{warps} warps, {SYNCS} barriers a trip"
    return Row(f"bar.sync.{warps}", MULTIPROCESSOR, latency=Probe(made, SYNCS, SYNC_TRIPS, method))


def _mbarrier() -> Row:
    """issue: arrivals, each at the barrier of its warp. latency: two warps call each other."""
    warps = 8
    own = SharedPtr(WARP_INDEX * 8)
    lane = compare("eq", THREAD % WARP, 0)
    arrive = Prim("mbarrier.arrive", (own,))
    busy = program(
        "mbarrier issue", warps * WARP, (If(lane, (arrive,) * SYNCS),),
        before=_barriers(0, warps), shared=8 * warps,
    )  # fmt: skip
    call, answer, parity = SharedPtr(i32(0)), SharedPtr(i32(64)), TRIP % 2
    caller = (Prim("mbarrier.arrive", (call,)), Prim("mbarrier.wait", (answer, parity)))
    other = (Prim("mbarrier.wait", (call, parity)), Prim("mbarrier.arrive", (answer,)))
    turn = If(lane, (If(compare("eq", WARP_INDEX, 0), caller, other),))
    chain = program("mbarrier latency", 2 * WARP, (turn,), before=_barriers(0, 16), shared=128)
    return Row(
        "mbarrier", MULTIPROCESSOR,
        Probe(busy, warps * SYNCS, SYNC_TRIPS, f"{warps} warps, {SYNCS} arrivals each a trip"),
        Probe(chain, 2, SYNC_TRIPS, "arrival at a barrier until a warp waiting there goes on: "
              "half of a round trip between two warps"),
        capability=90,
    )  # fmt: skip


def rows() -> list[Row]:
    """All of them."""
    boxes = [_box(rows, place, far) for place, far in PLACES for rows in BOXES]
    return [*boxes, *(_bar_sync(warps) for warps in (1, 4, 8, 12)), _mbarrier()]
