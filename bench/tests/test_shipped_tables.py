"""The tables that the kernels' package ships are what the committed measurements give."""

from __future__ import annotations

from pathlib import Path

import pytest

from hexcute_bench.report.places import RESULTS
from hexcute_kernels import tuned
from hexcute_kernels.measured import read_csv, table_text

FOLDER = Path(tuned.__file__).parent
TABLES = sorted(path for path in FOLDER.glob("*_*.py") if path.name != "__init__.py")


@pytest.mark.parametrize("table", TABLES, ids=lambda path: path.stem)
def test_a_table_is_what_its_measurements_give(table: Path) -> None:
    pytest.importorskip("torch")
    (measured,) = RESULTS.parent.glob(f"*/{table.stem}.csv")
    assert table_text(read_csv(measured), measured.name) == table.read_text(encoding="utf-8")


def test_there_are_tables() -> None:
    assert [table.stem for table in TABLES] == ["matmul_h200"]
