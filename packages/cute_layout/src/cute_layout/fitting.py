"""The layout with a given function table, if there is one.

The coalesced layout of a table is unique: its first mode is the longest linear run from index 0,
and the rest is the table at the multiples of that run. So fitting decides existence.
"""

from __future__ import annotations

from typing import Any

from cute_layout.layout import from_modes
from cute_layout.table import values

__all__ = ["Misfit", "fit_modes"]


class Misfit(Exception):
    """No layout has the table; `index` and `expected` are where every layout differs from it."""

    def __init__(self, index: int, expected: Any) -> None:
        super().__init__(index, expected)
        self.index = index
        self.expected = expected


def fit_modes(table: list[Any]) -> list[tuple[int, Any]]:
    """The coalesced (extent, stride) modes of the layout whose values are `table`.

    Raises:
        Misfit: with the first index at which the only candidate differs.
    """
    n = len(table)
    if n and table[0] != 0:
        raise Misfit(0, 0)
    modes: list[tuple[int, Any]] = []
    step = 1
    while step < n:
        count = n // step
        d = table[step]
        run = 2
        while run < count and table[run * step] == run * d:
            run += 1
        if count % run:
            raise Misfit(run * step, run * d)
        modes.append((run, d))
        step *= run
    fitted = values(from_modes(modes)) if modes else table
    if fitted != table:
        at = next(i for i in range(n) if fitted[i] != table[i])
        raise Misfit(at, fitted[at])
    return modes
