"""Results -> rows of the CSV: a latency less the one it contains, methods in words."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hexcute_bench.errors import BenchError
from hexcute_bench.microbench.probe import Row

COLUMNS = (
    "name", "issue", "latency", "unit", "method", "fit_error", "gpu", "driver", "sm_clock_mhz",
    "date", "commit", "run",
)  # fmt: skip
QUANTITIES = ("issue", "latency")


def records(
    rows: Sequence[Row], results: Sequence[Mapping[str, Any]], about: Mapping[str, str]
) -> list[dict[str, str]]:
    """A record for each row of which something was measured; `about` goes into every one."""
    clocks = {
        (r["name"], r["quantity"]): float(r["clocks"]) for r in results if "clocks" in r
    }
    errors = {(r["name"], r["quantity"]): float(r["error"]) for r in results if "error" in r}
    found = []
    for row in rows:
        record = {"name": row.name, "unit": row.unit, **about}
        methods = []
        for quantity in QUANTITIES:
            probe = row.issue if quantity == "issue" else row.latency
            value = clocks.get((row.name, quantity))
            if probe is None or value is None:
                continue
            if probe.less:
                inner = clocks.get((probe.less, quantity))
                if inner is None:
                    continue
                value = max(0.0, value - inner)
            record[quantity] = f"{value:.2f}"
            methods.append(f"{quantity}: {probe.method}")
        if methods:
            record["method"] = "; ".join(methods)
            worst = max(errors.get((row.name, q), 0.0) for q in QUANTITIES)
            record["fit_error"] = f"{worst:.4f}"
            found.append(record)
    return found


def write(path: Path, found: Sequence[Mapping[str, str]]) -> None:
    """The CSV."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)


def read(path: Path) -> list[dict[str, str]]:
    """The CSV's rows. Raises BenchError where it is none of ours."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            rows = list(reader)
    except OSError as error:
        raise BenchError(f"cannot read {path}: {error}") from None
    missing = [c for c in ("name", *QUANTITIES, "gpu") if c not in (reader.fieldnames or ())]
    if missing or not rows:
        raise BenchError(f"{path} is no table of this program: it lacks {missing or 'rows'}")
    return rows
