"""Kernels as the tuner sees them: ranked for the arguments at hand, on a GPU timed and checked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tuned_kernel

import hexcute_core as hx
from hexcute_core import f32
from hexcute_core.driver.estimate import launch_clocks
from hexcute_core.errors import FrontendError, TunerError
from hexcute_core.runtime import Described
from hexcute_core.synthesis.timeline import block_clocks
from hexcute_core.tuner import KernelBench, Pool, Space, tune
from hexcute_core.tuner.workers import Done, Refused, each

BENCH = KernelBench(
    "tuned_kernel:scaled", "tuned_kernel:arguments", f"n={tuned_kernel.N}", "tuned_kernel:check"
)
SPACE = Space({"BN": (64, 256, 1024), "RUNS": (1, 4)})


def test_loops_take_the_rounds_that_numbers_say() -> None:
    def clocks(**numbers: int) -> float:
        return block_clocks(compiled.solution, numbers)

    compiled = tuned_kernel.scaled.compile("sm_90", RUNS=4)
    assert clocks() == clocks(n=5) == clocks(n=10**6)
    n = tuned_kernel.n

    @hx.kernel(cache=False)
    def total(x: f32[n], y: f32[n], rounds: hx.i32):
        hx.attrs.cuda.grid_dim = 4
        hx.attrs.cuda.block_dim = 32
        r = hx.register_tensor(f32, (128,))
        hx.fill(r, 0.0)
        count = hx.cdiv(n, 128) + rounds
        for i in range(count):
            t = hx.register_tensor(f32, (128,))
            hx.copy(hx.global_view(x[i * 128 :], ((128,), (1,))), t)
            r += t
        hx.copy(r, hx.global_view(y, ((128,), (1,))))

    compiled = total.compile("sm_90")
    few, many = clocks(n=1280, rounds=0), clocks(n=2560, rounds=0)
    assert clocks(n=1280, rounds=10) == many
    assert clocks(n=5120, rounds=0) - many == pytest.approx(2 * (many - few))
    # 32 rounds where nothing is known.
    assert clocks() == clocks(n=32 * 128, rounds=0) == clocks(rounds=0)


def test_a_launch_takes_the_rounds_of_its_blocks() -> None:
    torch = pytest.importorskip("torch")

    def clocks(n: int, count: int) -> float:
        x = Described(torch.empty(n, device="meta"))
        return launch_clocks(compiled, (x, x, 1.0), count)

    compiled = tuned_kernel.scaled.compile("sm_90")
    one = clocks(256, 132)
    assert clocks(256 * 132, 132) == one and clocks(256 * 132 + 4, 132) == 2 * one
    assert clocks(256 * 132, 33) == 4 * one


def test_ranking_needs_no_gpu() -> None:
    pytest.importorskip("torch")
    ranked = {(c["BN"], c["RUNS"]): BENCH.clocks(c) for c in SPACE}
    assert min(ranked, key=ranked.__getitem__) == (1024, 1)
    assert BENCH.build({"BN": 64, "RUNS": 1}) > 0
    with pytest.raises(FrontendError, match="no compile-time constant 'BM'"):
        BENCH.clocks({"BM": 1})


def test_a_task_is_of_the_kernels_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = BENCH.task
    assert (task.name, task.bucket) == ("tuned_kernel:scaled", "n=100003")
    edited = tmp_path / "edited.py"
    edited.write_text(Path(tuned_kernel.__file__).read_text() + "\n")
    monkeypatch.setattr("hexcute_core.tuner.kernel_bench.Path", lambda path: edited)
    assert BENCH.task.version != task.version


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kernel": "tuned_kernel"}, "'tuned_kernel' names nothing"),
        ({"kernel": "no_such_module:k"}, "'no_such_module:k' is not found"),
        ({"kernel": "tuned_kernel:gone"}, "'tuned_kernel:gone' is not found"),
        ({"kernel": "tuned_kernel:check"}, "'tuned_kernel:check' is no kernel"),
        ({"arguments": "tuned_kernel:a_list"}, "is to give a tuple of arguments"),
    ],
)
def test_what_a_bench_cannot_be_made_of(change: dict[str, Any], words: str) -> None:
    with pytest.raises(TunerError, match=words):
        replace(BENCH, **change).clocks({"BN": 64})


def test_what_the_compiler_refuses_costs_no_process(tmp_path: Path) -> None:
    """Without a GPU, too: a process that never used one goes on."""
    pytest.importorskip("torch")
    with Pool() as pool:
        found = dict(each(pool, BENCH, "clocks", [{"BM": 1}, {"BN": 64}, {"BN": 0}], 1, 60.0))
    assert isinstance(found[0], Refused) and "no compile-time constant" in found[0].reason
    assert isinstance(found[1], Done) and isinstance(found[2], Refused)


@pytest.mark.gpu
def test_a_kernel_is_tuned_on_the_gpu(tmp_path: Path) -> None:
    report = tune(replace(BENCH, sets=4), SPACE, top=4, rounds=5, root=tmp_path)
    assert [o.status for o in report.outcomes] == ["timed"] * 4 + ["ranked"] * 2
    assert 0.5 < report.best.us < 1000 and len(report.best.samples) == 5
    assert report.best.us == min(o.us for o in report.outcomes[:4])


@pytest.mark.gpu
def test_wrong_results_are_refused_on_the_gpu(tmp_path: Path) -> None:
    with pytest.raises(TunerError, match="its results are wrong"):
        _ = tune(replace(BENCH, check="tuned_kernel:never"), SPACE, top=2, root=tmp_path).best
