"""Simulations repeated on a GPU, with the simulator in the GPU's place: what becomes a row, what
fails a test, and what is left out and why."""

from __future__ import annotations

import csv
import itertools
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

import gpu_mirror
import numpy as np
import pytest
import test_simulator_agents as agents
import test_simulator_atomics as atomics
from gpu_comparisons import Comparisons
from gpu_programs import ONE, TRUE, TX, ZERO, loaded, per_lane, reg
from strided_kernels import counted
from test_simulator import ragged_copy

import hexcute_core as hx
import hexcute_core.simulator
from hexcute_core import dtypes as dt
from hexcute_core.commands import main
from hexcute_core.driver.simulation import compare_with_tile_program
from hexcute_core.errors import SimulationError
from hexcute_core.pytest_plugin import KernelSimulation
from hexcute_core.scalar import Binary, Call, Const, Unary, Var, compare
from hexcute_core.simulator.lanes import warp
from hexcute_core.simulator.launch import simulate
from hexcute_core.simulator.memory import strided
from hexcute_core.thread import (
    DeclareArray,
    GlobalPtr,
    If,
    Prim,
    SetElement,
    ThreadParam,
    ThreadProgram,
    While,
)

n = hx.dim("n")
FLOATS = [("a", dt.f32)]


@hx.kernel(cache=False)
def doubled(x: hx.f16[n], y: hx.f16[n]):
    hx.attrs.cuda.grid_dim = hx.cdiv(n, 128)
    hx.attrs.cuda.block_dim = 32
    r, at = hx.register_tensor(hx.f16, (128,)), hx.blockIdx.x * 128
    hx.copy(hx.global_view(x[at:], ((128,), (1,))), r)
    hx.copy(r + r, hx.global_view(y[at:], ((128,), (1,))))


class Mirror:
    """The plugin, the file it writes, and a GPU that is the simulator; `wrong` flips its bits."""

    def __init__(self, path):
        self.plugin, self.path = Comparisons(), path
        self.simulate = self.plugin.simulate
        self.wrong, self.launched = False, []

    def launch(self, program, arrays, scalars, grid):
        left = {name: strided.copied(array) for name, array in arrays.items()}
        assert simulate(program, left, scalars).blocks[-1] == tuple(end - 1 for end in grid)
        self.launched.append((program, arrays))
        lines = {name: np.ascontiguousarray(a).reshape(-1) for name, a in left.items()}
        return {name: line.view(np.uint8) ^ self.wrong for name, line in lines.items()}

    def ends(self, failure=None, gpu=False):
        """What follows the body of a test."""
        item = SimpleNamespace(get_closest_marker=lambda name: gpu or None)
        call = self.plugin.pytest_runtest_call(item)
        next(call)
        with suppress(StopIteration):
            call.throw(failure) if failure else next(call)
        assert not self.plugin.runs

    def rows(self):
        if not self.path.exists():
            return []
        with self.path.open(encoding="utf-8") as file:
            return list(csv.DictReader(file))


@pytest.fixture
def mirror(monkeypatch, tmp_path):
    made = Mirror(tmp_path / "rows.csv")
    monkeypatch.setattr(gpu_mirror, "ROWS", made.path)
    monkeypatch.setattr(gpu_mirror, "device_target", lambda: "sm_90")
    monkeypatch.setattr(gpu_mirror, "launch", made.launch)
    return made


def copied(simulated, **options):
    source, target = np.arange(100, dtype=np.float16), np.full(100, 7, np.float16)
    arrays = {"src": source, "dst": target}
    simulated(ragged_copy(dt.f16, 8), arrays, {"n": 100}, **options)
    target[:] = 0


def test_arrays_with_strides_of_their_own_are_compared_element_by_element(mirror):
    x, bins = np.array([[3, 9], [1, 9]], np.int32)[:, 0], np.zeros((4, 5), np.int32)[:, 2]
    program = counted.compile("sm_80", aligned=False).thread
    arrays = {"x": x, "bins": bins}
    for wrong in (False, True):
        mirror.wrong = wrong
        mirror.simulate(program, arrays, {"m": 2, "n": 4, "sm": 2, "sn": 5})
        if wrong:
            with pytest.raises(AssertionError):
                mirror.ends()
        else:
            mirror.ends()
    assert [r["same"] for r in mirror.rows()] == ["True"] * 2 + ["False"] * 2
    assert {r["bytes"] for r in mirror.rows()} == {"8", "16"}


def test_a_run_is_repeated_from_where_it_started(mirror):
    copied(mirror.simulate, schedules=2)
    assert not mirror.launched, "only a test that has passed is repeated"
    mirror.ends()
    ((_, arrays),) = mirror.launched
    assert set(arrays["dst"]) == {7}
    test = "test_gpu_comparisons.py::test_a_run_is_repeated_from_where_it_started"
    assert [(r["test"], r["tensor"], r["bytes"], r["same"]) for r in mirror.rows()] == [
        (test, "src", "200", "True"), (test, "dst", "200", "True")
    ]  # fmt: skip


def test_other_bits_fail_the_test(mirror):
    copied(mirror.simulate)
    mirror.wrong = True
    with pytest.raises(AssertionError, match="src"):
        mirror.ends()
    assert {row["same"] for row in mirror.rows()} == {"False"}
    assert not mirror.plugin.runs


def test_a_test_that_fails_and_one_on_the_gpu_are_not_repeated(mirror):
    copied(mirror.simulate)
    with pytest.raises(KeyError):
        mirror.ends(KeyError())
    copied(mirror.simulate)
    mirror.ends(gpu=True)
    assert not mirror.launched and not mirror.rows()


def test_every_way_to_simulate_is_seen(mirror, monkeypatch, capsys):
    monkeypatch.setattr(hexcute_core.simulator, "simulate", None)
    mirror.plugin.everywhere()
    x, y = np.arange(200, dtype=np.float16), np.zeros(200, np.float16)
    compiled = doubled.compile("sm_80")
    compiled.simulate(x, y)
    doubled.simulate(x, y, target="sm_80")
    assert not compare_with_tile_program(compiled, (x, y))[1]
    KernelSimulation(seed=0, schedules=2)(doubled, x, y)
    assert main(["simulate", f"{__file__}:doubled", "--target", "sm_80", "--shape", "n=200"]) == 0
    mirror.ends()
    assert [program.name for program, _ in mirror.launched] == ["doubled"] * 4
    assert {row["blocks"] for row in mirror.rows()} == {"2"}
    # The command line collects findings instead of raising the first.
    assert mirror.rows()[-1]["skipped"] == "it ran for its findings"


def lanes(value, dtype=dt.f32, params=FLOATS):
    """A program and its arrays: `value` on each lane, from whole numbers."""
    program = per_lane(value, dtype, params)
    return program, {p.name: np.ones(128, np.float32) for p in program.params}


def tickets():
    """Each thread takes a number: which one, the order decides."""
    body = (
        DeclareArray("one", dt.i32, 1),
        DeclareArray("t", dt.i32, 1),
        SetElement("one", ZERO, ONE),
        Prim("atom.global.add.i32", (reg("t", dt.i32), GlobalPtr("n", ZERO, dt.i32),
                                     reg("one", dt.i32), TRUE)),
        Prim("st.global.4", (GlobalPtr("y", TX, dt.i32), reg("t", dt.i32), TRUE)),
    )  # fmt: skip
    params = tuple(ThreadParam(name, dt.i32, (Const(64, dt.i32),), True) for name in "ny")
    program = ThreadProgram("tickets", params, (ONE, ONE, ONE), 64, 0, body)
    return program, {"n": np.zeros(64, np.int32), "y": np.zeros(64, np.int32)}


def empty(*body, grid=ONE):
    return ThreadProgram("empty", (), (grid, ONE, ONE), 32, 0, body), {}


A = loaded("a", dt.f32)
LEFT_OUT = {
    "its grid is empty": empty(grid=ZERO),
    "it has no tensors": empty(Prim("bar.sync", ())),
    "it approximates: div, exp": lanes(
        Binary("div", Unary("exp", A, dt.f32), A, dt.f32)
    ),
    "it adds or multiplies constants of many bits": lanes(A + 0.1),
    "there is no machine code for vote.most": lanes(
        Call("vote.most", (compare("gt", TX, 3),), dt.boolean), dt.boolean, []
    ),
}  # fmt: skip


@pytest.mark.parametrize("reason", LEFT_OUT)
def test_what_cannot_be_repeated_is_a_row_that_says_why(mirror, reason, monkeypatch):
    monkeypatch.setitem(warp.CALLS, "vote.most", warp.CALLS["vote.any"])
    program, arrays = LEFT_OUT[reason]
    if program.params and program.params[0].dtype is dt.boolean:
        arrays = {"out": np.zeros(128, bool)}
    mirror.simulate(program, arrays, {})
    mirror.ends()
    (row,) = mirror.rows()
    assert (row["program"], row["same"], row["skipped"]) == (program.name, "", reason)
    assert not mirror.launched


def test_results_that_depend_on_the_order_are_left_out(mirror):
    mirror.simulate(*tickets(), {})
    mirror.ends()
    (row,) = mirror.rows()
    assert row["skipped"] == "its result depends on the order of threads"


def test_runs_by_the_clocks_are_left_out(mirror, monkeypatch):
    """What they run has stamps, whose memory only a timeline brings."""
    monkeypatch.setattr(hexcute_core.simulator, "simulate", None)
    mirror.plugin.everywhere()
    x, y = np.arange(200, dtype=np.float16), np.zeros(200, np.float16)
    doubled.timeline(x, y, target="sm_80")
    mirror.ends()
    assert [row["skipped"] for row in mirror.rows()] == ["it ran for its timeline"]


def test_runs_of_some_blocks_and_for_findings_are_left_out(mirror):
    copied(mirror.simulate, blocks=[(0, 0, 0)])
    copied(mirror.simulate, check=False)
    torn = If(compare("lt", TX, 7), (Prim("bar.sync", ()),))
    with pytest.raises(SimulationError):
        mirror.simulate(*empty(torn), {})
    mirror.ends()
    assert [row["skipped"] for row in mirror.rows()] == [
        "only some of its blocks ran",
        "it ran for its findings",
        "it ended with a finding: divergent barrier",
    ]
    assert not mirror.launched


def test_instructions_of_a_newer_gpu_are_left_out(mirror, monkeypatch):
    monkeypatch.setattr(gpu_mirror, "device_target", lambda: "sm_80")
    mirror.simulate(*empty(Prim("fence.proxy", ())), {})
    program = ragged_copy(dt.f8e4m3, 16)
    arrays = {"src": np.zeros(16, np.uint8), "dst": np.zeros(16, np.uint8)}
    mirror.simulate(program, arrays, {"n": 16})
    mirror.ends()
    assert [row["skipped"] for row in mirror.rows()] == ["it has no tensors", "it needs sm_89"]
    assert gpu_mirror.needs(empty(Prim("fence.proxy", ()))[0]) == "sm_90"
    assert gpu_mirror.needs(empty(Prim("red.shared.add.bf16", ()))[0]) == "sm_90"
    assert gpu_mirror.needs(empty(Prim("red.shared.add.f16", ()))[0]) == "sm_80"


MEETINGS = [
    (atomics.test_reductions_into_few_places, ("dec", "u32", 1), 1),
    (atomics.test_several_elements_a_lane_and_a_predicate, (), 1),
    (atomics.test_votes_are_a_warps, (2,), 1),
    (agents.test_a_flag_released_and_acquired_orders_what_it_guards, (), 1),
    (agents.test_the_last_block_sees_what_all_left, (), 1),
    (agents.test_a_block_may_wait_for_a_later_one, (), 1),
    (atomics.test_tickets_are_handed_out_once, (1,), 0),
    (atomics.test_compare_and_swap_lets_one_thread_win, (0,), 0),
    (atomics.test_the_order_of_float_additions_is_drawn, (), 0),
]


@pytest.mark.parametrize(("test", "arguments", "launched"), MEETINGS)
def test_threads_that_meet_are_repeated_where_any_order_gives_the_same(
    mirror, monkeypatch, test, arguments, launched
):
    """What is launched has machine code."""
    for module in (atomics, agents):
        monkeypatch.setattr(module, "simulate", mirror.simulate)
    test(*arguments)
    mirror.ends()
    assert len(mirror.launched) == launched
    assert not any("no machine code" in row["skipped"] for row in mirror.rows())
    for program, arrays in mirror.launched:
        assert gpu_mirror.image_of(program, arrays, "sm_90").cubin


def test_a_loop_that_waits_for_others_has_an_end(monkeypatch):
    """A flag that nobody raises is read so many times; other loops stay as they are."""
    monkeypatch.setattr(gpu_mirror, "ROUNDS", 7)
    made = agents.flag_program("st.shared.release.4", "ld.shared.acquire.4", signal=False)
    counting = While(compare("lt", TX, 3), (Prim("bar.sync", ()),))
    *body, last = gpu_mirror.bounded((*made.body, counting), itertools.count())
    assert last == counting
    arrays = {"y": np.zeros(32, dtype=np.float32)}
    report = simulate(replace(made, body=tuple(body)), arrays, {}, check=False)
    kinds = {found.kind for found in report.findings}
    assert "race" in kinds and "deadlock" not in kinds


def test_sums_are_of_whole_numbers(mirror):
    """Halves are let through, other fractions are rounded; what only moves keeps its bits."""
    for value, given, launched, name in (
        (A + A, 2.5, 2.5, "lanes"),
        (A + A, 2.7, 3.0, "lanes, inputs rounded"),
        (A + A, np.nan, 0.0, "lanes, inputs rounded"),
        (A, 2.7, 2.7, "lanes"),
    ):
        program, arrays = lanes(value)
        arrays["a"][:] = given
        mirror.simulate(program, arrays, {})
        mirror.ends()
        assert set(mirror.launched[-1][1]["a"]) == {np.float32(launched)}
        assert mirror.rows()[-1]["program"] == name


def test_an_image_takes_pointers_before_numbers(mirror):
    params = (
        ThreadParam("count", dt.i32),
        ThreadParam("x", dt.f16, (Var("count"),), pointer=True),
        ThreadParam("scale", dt.f32),
        ThreadParam("y", dt.f16, (Var("count"),), pointer=True),
    )
    program = ThreadProgram("mixed", params, (ONE, ONE, ONE), 32, 0, ())
    arrays = {name: np.zeros(8, np.float16) for name in "xy"}
    image = gpu_mirror.image_of(program, arrays, "sm_90")
    assert image.signature.value_names == ("x", "y", "count", "scale")
    assert image.signature.value_codes == ("Q", "Q", "i", "f")
    assert image.arch == "sm_90a" and not image.dependent
