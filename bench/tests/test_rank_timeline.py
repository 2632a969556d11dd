"""What a rank's step is spent on, of launches beside each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from hexcute_bench.engine.kernels import Launch, second
from hexcute_bench.rows import OK, ResultFile
from hexcute_bench.suites.rank_timeline import RANK_TIMELINE, STEP, keys, spent, window


def test_a_step_is_computing_exchanging_and_idle() -> None:
    step = [
        Launch("product", 10.0, 5.0), Launch("ncclDevKernel_AllReduce", 13.0, 6.0),
        Launch("norm", 20.0, 2.0), Launch("shared", 21.0, 4.0),
        Launch("ncclDevKernel_SendRecv", 30.0, 1.0),
    ]  # fmt: skip
    # Products beside NCCL hide it; 19 to 20 and 25 to 30 nothing runs.
    assert spent(step) == (10.0, 5.0, 6.0)


def test_what_a_rank_waits_until_the_others_profile_is_not_its_step() -> None:
    first = [Launch("ncclDevKernel_AllReduce", 10.0, 150_000.0), Launch("product", 5.0, 4.0)]
    step = [Launch("product", 150_020.0, 4.0), Launch("ncclDevKernel_AllReduce", 150_025.0, 8.0)]
    assert second([*step, *first]) == step


def test_a_window_is_counted_from_its_begin_on_every_rank() -> None:
    one = [Launch("product", 100.0 + 10 * i, 4.0) for i in range(11)]
    other = [Launch(each.name, each.start_us + 3, each.us) for each in one]
    told = window([one, other], 40.0)
    assert [(rank, each.start_us) for rank, each in told] == [
        *[(0, 0.0), (0, 10.0), (0, 20.0), (0, 30.0)], *[(1, 3.0), (1, 13.0), (1, 23.0), (1, 33.0)],
    ]  # fmt: skip
    assert "qwen cutlass batch=64 prompt=128" in keys(False)


def test_the_figure_shows_steps_and_a_window_of_every_rank(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from hexcute_bench.figures.rank_timeline import rank_timeline

    row = {"key": "qwen", "status": OK, "model": "qwen", "system": "hexcute", "batch": 1}
    steps = [
        {**row, "rank": rank, "name": STEP, "start_us": 0, "us": 9, "computing_us": 5,
         "exchanging_us": 3, "idle_us": 1}
        for rank in (0, 1)
    ]  # fmt: skip
    launches = [
        {**row, "rank": rank, "name": name, "start_us": start, "us": 2}
        for rank in (0, 1)
        for name, start in (("product", 0), ("ncclAll", 3))
    ]
    ResultFile(tmp_path / "rank_timeline.csv", RANK_TIMELINE.columns).append(steps + launches)
    assert {path.suffix for path in rank_timeline(tmp_path, tmp_path)} == {".svg", ".pdf"}
    assert rank_timeline(tmp_path / "none", tmp_path) == []
