"""Barriers, fences and registers used otherwise than the machine defines are found on every
schedule, and the same program that keeps the rule is clean."""

import numpy as np
import pytest
from little_programs import (
    BAR,
    BX,
    ONE,
    TRUE,
    TX,
    ZERO,
    ZEROS,
    all_find,
    at,
    findings,
    first,
    none_finds,
    number,
    opened,
    prim,
    program,
    regs,
    shared,
)

from hexcute_core import dtypes as dt
from hexcute_core.errors import SimulationError
from hexcute_core.scalar import Const, Element, Var, compare
from hexcute_core.simulator import simulate
from hexcute_core.simulator.memory import clocks
from hexcute_core.thread import (
    Assign,
    DeclareArray,
    If,
    RemotePtr,
    SetElement,
    While,
)

# mbarriers: counts, initialisation, and the bytes in which they lie.
RANK = BX % 2
MEET = [prim("cluster.arrive"), prim("cluster.wait")]


def exchange(arrive, wait, count=32, threads=32):
    """Each block writes to the other one's memory, tells it and reads what came."""
    body = [
        DeclareArray("r", dt.f32, 1), SetElement("r", ZERO, TX * 1.0 + RANK * 100.0),
        first(prim("mbarrier.init", shared(BAR), number(count)), prim("fence.mbarrier")), *MEET,
        prim("st.cluster.4", RemotePtr(TX * 4, number(1) - RANK), regs(), line=1),
        prim(arrive, shared(BAR), number(1) - RANK, line=2), prim(wait, shared(BAR), ZERO, line=3),
        prim("ld.shared.4", regs(), shared(TX * -4 + 4 * threads - 4), line=4),
        prim("st.global.4", at("y", BX * threads + TX), regs(), TRUE), *MEET,
    ]  # fmt: skip
    return program(body, [("y", dt.f32, (2 * threads,))], threads, grid=2, cluster=(2, 1, 1))


RELEASE, ACQUIRE = "mbarrier.arrive.cluster.release", "mbarrier.wait.cluster"


def test_what_a_remote_store_wrote_is_handed_over_by_a_release_and_an_acquire_of_the_cluster():
    none_finds(exchange(RELEASE, ACQUIRE), ZEROS)
    for arrive, wait in ((RELEASE[:-8], ACQUIRE), (RELEASE, "mbarrier.wait")):
        all_find(exchange(arrive, wait), ZEROS, "race on shared byte 124: ld.shared.4 here")


@pytest.mark.parametrize("count", [63, 48, 33])
def test_remote_arrivals_of_a_warp_come_in_one_phase(count):
    y = {"y": np.zeros(128, np.float32)}
    none_finds(exchange(RELEASE, ACQUIRE, 64, 64), y)
    all_find(exchange(RELEASE, ACQUIRE, count, 64), y, "barrier misuse: 32 arrivals at the mbarr")


USE = [
    prim("mbarrier.arrive", shared(BAR)), prim("mbarrier.wait", shared(BAR), ZERO),
    prim("st.global.4", at("y", TX), regs(), TRUE),
]  # fmt: skip
AGAIN = first(prim("mbarrier.init", shared(BAR), number(64)))
BY_ALL = If(compare("lt", TX, 32), (*AGAIN.then, prim("fence.mbarrier")))


@pytest.mark.parametrize("body, text", [
    ([*opened(64), *USE], None),
    ([*opened(64), AGAIN, prim("bar.sync"), *USE], "where a barrier was initialised before"),
    ([BY_ALL, prim("bar.sync"), *USE], "where a barrier was initialised before"),
    ([*opened(64), first(prim("st.shared.4", shared(BAR), regs())), prim("bar.sync"), *USE],
     "st.shared.4 touches shared byte 65536, where an mbarrier lies"),
    ([*opened(64), prim("ld.shared.4", regs(), shared(BAR + 4)), *USE],
     "ld.shared.4 touches shared byte 65540, where an mbarrier lies"),
    ([*opened(64), prim("ld.shared.4", regs(), shared(TX * -4 + BAR - 4)), *USE],
     "uninitialised read"),
])  # fmt: skip
def test_a_barrier_is_initialised_once_and_lies_in_bytes_of_its_own(body, text):
    whole = program([*ONE, *body], [("y", dt.f32, (64,))], 64)
    if text is None:
        none_finds(whole, ZEROS)
    else:
        all_find(whole, ZEROS, text)


# Fences that do not reach far enough.
def handed_on(fence):
    """Each block writes, fences and counts; the one that comes last reads what the first wrote."""
    last = Var("last")
    one = regs("n", dt.i32)
    body = [
        DeclareArray("r", dt.f32, 1), DeclareArray("n", dt.i32, 1), DeclareArray("o", dt.i32, 1),
        SetElement("o", ZERO, number(1)), SetElement("r", ZERO, BX * 1.0 + 1.0),
        prim("st.global.4", at("part", BX * 32 + TX), regs(), TRUE, line=1),
        prim("bar.sync"), prim(fence),
        first(prim("atom.global.add.i32.relaxed", one, at("count", 0, dt.i32),
                   regs("o", dt.i32), TRUE), prim("st.shared.4", shared(0), one)),
        prim(fence), prim("bar.sync"), prim("ld.shared.4", one, shared(0)),
        Assign(last, Element("n", (ZERO,), dt.i32), True),
        If(compare("eq", last, 1), (
            prim("ld.global.4", regs(), at("part", BX * -32 + 32 + TX), TRUE, line=2),
            prim("st.global.4", at("y", TX), regs(), TRUE))),
    ]  # fmt: skip
    params = [("part", dt.f32, (64,)), ("count", dt.i32, (1,)), ("y", dt.f32, (64,))]
    return program(body, params, 32, grid=2)


def test_a_fence_of_the_block_orders_nothing_between_blocks():
    arrays = {"part": np.zeros(64, np.float32), "count": np.zeros(1, np.int32), **ZEROS}
    none_finds(handed_on("fence.gpu"), arrays)
    all_find(handed_on("fence.cta"), arrays, "of part: ld.global.4 here, written at p.py:1")


def within(fence):
    """Warp 0 writes and raises a flag, in global memory both; warp 1 waits for it and reads."""
    seen = Var("seen")
    flag = regs("n", dt.i32)
    body = [
        DeclareArray("r", dt.f32, 1), DeclareArray("n", dt.i32, 1),
        SetElement("n", ZERO, number(1)), SetElement("r", ZERO, TX * 1.0),
        If(compare("lt", TX, 32),
           (prim("st.global.4", at("part", TX), regs(), TRUE, line=1), prim("bar.warp.sync"),
            prim(fence), first(prim("st.global.relaxed.4", at("flag", 0, dt.i32), flag, TRUE))),
           (Assign(seen, ZERO, True),
            While(compare("eq", seen, 0),
                  (prim("ld.global.relaxed.4", flag, at("flag", 0, dt.i32), TRUE),
                   Assign(seen, Element("n", (ZERO,), dt.i32), False))),
            prim(fence), prim("ld.global.4", regs(), at("part", TX - 32), TRUE, line=2),
            prim("st.global.4", at("y", TX), regs(), TRUE))),
    ]  # fmt: skip
    params = [("part", dt.f32, (32,)), ("flag", dt.i32, (1,)), ("y", dt.f32, (64,))]
    return program(body, params, 64)


@pytest.mark.parametrize("fence", ["fence.cta", "fence.gpu"])
def test_a_fence_of_the_block_orders_within_it(fence):
    arrays = {"part": np.zeros(32, np.float32), "flag": np.zeros(1, np.int32), **ZEROS}
    none_finds(within(fence), arrays)


# Registers given and taken by whole warp groups.
@pytest.mark.parametrize("warps, clean", [(range(4), True), (range(3), False), (range(1), False)])
def test_registers_are_given_by_all_warps_of_a_group(warps, clean):
    give = (prim("setmaxnreg.dec", number(40)),)
    body = [If(compare("lt", TX, 32 * len(warps)), give), prim("bar.sync"), *ONE,
            prim("st.global.4", at("y", TX), regs(), TRUE)]
    whole = program(body, [("y", dt.f32, (128,))], 128)
    y = {"y": np.zeros(128, np.float32)}
    if clean:
        none_finds(whole, y)
    else:
        all_find(whole, y, f"executed by warp 0 and not by warp {len(warps)}")


def test_registers_are_given_in_one_number():
    give = (prim("setmaxnreg.dec", number(40)),), (prim("setmaxnreg.dec", number(48)),)
    body = [If(compare("lt", TX, 64), *give)]
    found = findings(program(body, [("y", dt.f32, (128,))], 128), {"y": np.zeros(128, np.float32)})
    assert all("the warps of a group execute different ones" in one for one in found)


# Equal values.
def written_twice(same_statement):
    """Two warps write one element: by two statements, or by one."""
    one, other = (prim("st.shared.4", shared(0), regs(), line=line) for line in (1, 2))
    value = [DeclareArray("r", dt.f32, 1), SetElement("r", ZERO, Const(0.0, dt.f32))]
    writes = [one] if same_statement else [If(compare("lt", TX, 32), (one,), (other,))]
    return program([*value, *writes], [("y", dt.f32, (64,))], 64)


def test_equal_values_of_two_statements_hide_no_race():
    none_finds(written_twice(same_statement=True), ZEROS)
    all_find(written_twice(same_statement=False), ZEROS, "race on shared byte 0: st.shared.4")


# Clocks and numbers that a tag cannot hold.
def test_a_run_beyond_what_clocks_tell_apart_is_refused(monkeypatch):
    monkeypatch.setattr(clocks, "LAST", 20)
    for turns in (15, 30):
        meet = [prim("bar.sync")] * turns
        body = [*ONE, *meet, prim("st.global.4", at("y", TX), regs(), TRUE)]
        whole = program(body, [("y", dt.f32, (64,))], 64)
        if turns == 15:
            none_finds(whole, ZEROS)
            continue
        with pytest.raises(SimulationError, match="more than 20 times, more than the simu") as e:
            findings(whole, ZEROS)
        assert e.value.fix.startswith("simulate fewer iterations, or fewer blocks at once")


def test_a_launch_of_more_threads_than_can_be_told_apart_is_refused(monkeypatch):
    from hexcute_core.simulator import world

    monkeypatch.setattr(world, "WHO_MASK", 2047)
    body = [*ONE, prim("st.global.4", at("y", TX), regs(), compare("eq", BX, 0))]
    none_finds(program(body, [("y", dt.f32, (64,))], 64, grid=31), ZEROS)
    with pytest.raises(SimulationError, match="33 blocks of 64 threads is more than the") as e:
        findings(program(body, [("y", dt.f32, (64,))], 64, grid=33), ZEROS)
    assert e.value.fix == "name some of the blocks: blocks=[(x, y, z), ...]"


def test_data_is_told_to_lie_elsewhere():
    whole = program([*ONE, *opened(64), prim("ld.shared.4", regs(), shared(BAR)), *USE],
                    [("y", dt.f32, (64,))], 64)  # fmt: skip
    report = simulate(whole, {"y": np.zeros(64, np.float32)}, {}, check=False)
    assert report.findings[0].fix == "keep data and barriers in bytes of their own"
