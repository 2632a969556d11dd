"""timed(table, row) = the row's timing as measured on that table's GPU, else as documented.

A table that extends another takes its rows and none of its measured timings. Measured names are
those of the microbenchmark: accesses of global memory come with `.l2` (issue: one multiprocessor
reading L2) and `.dram` (latency); wgmma at some widths, between which clocks grow in proportion.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hexcute_core.arch import timings_sm90
from hexcute_core.arch.rows import Timing

Pair = tuple[float | None, float | None]
# Types that the same unit runs at the same rate, measured for one of them.
_ALIKE = {"u8": "i8", "f8e5m2": "f8e4m3"}
_WGMMA = re.compile(r"wgmma\.64x(\d+)x(\d+)\.(\w+)\.(\w+)\.(\w+)")


@dataclass(frozen=True)
class Measured:
    """(issue, latency) by name, from the CSV and GPU that `source` names."""

    source: str
    rows: Mapping[str, Pair]


MEASURED: dict[str, Measured] = {"sm_90": Measured(timings_sm90.SOURCE, timings_sm90.ROWS)}
"""By the table's name."""


def timed(table: str, name: str, documented: Timing) -> Timing:
    """The timing of row `name` of `table`. What was not measured stays as documented."""
    found = MEASURED.get(table)
    if found is None:
        return documented
    issue, latency = _look_up(found.rows, name)
    if issue is None and latency is None:
        return documented
    missing = " and ".join(
        what for what, value in (("issue", issue), ("latency", latency)) if value is None
    )
    return Timing(
        documented.issue if issue is None else issue,
        documented.latency if latency is None else latency,
        found.source + (f"; {missing}: {documented.source}" if missing else ""),
    )


def _look_up(rows: Mapping[str, Pair], name: str) -> Pair:
    if name in rows:
        return rows[name]
    near, far = rows.get(f"{name}.l2"), rows.get(f"{name}.dram")
    if near is not None and far is not None:
        return near[0], far[1]
    product = _WGMMA.fullmatch(name)
    if product is not None:
        return _between(rows, int(product[1]), _alike(product))
    types = name.split(".")
    return rows.get(".".join(_ALIKE.get(t, t) for t in types), (None, None))


def _alike(product: re.Match[str]) -> str:
    """Everything of a wgmma's name behind its width, in types that were measured."""
    return ".".join([product[2], *(_ALIKE.get(product[i], product[i]) for i in (3, 4, 5))])


def _between(rows: Mapping[str, Pair], n: int, behind: str) -> Pair:
    """The straight line between the nearest measured widths on both sides."""

    def clocks(quantity: Callable[[Pair], float | None]) -> float | None:
        known: dict[int, float] = {}
        for name, pair in rows.items():
            product, value = _WGMMA.fullmatch(name), quantity(pair)
            if product is not None and value is not None and _alike(product) == behind:
                known[int(product[1])] = value
        below = max((w for w in known if w <= n), default=None)
        above = min((w for w in known if w >= n), default=None)
        if below is None or above is None:
            return None
        if below == above:
            return known[below]
        part = (n - below) / (above - below)
        return known[below] + part * (known[above] - known[below])

    return clocks(lambda pair: pair[0]), clocks(lambda pair: pair[1])
