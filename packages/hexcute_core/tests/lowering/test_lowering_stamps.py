"""Stamps in a thread program: where they stand, which follow one another, what a program obeys."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import Any

import pytest
from timeline_kernels import KERNELS, in_step

from hexcute_core.dtypes import boolean, i32
from hexcute_core.errors import SourceSpan, VerifyError
from hexcute_core.lowering.stamps import activity, stamped
from hexcute_core.scalar import Const, Var
from hexcute_core.thread import (
    PRIMS,
    For,
    If,
    Prim,
    Say,
    SetElement,
    Stamp,
    Stamps,
    While,
    show_program,
    verify,
)
from hexcute_core.thread.visit import statements

NAMES = sorted(KERNELS)
NESTS = (If, For, While)


@pytest.mark.parametrize("name", NAMES)
def test_where_the_stamps_stand(name: str) -> None:
    kernel, target = KERNELS[name]
    thread = kernel.compile(target).stamped.thread
    text, told = show_program(thread), thread.stamps
    assert "stamps to timeline_rows" in text and re.search(r"interval \d+: multiply", text)
    assert told is not None and re.search(r"stamps 0: \d+( \d+| -)*\n", text)
    for block in blocks(thread.body):
        # Stamps that say the same do not follow one another.
        opened = [told.opens(s) for s in block if isinstance(s, Stamp)]
        assert all(a != b for a, b in itertools.pairwise(opened))
    ways(thread.body, {None}, told)


def ways(body: Any, states: set[int | None], told: Stamps) -> set[int | None]:
    """What a thread may be in behind `body`, whichever way it goes from `states`: where it waits,
    copies, multiplies or stores it is in an interval of that kind, in a loop of its own in none."""
    for stmt in body:
        if isinstance(stmt, Stamp):
            states = {told.opens(stmt)}
        elif isinstance(stmt, Prim) and stmt.span is not None and activity(stmt) is not None:
            kinds = {None if s is None else told.intervals[s].activity for s in states}
            assert kinds == {activity(stmt)}, (stmt, states)
        elif isinstance(stmt, If):
            states = ways(stmt.then, states, told) | ways(stmt.otherwise, states, told)
        elif isinstance(stmt, NESTS):
            if not any(isinstance(s, Prim) for s in statements(stmt.body)):
                assert states == {None}, stmt
            # Any number of trips.
            while not (behind := ways(stmt.body, states, told)) <= states:
                states = states | behind
    return states


WAIT, COPY, DONE = (
    Prim(name, (), SourceSpan("", n))
    for n, name in enumerate(("bar.sync", "tma.load", "wgmma.wait"))
)
KEPT = Prim("fence.proxy", ())
OTHER = Say("", (), stops=False)
SUM = SetElement("a", Const(0, i32), Const(0, i32))


def loop(*body: Any) -> For:
    zero = Const(0, i32)
    return For(Var("i", i32), zero, zero, zero, body, span=SourceSpan("", 9))


@pytest.mark.parametrize(
    ("body", "runs"),
    [
        ((WAIT, COPY), "0 1"),
        ((WAIT, KEPT, COPY, OTHER), "0 1 -"),
        ((WAIT, OTHER, COPY), "0 - 1"),
        # What comes behind a trip's last interval is in it until the next trip's first.
        ((loop(WAIT, COPY, KEPT), OTHER), "0 1; -"),
        ((loop(OTHER, WAIT), OTHER), "0 -"),
        ((COPY, loop(OTHER, WAIT, COPY)), "1 0 -; 0 -"),
        ((COPY, loop(KEPT, WAIT), COPY), "1; 0"),
        ((WAIT, If(Const(True, boolean), (COPY,), (OTHER, WAIT)), OTHER), "1; - 0; 0; -"),
        ((KEPT, OTHER), ""),
        # The assembler waits for products early, but not before what others are told.
        ((COPY, SUM, DONE, SUM), "0 1 -"),
        ((COPY, SUM, KEPT, SUM, DONE, SUM), "0 - 1 -"),
        ((COPY, loop(SUM), DONE), "0 - 1"),
    ],
)
def test_an_interval_lasts_until_something_else_begins(body: Any, runs: str) -> None:
    program = stamped(replace(in_step.compile("sm_80").thread, body=body))
    told = program.stamps
    assert told is not None
    shown = "; ".join(" ".join("-" if n is None else str(n) for n in r) for r in told.runs)
    assert shown == runs
    ways(program.body, {None}, told)


QUIET = {
    "atom.shared", "bar.named.arrive", "bar.warp.sync", "cluster.arrive", "cp.async.commit",
    "cp.async.mbarrier", "fence", "griddepcontrol.launch", "ld.shared", "ldmatrix",
    "mbarrier.arrive", "mbarrier.expect", "mbarrier.init", "mov", "red.shared", "setmaxnreg",
    "st.shared", "stmatrix", "tma.commit",
}  # fmt: skip
"""What takes no time worth telling: it moves within the block, or only says something."""


def test_every_primitive_is_told_or_known_to_be_quiet() -> None:
    told = {name for name in PRIMS if activity(Prim(name, ())) is not None}
    quiet = {name for name in PRIMS if any(f"{name}.".startswith(f"{q}.") for q in QUIET)}
    assert told | quiet == set(PRIMS) and not told & quiet
    kinds = {
        "mbarrier.wait.cluster": "wait", "cp.async.16": "copy", "cp.async.wait": "wait",
        "ld.global.acquire.4": "copy", "tma.load.multicast": "copy", "tma.wait.read": "wait",
        "wgmma.wait": "multiply", "mma.16x8x16.f32.f16.f16": "multiply", "tma.reduce.add": "store",
        "red.global.add.f32": "store", "tma.prefetch": "copy",
    }  # fmt: skip
    assert {name: activity(Prim(name, ())) for name in kinds} == kinds


def blocks(body: Any) -> Any:
    yield body
    for stmt in body:
        for part in ("body", "then", "otherwise"):
            if getattr(stmt, part, ()):
                yield from blocks(getattr(stmt, part))


def test_stamps_obey_the_laws_of_thread_programs() -> None:
    thread = in_step.compile("sm_80").thread
    good = stamped(thread)
    assert good.stamps is not None
    wrong = (
        replace(good, stamps=None),
        replace(good, stamps=replace(good.stamps, params=("nobody",))),
        replace(good, stamps=replace(good.stamps, intervals=good.stamps.intervals[:1])),
        replace(good, stamps=replace(good.stamps, runs=good.stamps.runs[:1])),
        # A run whose stamps are not all there would leave part of a row unwritten.
        replace(good, stamps=replace(good.stamps, runs=((None,) * 9, *good.stamps.runs[1:]))),
        replace(good, body=tuple(reversed(good.body))),
        replace(good, params=thread.params),
    )
    for program in wrong:
        with pytest.raises(VerifyError):
            verify(program)
