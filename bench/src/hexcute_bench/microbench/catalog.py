"""Every row, in the order of the table."""

from __future__ import annotations

from hexcute_bench.microbench import (
    async_rows,
    global_rows,
    math_rows,
    remote_rows,
    shared_rows,
    wgmma_rows,
)
from hexcute_bench.microbench.probe import Row


def rows(capability: int = 90) -> tuple[Row, ...]:
    """The rows that a GPU of `capability` (80, 90) runs."""
    modules = (shared_rows, remote_rows, global_rows, math_rows, wgmma_rows, async_rows)
    found = [row for module in modules for row in module.rows()]
    return tuple(row for row in found if row.capability <= capability)
