"""The suites' shapes are the paper's; listing and skipping need no GPU."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hexcute_bench import suites
from hexcute_bench.cases.tutorial import CHAPTERS, load
from hexcute_bench.cli import main
from hexcute_bench.errors import BenchError, PeerAbsent
from hexcute_bench.interface import KernelSuite
from hexcute_bench.peers.ours import Hexcute, missing_operator
from hexcute_bench.report.places import PAPER
from hexcute_bench.shape import Shape
from hexcute_bench.suites.gemm_sizes import drawn
from hexcute_bench.suites.tables import CODE
from hexcute_bench.suites.tutorial import TUTORIAL

BY_NAME = {suite.name: suite for suite in suites.ALL}
SHAPES = {
    "gemm_sm80": ("gemm_sm80", 40),
    "gemm_sm90": ("gemm_sm90", 40),
    "fp8_blockwise": ("fp8_blockwise", 35),
    "mha_forward": ("mha_forward_sm90", 20),
    "mha_decoding": ("mha_decoding", 24),
    "moe": ("moe", 16),
    "moe_layer": ("moe", 16),
    "selective_scan": ("selective_scan", 20),
    "cost_model": ("cost_model", 16),
}


def papers_shapes(name: str) -> list[str]:
    with (PAPER / f"{name}.csv").open(newline="") as file:
        lines = [line for line in file if not line.startswith("#")]
    return list(dict.fromkeys(row["shape"] for row in csv.DictReader(lines)))


@pytest.mark.parametrize("name", SHAPES)
def test_a_suite_has_the_papers_shapes(name: str) -> None:
    suite = BY_NAME[name]
    assert isinstance(suite, KernelSuite)
    facts, count = SHAPES[name]
    assert sorted(map(str, suite.shapes)) == sorted(papers_shapes(facts))
    assert len(suite.shapes) == len(set(suite.shapes)) == count


@pytest.mark.parametrize(
    "suite", [suite for suite in suites.ALL if isinstance(suite, KernelSuite)], ids=lambda s: s.name
)
def test_a_suite_is_whole(suite: KernelSuite) -> None:
    assert suite.baseline in suite.systems()
    assert len(set(suite.systems())) == len(suite.systems())
    assert set(suite.quick) <= set(suite.shapes) and suite.quick
    regimes = {suite.regime(shape) for shape in suite.shapes}
    assert len(regimes) == (1 if suite.name in ("cost_model", "gemm_untuned") else 2)
    for shape in suite.shapes:
        work = suite.work(shape)
        assert work.flops > 0 and work.bytes > 0


def test_work_of_known_sizes() -> None:
    gemm = BY_NAME["gemm_sm90"]
    assert isinstance(gemm, KernelSuite)
    work = gemm.work(Shape.of(m=2, n=3, k=5))
    assert (work.flops, work.bytes) == (60.0, 2.0 * (10 + 15 + 6))
    moe = BY_NAME["moe"]
    assert isinstance(moe, KernelSuite)
    # One token meets exactly its eight experts: 23 MB of weights.
    assert moe.work(Shape.of(tokens=1)).bytes == pytest.approx(22.9e6, rel=0.05)


@pytest.mark.parametrize("shape", TUTORIAL.shapes, ids=str)
def test_a_chapters_kernel_takes_what_it_is_given(shape: Shape) -> None:
    chapter = CHAPTERS[shape.items[0][0]]
    kernel = chapter.kernel(load(shape.items[0][0]), shape)
    assert len(kernel.signature.params) == len(chapter.inputs(shape)) + 1


def test_a_tutorial_without_a_page_says_where_to_run_it() -> None:
    with pytest.raises(BenchError, match="the suite runs in the project's folder"):
        load("nothing")


def test_names_are_found_and_strange_ones_are_refused() -> None:
    assert suites.find(["moe", "gemm_sm80"]) == (BY_NAME["moe"], BY_NAME["gemm_sm80"])
    assert suites.find(["all"]) == suites.ALL
    with pytest.raises(BenchError, match="no suite 'gem'; there are gemm_sm80"):
        suites.find(["gem"])


def test_list_shows_every_suite(capsys: Any) -> None:
    assert main(["list"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in BY_NAME)
    ours, peers = "hexcute, hexcute_tuned", "cublas, triton, triton_tma, hidet_f16, hidet_f16_cute"
    assert f"40 shapes x {ours}, {peers}" in shown


def test_every_suite_of_an_operator_has_ours_as_called_and_tuned() -> None:
    operators = [s for s in suites.ALL if isinstance(s, KernelSuite) and s.operator]
    for suite in operators:
        if suite.name in ("cost_model", "gemm_untuned", "gemm_sizes"):
            continue
        ours = [name for name in suite.systems() if name.startswith("hexcute")]
        # Those that are like Triton's are neither.
        ours = [name for name in ours if not name.startswith("hexcute_triton")]
        called = [name for name in ours if not name.endswith("_tuned")]
        assert called and ours == [f"{name}{end}" for name in called for end in ("", "_tuned")]


def test_an_operator_that_is_not_there_reads_as_absent(monkeypatch: Any) -> None:
    assert missing_operator("matmul") == ""
    assert missing_operator("conv") == "the operator conv is not there yet"
    with pytest.raises(PeerAbsent, match="the operator conv is not there yet"):
        Hexcute("hexcute", "conv", lambda case, index: ()).prepare(None)


def test_a_suite_without_its_kernel_is_skipped(
    capsys: Any, monkeypatch: Any, tmp_path: Path
) -> None:
    monkeypatch.setattr("hexcute_bench.cli.missing_kernel", lambda suite: "its kernel is away")
    assert main(["run", "moe", "--out", str(tmp_path)]) == 0
    assert "moe: skipped, its kernel is away" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_lines_are_counted_for_every_operator_of_the_papers_table() -> None:
    ours = {suite for suite, system in CODE if system.startswith("hexcute")}
    assert ours == {"gemm_sm80", "gemm_sm90", "fp8_blockwise", "mha_forward", "mha_decoding",
                    "moe", "selective_scan"}  # fmt: skip


def test_random_sizes_are_the_same_every_time_and_of_two_kinds() -> None:
    suite = BY_NAME["gemm_sizes"]
    assert isinstance(suite, KernelSuite) and len(suite.shapes) == 200
    assert drawn(1) == drawn(1) and drawn(1) != drawn(1, seed=2)
    whole = [shape for shape in suite.shapes if suite.regime(shape) == "multiples of 8"]
    assert 100 <= len(whole) <= 103, "a few of the others may happen to be"
    assert all(1 <= shape[name] <= 1 << 14 for shape in suite.shapes for name in ("m", "n", "k"))


def test_output_that_nobody_reads_ends_the_command_without_a_word() -> None:
    command = [sys.executable, "-c", "import sys, time; from hexcute_bench.cli import main; "
               "time.sleep(0.3); sys.exit(main(['list']))"]  # fmt: skip
    # The bench is not installed: pytest says where it lies.
    found = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipe = subprocess.PIPE
    run = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=found)
    assert run.stdout is not None and run.stderr is not None
    run.stdout.close()
    assert run.wait(60) == 141 and run.stderr.read() == ""
