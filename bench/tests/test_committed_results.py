"""Each row measured on H200s tells by its run what machine and versions it was measured with."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[1] / "results"


@pytest.mark.parametrize("place", ["h200", "h200x2", "h200x2/spread"])
def test_each_rows_run_is_known(place: str) -> None:
    known = json.loads((RESULTS / place / "environment.json").read_text())
    files = sorted((RESULTS / place).glob("*.csv"))
    assert files
    for path in files:
        with path.open(newline="") as file:
            runs = {row["run"] for row in csv.DictReader(file) if row.get("run")}
        assert runs <= set(known), f"{path.name} has runs that environment.json lacks"
