"""Each row measured on an H200 tells by its run what machine and versions it was measured with."""

from __future__ import annotations

import csv
import json
from pathlib import Path

RESULTS = Path(__file__).parents[1] / "results" / "h200"


def test_each_rows_run_is_known() -> None:
    known = json.loads((RESULTS / "environment.json").read_text())
    files = sorted(RESULTS.glob("*.csv"))
    assert files
    for path in files:
        with path.open(newline="") as file:
            runs = {row["run"] for row in csv.DictReader(file) if row.get("run")}
        assert runs <= set(known), f"{path.name} has runs that environment.json lacks"
