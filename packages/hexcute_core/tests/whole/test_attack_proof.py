"""The proof that a mistake has no effect: it takes no program for right that the simulator finds
wrong, nor one that is wrong on some schedules alone, and every right one for right."""

from __future__ import annotations

import sys
from functools import partial

import numpy as np
import pytest
from attack import planted
from attack.kernels import compiled
from attack.mistakes import mistakes
from attack.proof import unproved
from attack.proof.graph import Graph
from little_programs import BAR, ONE, TRUE, TX, ZERO, at, first, opened, prim, program, regs, shared

from hexcute_core import dtypes as dt
from hexcute_core.errors import HexcuteError
from hexcute_core.scalar import Const, compare
from hexcute_core.simulator import simulate
from hexcute_core.thread import If, verify


@pytest.fixture
def blind(monkeypatch):
    """Nobody stops at what the simulator finds."""
    without = partial(simulate, check=False)
    monkeypatch.setattr(sys.modules["attack.proof.trace"], "simulate", without)
    return without


def test_what_is_seen_is_over_and_not_the_other_way_round():
    graph = Graph()
    wrote = graph.node()
    over = graph.node(after=[wrote])
    seen = graph.node([wrote])
    later = graph.node([over], [seen])
    assert graph.after(over, wrote) and not graph.sees(over, wrote)
    assert graph.sees(seen, wrote) and graph.after(seen, wrote)
    assert graph.sees(later, over) and graph.after(later, seen) and not graph.sees(later, seen)
    assert not graph.sees(later, wrote) and not graph.after(wrote, later)


QUICK = ("pipelined", "one_group", "two_readers", "converting", "chained", "in_rows", "split_k")


@pytest.mark.parametrize("name", QUICK)
def test_right_kernels_are_proved(name):
    assert planted.tolerated(name, 0) == frozenset()


def test_a_tile_that_is_stored_twice_is_not_ordered():
    """TMA stores of one thread that write the same: what they read alone is waited for."""
    (reason,) = planted.tolerated("sent_by_tma", 0)
    assert reason.startswith("nothing orders tma.store at line")


@pytest.mark.parametrize("name", ["two_readers", "converting", "split_k"])
def test_what_the_simulator_finds_the_proof_does_not_take_for_right(name, blind):
    """Of memory and barriers, that is: registers are each thread's own, and not the proof's."""
    tried = 0
    for mistake in [*mistakes(compiled(name).thread)][::23]:
        try:
            verify(mistake.program)
        except HexcuteError:
            continue
        bound, arrays = planted.bound(name, 0)
        found = blind(mistake.program, arrays, bound, seed=0).findings
        if found and not any("registers" in finding.message for finding in found):
            tried += 1
            assert planted.unordered(name, mistake.program, 0) - planted.tolerated(name, 0), (
                mistake.what,
                found,
            )
    assert tried > 3


Y = {"y": np.zeros(64, np.float32)}
OUT = prim("st.global.4", at("y", TX), regs(), TRUE)
ARRIVE, WAIT = prim("mbarrier.arrive", shared(BAR)), prim("mbarrier.wait", shared(BAR), ZERO)
WRITE = prim("st.shared.4", shared(TX * 4), regs(), line=1)
READ = prim("ld.shared.4", regs(), shared((TX - 32) * -4 + 124), line=2)


def reasons(one, other, *before):
    """Of a program whose warp 0 does `one` and whose warp 1 does `other`."""
    body = [*ONE, *before, If(compare("lt", TX, 32), tuple(one), tuple(other)), OUT]
    return unproved(program(body, [("y", dt.f32, (64,))], 64), Y, {})


def test_a_wait_that_may_come_too_late_is_not_proved(blind):
    """The phase after has then begun, and looks like the one before: here warp 1 waits in time."""
    second = If(compare("eq", TX, 32), (ARRIVE,))
    assert reasons((WRITE, ARRIVE), (WAIT, READ), *opened(32)) == frozenset()
    found = reasons((first(ARRIVE), WAIT), (WAIT, second), *opened(1))
    assert any("may come too late" in reason for reason in found)


def test_an_arrival_that_may_come_a_phase_early_is_not_proved():
    other = If(compare("eq", TX, 32), (ARRIVE,))
    assert reasons((first(ARRIVE),), (other,), *opened(1)) == frozenset(), "nobody waits"
    found = reasons((first(ARRIVE),), (other, WAIT), *opened(1))
    assert any("may come in phase 0" in reason for reason in found)


def test_an_arrival_of_copies_comes_behind_what_its_thread_waited_for():
    """Each refills the slot when it is free, as the first round says that it is."""
    free = prim("mbarrier.wait", shared(BAR + 8), Const(1, dt.i32))
    copy = prim("cp.async.mbarrier", shared(BAR))
    back = (WAIT, prim("mbarrier.arrive", shared(BAR + 8)))
    second = prim("mbarrier.init", shared(BAR + 8), Const(32, dt.i32))
    inits = [first(second, prim("fence.mbarrier")), *opened(32)]
    assert reasons((free, copy), back, *inits) == frozenset()
    (late,) = reasons((copy, free), back, *inits)
    assert "may come too late" in late


@pytest.mark.parametrize("meet, ordered", [((prim("bar.warp.sync"),), True), ((), False)])
def test_a_lane_speaks_for_its_warp_when_all_have_come(meet, ordered, blind):
    found = reasons((WRITE, *meet, first(ARRIVE)), (WAIT, READ), *opened(1))
    assert (not found) is ordered
