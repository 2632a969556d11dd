"""Result rows: one line per shape and system, appended and flushed as it is measured."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from hexcute_bench.errors import BenchError

OK, WRONG, FAILED, ABSENT = "ok", "wrong", "failed", "absent"
# A timed answer; the others are tried again when a run is resumed.
MEASURED = (OK, WRONG)
ALL_SHAPES = "*"
# The process of the harness itself; peers that need their own are named in their rows.
MAIN = "main"

TIMED_COLUMNS = (
    "suite", "shape", "system", "status", "config", "time_us", "low_us", "high_us", "rounds",
    "launches", "sets", "tflops", "tbps", "error", "tolerance", "protocol", "method", "process",
    "gpu", "sm_mhz", "driver", "versions", "commit", "date", "run", "note",
)  # fmt: skip


class ResultFile:
    """A CSV that only grows. A line cut short by an interruption is dropped when it is opened.

    Rows are never edited: a later row for the same key replaces an earlier one when read by
    `latest`, and both stay in the file.
    """

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self.path = path
        self.columns = tuple(columns)
        self._rows: list[dict[str, str]] = []
        if path.exists():
            self._rows = self._load()

    def _load(self) -> list[dict[str, str]]:
        text = self.path.read_text(encoding="utf-8")
        whole, newline, cut = text.rpartition("\n")
        if cut:
            self.path.write_text(whole + newline, encoding="utf-8")
        reader = csv.DictReader(io.StringIO(whole + newline))
        if reader.fieldnames is not None and tuple(reader.fieldnames) != self.columns:
            raise BenchError(
                f"{self.path} has other columns than this version writes; "
                "move it away, or give another --out"
            )
        return list(reader)

    @property
    def rows(self) -> tuple[dict[str, str], ...]:
        return tuple(self._rows)

    def append(self, rows: Iterable[Mapping[str, object]]) -> None:
        """Writes rows and has them on disk before it returns."""
        lines = [{name: _text(row.get(name, "")) for name in self.columns} for row in rows]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = not self.path.exists() or self.path.stat().st_size == 0
        with self.path.open("a", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, self.columns, lineterminator="\n")
            if fresh:
                writer.writeheader()
            writer.writerows(lines)
            file.flush()
            os.fsync(file.fileno())
        self._rows.extend(lines)

    def measured(self, *key: str) -> set[tuple[str, ...]]:
        """The values of the key's columns over all rows that hold a timed answer."""
        return {tuple(row[name] for name in key) for row in self._rows if row["status"] in MEASURED}


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return " ".join(str(value).split())
