"""The benchmark of the layout algebra: it refuses to time two different functions."""

from __future__ import annotations

from pathlib import Path

import pytest

import cute_layout as ours
from hexcute_bench import layout_algebra
from hexcute_bench.layout_algebra import DisagreementError, Operation, Row, measure, write


def pair(a: ours.Layout, b: ours.Layout) -> Operation:
    return Operation("pair", lambda: a, lambda: b, layout_algebra.same_values)


def test_agreeing_results_are_timed() -> None:
    row = measure(pair(ours.Layout((2, 3)), ours.Layout(6)), rounds=3, seconds=0.001)
    assert row.ratio > 0 and row.ours_us > 0


def test_different_functions_are_refused() -> None:
    with pytest.raises(DisagreementError, match="pair"):
        measure(pair(ours.Layout(6), ours.Layout(6, 2)), rounds=1, seconds=0.001)


def test_every_row_agrees_and_is_written(tmp_path: Path) -> None:
    peer = pytest.importorskip("tensor_layouts")
    analysis = pytest.importorskip("tensor_layouts.analysis")
    rows = [measure(op, 1, 0.001) for op in layout_algebra.operations(peer, analysis)]
    assert len(rows) == 8
    write(rows, tmp_path / "rows.csv")
    lines = (tmp_path / "rows.csv").read_text().splitlines()
    assert len(lines) == 9 and lines[0].startswith("operation,ours_us,theirs_us,ratio")


def test_a_row_holds_from_its_required_ratio_on() -> None:
    assert Row("x", 1.0, 2.0, 2.0, 2.0).holds and not Row("x", 1.0, 1.9, 1.9, 2.0).holds
