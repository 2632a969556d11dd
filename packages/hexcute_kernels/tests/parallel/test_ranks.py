"""Parallel forms in 1 to 4 processes beside their single forms, and what a lost rank does to the
others."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

pytest.importorskip("torch")
import torch
from parallel_ranks import differs_in_shape, loses_a_peer, outcomes, random_cases


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_every_parallel_form_is_its_single_form(ranks: int, tmp_path: Path) -> None:
    assert outcomes(tmp_path, ranks, random_cases, 77) == ["done"] * ranks


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_two_gpus_find_what_one_finds(tmp_path: Path) -> None:
    given = (random_cases, 48, "cuda")
    assert outcomes(tmp_path, 2, *given, backend="nccl", limit=300) == ["done"] * 2


@pytest.mark.parametrize(
    ("how", "form", "what"),
    [
        (signal.SIGKILL, "sum", "a sum"),
        (signal.SIGSTOP, "sum", "a sum"),
        (signal.SIGKILL, "experts", "an exchange"),
    ],
    ids=["killed", "stopped", "experts"],
)
def test_a_lost_rank_ends_the_others_in_seconds(
    how: signal.Signals, form: str, what: str, tmp_path: Path
) -> None:
    told = outcomes(tmp_path, 3, loses_a_peer, how, form, seconds=3, limit=60, lost=2)
    assert told[2] == "was ended"
    for rank, outcome in enumerate(told[:2]):
        elapsed, error = outcome.split(" ", 1)
        assert float(elapsed) < 20
        assert f"{what} over 3 ranks did not come to its end on rank {rank}" in error
        assert "look for the first error in the output of the other ranks" in error


def test_ranks_that_differ_are_told_where_torch_compares_them(tmp_path: Path) -> None:
    for rank, outcome in enumerate(outcomes(tmp_path, 2, differs_in_shape)):
        assert f"a sum over 2 ranks did not come to its end on rank {rank}" in outcome
        assert "or calls something else" in outcome and "TensorShape=[3, 8]" in outcome
