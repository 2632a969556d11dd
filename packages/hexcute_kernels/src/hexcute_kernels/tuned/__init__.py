"""Rows that `python -m hexcute_kernels tune OPERATOR --table` wrote: a module per operator and GPU.

    tuned/matmul_h200.py    ROWS = {"thin": (Row(...), ...)}    rows by variant, from one CSV

A row is for the problems of one bucket: sizes up to those that were measured, rounded up to a power
of two, from more than half of that on.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from hexcute_kernels.tables import Row


def tuned_rows(operator: str, variant: str, gpu: str) -> tuple[Row[Any], ...]:
    """The rows of an operator's variant that were measured on a GPU of this name."""
    return tuple(_rows(operator, gpu).get(variant, ()))


@cache
def _rows(operator: str, gpu: str) -> Mapping[str, tuple[Row[Any], ...]]:
    name = f"{__name__}.{operator}_{gpu}"
    if not f"{operator}_{gpu}".isidentifier() or find_spec(name) is None:
        return {}
    found: Mapping[str, tuple[Row[Any], ...]] = import_module(name).ROWS
    return found
