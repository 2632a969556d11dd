"""cute_layout beside tensor-layouts, as the module hexcute_bench.layout_algebra measures it."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

from hexcute_bench.interface import Settings, TableSuite
from hexcute_bench.rows import ABSENT, OK, WRONG

MODULE = "hexcute_bench.layout_algebra"


def _keys(quick: bool) -> Sequence[str]:
    return ["all operations"]


def _measure(key: str, settings: Settings) -> Sequence[Mapping[str, Any]]:
    algebra = importlib.import_module(MODULE)
    try:
        peer = importlib.import_module("tensor_layouts")
        analysis = importlib.import_module("tensor_layouts.analysis")
    except ImportError:
        return [{"key": key, "status": ABSENT, "note": "tensor-layouts is not installed"}]
    rounds = 3 if settings.quick else algebra.ROUNDS
    rows = [algebra.measure(op, rounds) for op in algebra.operations(peer, analysis)]
    return [
        {"key": key, "operation": row.name, "status": OK if row.holds else WRONG,
         "ours_us": row.ours_us, "theirs_us": row.theirs_us, "ratio": row.ratio,
         "required": row.required}
        for row in rows
    ]  # fmt: skip


LAYOUT_ALGEBRA = TableSuite(
    name="layout_algebra",
    title="cute_layout beside tensor-layouts",
    operator="",
    columns=(
        "key", "operation", "status", "ours_us", "theirs_us", "ratio", "required", "commit",
        "date", "run", "note",
    ),
    keys=_keys,
    measure=_measure,
    note="also alone: python -m hexcute_bench.layout_algebra",
)  # fmt: skip
