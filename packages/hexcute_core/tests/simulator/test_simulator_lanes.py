"""A lane that arrives, releases, copies or waits by itself speaks for itself: what the other lanes
of its warp did, or may do, takes a bar.warp.sync between, whatever the order of the warps."""

import numpy as np
import pytest
from little_programs import (
    BAR,
    ONE,
    TRUE,
    TX,
    ZERO,
    ZEROS,
    all_find,
    at,
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
from hexcute_core.scalar import Element, Var, compare
from hexcute_core.thread import Assign, DeclareArray, If, SetElement, While

SYNC = prim("bar.warp.sync")
SECOND = compare("eq", TX, 32)
"""The first lane of warp 1."""
OUT = prim("st.global.4", at("y", TX), regs(), TRUE)


def two_warps(one, other, *before):
    """Warp 0 does `one`, warp 1 does `other`; `y` gets what each has in its register."""
    body = [*ONE, *before, If(compare("lt", TX, 32), tuple(one), tuple(other)), OUT]
    return program(body, [("y", dt.f32, (64,))], 64)


WRITE = prim("st.shared.4", shared(TX * 4), regs(), line=1)
READ = prim("ld.shared.4", regs(), shared((TX - 32) * -4 + 124), line=2)
ARRIVE, WAIT = prim("mbarrier.arrive", shared(BAR)), prim("mbarrier.wait", shared(BAR), ZERO)


def check(make, text):
    """The program that `make` gives with the lanes' meeting is clean, the one without it is not."""
    none_finds(make((SYNC,)), ZEROS)
    all_find(make(()), ZEROS, text)


def test_a_lane_arrives_for_its_warp_when_all_lanes_have_come():
    check(
        lambda meet: two_warps((WRITE, *meet, first(ARRIVE)), (WAIT, READ), *opened(1)),
        "race on shared byte 124: ld.shared.4 here, written at p.py:1 by thread 31",
    )


def test_a_meeting_behind_the_arrival_is_too_late():
    late = two_warps((WRITE, first(ARRIVE), SYNC), (WAIT, READ), *opened(1))
    all_find(late, ZEROS, "race on shared byte 124")


def test_what_a_lane_has_waited_for_the_others_know_once_they_meet():
    check(
        lambda meet: two_warps(
            (WRITE, ARRIVE), (If(SECOND, (WAIT,)), *meet, READ), *opened(32)
        ),
        "race on shared byte 120: ld.shared.4 here, written at p.py:1 by thread 30",
    )


def test_a_lane_hands_on_what_it_did_itself():
    """No other lane has a part in it."""
    alone = first(prim("st.shared.4", shared(0), regs()), ARRIVE)
    reads = If(SECOND, (WAIT, prim("ld.shared.4", regs(), shared(0))))
    none_finds(two_warps((alone,), (reads,), *opened(1)), ZEROS)


FLAG = at("flag", 0, dt.i32)


def flagged(release, acquire, meet, learn):
    """Warp 0 writes to global memory and its first lane raises a flag; the first lane of warp 1
    sees it, and all lanes of that read."""
    seen, value = Var("seen"), regs("n", dt.i32)
    spin = While(compare("eq", seen, 0), (
        prim(f"ld.global.{acquire}.4", value, FLAG, TRUE),
        Assign(seen, Element("n", (ZERO,), dt.i32), False)))  # fmt: skip
    fence = () if release == "release" else (prim("fence.cta"),)
    body = [
        *ONE, DeclareArray("n", dt.i32, 1), SetElement("n", ZERO, number(1)),
        Assign(seen, ZERO, True),
        If(compare("lt", TX, 32),
           (prim("st.global.4", at("part", TX), regs(), TRUE, line=1), *meet,
            first(*fence, prim(f"st.global.{release}.4", FLAG, value, TRUE))),
           (If(SECOND, (spin, *fence)), *learn,
            prim("ld.global.4", regs(), at("part", TX * -1 + 63), TRUE, line=2))),
        OUT,
    ]  # fmt: skip
    params = [("part", dt.f32, (32,)), ("flag", dt.i32, (1,)), ("y", dt.f32, (64,))]
    return program(body, params, 64)


@pytest.mark.parametrize("orders", [("release", "acquire"), ("relaxed", "relaxed")])
def test_flags_that_lanes_raise_and_see_are_theirs(orders):
    arrays = {"part": np.zeros(32, np.float32), "flag": np.zeros(1, np.int32), **ZEROS}
    none_finds(flagged(*orders, (SYNC,), (SYNC,)), arrays)
    for meet, learn in (((), (SYNC,)), ((SYNC,), ())):
        all_find(flagged(*orders, meet, learn), arrays, "race on byte")


def test_a_copy_reads_what_its_lane_knows():
    copy = (prim("bulk.store", at("y", 0), shared(0), number(128)), prim("tma.commit"))
    over = (prim("tma.wait.read", ZERO),)

    def make(meet, learn):
        write = prim("st.shared.4", shared(TX * 4), regs(), line=3)
        body = [*ONE, WRITE, prim("fence.proxy"), *meet, first(*copy, *over), *learn, write]
        return program(body, [("y", dt.f32, (64,))], 32)

    none_finds(make((SYNC,), (SYNC,)), ZEROS)
    all_find(make((), (SYNC,)), ZEROS, "bulk.store")
    all_find(make((SYNC,), ()), ZEROS, "race on shared byte 4: st.shared.4 here, read")


def test_a_barrier_is_visible_to_a_lane_that_learnt_of_it():
    load = (
        prim("mbarrier.expect", shared(BAR), number(128)),
        prim("bulk.load", shared(0), at("x", 0), number(128), shared(BAR)),
    )
    init = first(prim("mbarrier.init", shared(BAR), number(1)), prim("fence.mbarrier"))

    def make(meet):
        body = [*ONE, init, *meet, If(compare("eq", TX, 1), load), SYNC, WAIT, OUT]
        return program(body, [("x", dt.f32, (64,)), ("y", dt.f32, (64,))], 32)

    arrays = {"x": np.zeros(64, np.float32), **ZEROS}
    none_finds(make((SYNC,)), arrays)
    all_find(make(()), arrays, "race on shared byte 65536")


def named(*warps):
    """Those warps come to one barrier of two warps, one after the other in the program."""
    sync = prim("bar.named.sync", number(1), number(64))
    body = []
    for some in warps:
        lanes = compare("lt", TX, 32 * some) if some > 0 else compare("ge", TX, 32 * -some)
        body.append(If(lanes, (sync,)))
    return program([*ONE, *body, OUT], [("y", dt.f32, (128,))], 128)


def test_nobody_comes_to_a_barrier_that_may_still_be_in_another_phase():
    y = {"y": np.zeros(128, np.float32)}
    none_finds(named(2, 2, 2), y)
    all_find(named(2, -2), y, "barrier misuse: bar.named.sync: nothing tells warp")
