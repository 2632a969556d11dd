"""Warps as agents: roles that wait for each other, drawn schedules, deadlocks, flags in memory."""

import dataclasses

import numpy as np
import pytest

from hexcute_core import dtypes as dt
from hexcute_core.errors import SimulationError, SourceSpan
from hexcute_core.scalar import Const, Element, Var, compare
from hexcute_core.simulator import simulate
from hexcute_core.thread import (
    Assign,
    DeclareArray,
    For,
    GlobalPtr,
    If,
    Prim,
    Regs,
    SetElement,
    SharedPtr,
    ThreadParam,
    ThreadProgram,
    While,
)

TX, BX, IT = Var("threadIdx.x"), Var("blockIdx.x"), Var("i")
ZERO, ONE = Const(0, dt.i32), Const(1, dt.i32)
TRUE = Const(True, dt.boolean)
SEEDS = 20


def number(value):
    return Const(value, dt.i32)


def at(line):
    return SourceSpan("roles.py", line)


def step(name, line, *operands):
    return Prim(name, operands, at(line))


def regs(array="r", dtype=dt.f32):
    return Regs(array, ZERO, (0,), 1, dtype)


def program(body, params, threads, shared=1024, grid=1):
    made = [
        ThreadParam(name, dtype, (number(size),), pointer=True, aligned=True)
        for name, dtype, size in params
    ]
    extent = (number(grid), ONE, ONE)
    return ThreadProgram("roles", tuple(made), extent, threads, shared, tuple(body))


def sync(line, barrier, threads=64):
    return step("bar.named.sync", line, number(barrier), number(threads))


def arrive(line, barrier, threads=64):
    return step("bar.named.arrive", line, number(barrier), number(threads))


FULL, EMPTY, TILES = 1, 3, 6


def ring():
    """Warp 0 hands tiles of 32 words to warp 1 through two slots; each slot has a full and an
    empty barrier, and warp 1 sees a tile's lanes in reverse."""
    slot = (IT % 2) * 128
    per_slot = lambda barrier, make, line: If(  # noqa: E731
        compare("eq", IT % 2, 0), (make(line, barrier),), (make(line, barrier + 1),), at(line)
    )
    produce = For(
        IT, ZERO, number(TILES), ONE,
        (
            If(compare("ge", IT, 2), (per_slot(EMPTY, sync, 10),)),
            step("ld.global.4", 11, regs(), GlobalPtr("x", IT * 32 + TX, dt.f32), TRUE),
            step("st.shared.4", 12, SharedPtr(slot + TX * 4), regs()),
            per_slot(FULL, arrive, 13),
        ),
        span=at(9),
    )  # fmt: skip
    lane = TX - 32
    consume = For(
        IT, ZERO, number(TILES), ONE,
        (
            per_slot(FULL, sync, 20),
            step("ld.shared.4", 21, regs(), SharedPtr(slot + (lane * -4 + 124))),
            If(compare("lt", IT, TILES - 2), (per_slot(EMPTY, arrive, 22),)),
            step("st.global.4", 23, GlobalPtr("y", IT * 32 + lane, dt.f32), regs(), TRUE),
        ),
        span=at(19),
    )  # fmt: skip
    body = [DeclareArray("r", dt.f32, 1), If(compare("lt", TX, 32), (produce,), (consume,))]
    size = 32 * TILES
    return program(body, [("x", dt.f32, size), ("y", dt.f32, size)], 64)


def run_ring(made, **options):
    x = np.arange(32 * TILES, dtype=np.float32)
    y = np.zeros_like(x)
    report = simulate(made, {"x": x, "y": y}, {}, **options)
    return report, y, x.reshape(-1, 32)[:, ::-1].reshape(-1)


@pytest.mark.parametrize("lanes", [(), (5,), (40, 77), (64,)])
def test_threads_that_meet_say_whether_any_has_a_flag(lanes: tuple[int, ...]) -> None:
    """Warps 0 and 1 meet at one barrier, warp 2 alone at another, three times each."""
    flag = regs("f", dt.i32)
    rounds = For(IT, ZERO, number(3), ONE, (
        step("ld.global.4", 2, flag, GlobalPtr("x", IT * 96 + TX, dt.i32), TRUE),
        If(compare("lt", TX, 64), (step("bar.named.any", 3, flag, number(1), number(64)),),
           (step("bar.named.any", 4, flag, number(2), number(32)),), at(3)),
        step("st.global.4", 5, GlobalPtr("y", IT * 96 + TX, dt.i32), flag, TRUE),
    ), span=at(1))  # fmt: skip
    params = [("x", dt.i32, 288), ("y", dt.i32, 288)]
    made = program([DeclareArray("f", dt.i32, 1), rounds], params, 96)
    x, y = np.zeros((3, 96), np.int32), np.full(288, 9, np.int32)
    x[1, list(lanes)] = -7
    simulate(made, {"x": x.reshape(-1), "y": y}, {}, schedules=3)
    met = np.stack([x[:, :64].any(1), x[:, 64:].any(1)], 1)
    np.testing.assert_array_equal(y.reshape(3, 96), np.repeat(met, [64, 32], 1))


def test_two_roles_hand_tiles_over_under_every_schedule():
    report, y, expected = run_ring(ring(), schedules=SEEDS)
    np.testing.assert_array_equal(y, expected)
    assert report.findings == ()
    assert report.deterministic
    assert report.seeds == tuple(range(SEEDS))


def mutants(stmts):
    """`stmts` without each barrier, one at a time, and the barrier's line."""
    for i, stmt in enumerate(stmts):
        if isinstance(stmt, Prim) and stmt.name.startswith("bar."):
            yield (*stmts[:i], *stmts[i + 1 :]), stmt.span.line
        for name in ("body", "then", "otherwise"):
            for part, line in mutants(getattr(stmt, name, ())):
                changed = dataclasses.replace(stmt, **{name: part})
                yield (*stmts[:i], changed, *stmts[i + 1 :]), line


def test_every_barrier_of_the_roles_is_needed():
    broken = list(mutants(ring().body))
    assert sorted(line for _, line in broken) == [10, 10, 13, 13, 20, 20, 22, 22]
    for body, line in broken:
        made = dataclasses.replace(ring(), body=body)
        report, _, _ = run_ring(made, check=False)
        kinds = {finding.kind for finding in report.findings}
        assert kinds & {"deadlock", "race", "barrier misuse"}, line
        assert all(f.span is not None and f.other is not None for f in report.findings), line


def test_a_deadlock_names_the_barrier_the_phase_and_who_is_missing():
    body = next(body for body, line in mutants(ring().body) if line == 13)
    with pytest.raises(SimulationError) as caught:
        run_ring(dataclasses.replace(ring(), body=body))
    message = str(caught.value)
    assert "deadlock" in message
    assert "warp 1 waits at barrier 1 (phase 0) for 32 of 64 threads" in message
    assert "roles.py:20" in message
    assert "roles.py:10" in message
    assert caught.value.finding.kind == "deadlock"


def test_a_warp_that_has_ended_is_missed():
    body = [If(compare("lt", TX, 32), (step("bar.sync", 5),), (), at(4))]
    with pytest.raises(SimulationError) as caught:
        simulate(program(body, [], 64), {}, {})
    assert "waits at barrier 0 (phase 0) for 32 of 64 threads, warps 1 have ended" in str(
        caught.value
    )


def test_barriers_of_two_branches_meet():
    put = step("st.shared.4", 5, SharedPtr(TX * 4), regs())
    get = step("ld.shared.4", 7, regs(), SharedPtr((TX ^ 32) * 4))
    body = [
        DeclareArray("r", dt.f32, 1),
        SetElement("r", ZERO, TX * 1.0),
        put,
        If(compare("lt", TX, 32), (step("bar.sync", 6),), (step("bar.sync", 8), ), at(5)),
        get,
        step("st.global.4", 9, GlobalPtr("y", TX, dt.f32), regs(), TRUE),
    ]  # fmt: skip
    y = np.zeros(64, dtype=np.float32)
    simulate(program(body, [("y", dt.f32, 64)], 64), {"y": y}, {}, schedules=4)
    np.testing.assert_array_equal(y, np.arange(64) ^ 32)


def test_a_barrier_that_part_of_a_warp_reaches():
    torn = If(compare("lt", TX, 40), (step("bar.sync", 6),), (), at(5))
    for seed in (0, 1):
        with pytest.raises(SimulationError, match="divergent barrier"):
            simulate(program([torn], [], 64), {}, {}, seed=seed)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ([sync(5, 1, 48)], "not whole warps"),
        ([sync(5, 16)], "barrier 16 is not one of 0 to 15"),
        ([If(compare("lt", TX, 32), (sync(5, 1),), (sync(6, 1, 96),))], "counts 96 threads"),
        ([arrive(5, 1, 96), arrive(6, 1, 96)], "again before phase 0 of it is full"),
    ],
)
def test_misused_named_barriers(body, message):
    with pytest.raises(SimulationError) as caught:
        simulate(program(body, [], 64), {}, {})
    assert message in str(caught.value)


def flag_program(write, read, signal=True):
    """Warp 0 writes 32 words and raises a flag; warp 1 spins on the flag, then reads them."""
    value = Element("f", (ZERO,), dt.i32)
    seen = Var("seen")
    raise_flag = If(
        compare("eq", TX, 0), (step(write, 12, SharedPtr(number(512)), regs("f", dt.i32)),)
    )
    producer = [
        step("st.shared.4", 10, SharedPtr(TX * 4), regs()),
        step("bar.warp.sync", 11),
        *([raise_flag] if signal else []),
    ]
    spin = While(
        compare("eq", seen, 0),
        (
            step(read, 21, regs("f", dt.i32), SharedPtr(number(512))),
            Assign(seen, value, False, at(22)),
        ),
        at(20),
    )
    consumer = [
        Assign(seen, ZERO, True),
        spin,
        step("ld.shared.4", 23, regs(), SharedPtr(TX * -4 + 252)),
        step("st.global.4", 24, GlobalPtr("y", TX - 32, dt.f32), regs(), TRUE),
    ]
    clear = If(
        compare("eq", TX, 0), (step("st.shared.4", 8, SharedPtr(number(512)), regs("z", dt.i32)),)
    )
    body = [
        DeclareArray("r", dt.f32, 1),
        DeclareArray("f", dt.i32, 1),
        DeclareArray("z", dt.i32, 1),
        SetElement("r", ZERO, TX * 1.0),
        SetElement("f", ZERO, ONE),
        SetElement("z", ZERO, ZERO),
        clear,
        step("bar.sync", 9),
        If(compare("lt", TX, 32), tuple(producer), tuple(consumer), at(10)),
    ]
    return program(body, [("y", dt.f32, 32)], 64)


def test_a_flag_released_and_acquired_orders_what_it_guards():
    y = np.zeros(32, dtype=np.float32)
    made = flag_program("st.shared.release.4", "ld.shared.acquire.4")
    report = simulate(made, {"y": y}, {}, schedules=SEEDS)
    np.testing.assert_array_equal(y, np.arange(31, -1, -1))
    assert report.deterministic


@pytest.mark.parametrize(
    ("write", "read", "line"),
    [
        ("st.shared.relaxed.4", "ld.shared.acquire.4", "roles.py:23"),
        ("st.shared.release.4", "ld.shared.relaxed.4", "roles.py:23"),
        ("st.shared.4", "ld.shared.4", "roles.py:"),
    ],
)
def test_a_flag_that_orders_nothing_is_a_race(write, read, line):
    with pytest.raises(SimulationError) as caught:
        simulate(flag_program(write, read), {"y": np.zeros(32, dtype=np.float32)}, {}, schedules=9)
    assert "race on shared byte" in str(caught.value)
    assert line in str(caught.value)


def test_a_flag_that_nobody_raises_is_a_deadlock():
    made = flag_program("st.shared.release.4", "ld.shared.acquire.4", signal=False)
    with pytest.raises(SimulationError) as caught:
        simulate(made, {"y": np.zeros(32, dtype=np.float32)}, {})
    assert "warp 1 spins in a loop on memory that nobody changes any more at roles.py:20" in str(
        caught.value
    )


def last_block(fenced=True, blocks=5):
    """Each block adds up 32 numbers a lane; the last to finish adds up what the others left."""
    ticket, total = Var("ticket"), Var("total", dt.f32)
    fence = [step("fence.gpu", 13)] if fenced else []
    sum_up = For(
        IT, ZERO, number(blocks), ONE,
        (
            step("ld.global.4", 20, regs(), GlobalPtr("part", IT * 32 + TX, dt.f32), TRUE),
            Assign(total, total + Element("r", (ZERO,), dt.f32), False, at(21)),
        ),
        span=at(19),
    )  # fmt: skip
    body = [
        DeclareArray("r", dt.f32, 1),
        DeclareArray("n", dt.i32, 1),
        DeclareArray("one", dt.i32, 1),
        SetElement("one", ZERO, ONE),
        step("ld.global.4", 10, regs(), GlobalPtr("x", BX * 32 + TX, dt.f32), TRUE),
        step("st.global.4", 11, GlobalPtr("part", BX * 32 + TX, dt.f32), regs(), TRUE),
        step("bar.sync", 12),
        *fence,
        If(
            compare("eq", TX, 0),
            (
                step("atom.global.add.i32.relaxed", 14, regs("n", dt.i32),
                     GlobalPtr("count", ZERO, dt.i32), regs("one", dt.i32), TRUE),
                step("st.shared.4", 15, SharedPtr(ZERO), regs("n", dt.i32)),
            ),
        ),
        *fence,
        step("bar.sync", 16),
        step("ld.shared.4", 17, regs("n", dt.i32), SharedPtr(ZERO)),
        Assign(ticket, Element("n", (ZERO,), dt.i32), True, at(17)),
        If(
            compare("eq", ticket, blocks - 1),
            (
                Assign(total, Const(0.0, dt.f32), True, at(18)),
                sum_up,
                SetElement("r", ZERO, total, at(22)),
                step("st.global.4", 23, GlobalPtr("y", TX, dt.f32), regs(), TRUE),
            ),
        ),
    ]  # fmt: skip
    size = 32 * blocks
    params = [("x", dt.f32, size), ("part", dt.f32, size), ("count", dt.i32, 1), ("y", dt.f32, 32)]
    return program(body, params, 32, grid=blocks)


def run_last_block(made, **options):
    x = np.arange(160, dtype=np.float32)
    y = np.zeros(32, dtype=np.float32)
    part, count = np.zeros_like(x), np.zeros(1, dtype=np.int32)
    report = simulate(made, {"x": x, "part": part, "count": count, "y": y}, {}, **options)
    np.testing.assert_array_equal(y, x.reshape(5, 32).sum(axis=0))
    return report


def test_the_last_block_sees_what_all_left():
    assert run_last_block(last_block(), schedules=SEEDS).deterministic


def test_without_fences_the_last_block_races_with_the_others():
    with pytest.raises(SimulationError) as caught:
        run_last_block(last_block(fenced=False))
    message = str(caught.value)
    assert "roles.py:20" in message
    assert "written at roles.py:11 by thread" in message
    assert "of block" in message


def test_a_block_may_wait_for_a_later_one():
    """Block 0 spins until block 1 has raised the flag: both are started before that is stuck."""
    value = Element("f", (ZERO,), dt.i32)
    seen = Var("seen")
    flag = GlobalPtr("flag", ZERO, dt.i32)
    wait = [
        Assign(seen, ZERO, True),
        While(
            compare("eq", seen, 0),
            (
                step("ld.global.acquire.4", 5, regs("f", dt.i32), flag, TRUE),
                Assign(seen, value, False, at(6)),
            ),
            at(4),
        ),
        step("ld.global.4", 7, regs(), GlobalPtr("x", TX, dt.f32), TRUE),
        step("st.global.4", 8, GlobalPtr("y", TX, dt.f32), regs(), TRUE),
    ]
    raise_flag = step("st.global.release.4", 12, flag, regs("f", dt.i32), compare("eq", TX, 0))
    give = [
        step("st.global.4", 10, GlobalPtr("x", TX, dt.f32), regs(), TRUE),
        step("bar.sync", 11),
        raise_flag,
    ]
    body = [
        DeclareArray("r", dt.f32, 1),
        DeclareArray("f", dt.i32, 1),
        SetElement("r", ZERO, TX * 2.0),
        SetElement("f", ZERO, ONE),
        If(compare("eq", BX, 0), tuple(wait), tuple(give), at(3)),
    ]
    params = [("x", dt.f32, 32), ("y", dt.f32, 32), ("flag", dt.i32, 1)]
    made = program(body, params, 32, grid=2)
    y = np.zeros(32, dtype=np.float32)
    arrays = {"x": np.zeros(32, np.float32), "y": y, "flag": np.zeros(1, np.int32)}
    simulate(made, arrays, {}, schedules=6)
    np.testing.assert_array_equal(y, 2 * np.arange(32))
    with pytest.raises(SimulationError, match="deadlock"):
        simulate(made, {**arrays, "flag": np.zeros(1, np.int32)}, {}, blocks=[(0, 0, 0)])
