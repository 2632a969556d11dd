"""timed(table, row) = the row's timing as measured on that table's GPU, else as documented.

A table that extends another takes its rows and none of its measured timings. Measured names are
those of the microbenchmark: accesses of global memory come with `.l2` (issue: one multiprocessor
reading L2) and `.dram` (latency); wgmma at some widths, between which clocks grow in proportion.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

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

    @cached_property
    def widths(self) -> Mapping[str, Mapping[int, Pair]]:
        """What was measured of wgmma: its width to clocks, by the rest of its name."""
        found: dict[str, dict[int, Pair]] = {}
        for name, pair in self.rows.items():
            product = _WGMMA.fullmatch(name)
            if product is not None:
                found.setdefault(_alike(product), {})[int(product[1])] = pair
        return found


MEASURED: dict[str, Measured] = {"sm_90": Measured(timings_sm90.SOURCE, timings_sm90.ROWS)}
"""By the table's name."""


def timed(table: str, name: str, documented: Timing) -> Timing:
    """The timing of row `name` of `table`. What was not measured stays as documented."""
    found = MEASURED.get(table)
    if found is None:
        return documented
    issue, latency = _look_up(found, name)
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


def _look_up(measured: Measured, name: str) -> Pair:
    rows = measured.rows
    if name in rows:
        return rows[name]
    near, far = rows.get(f"{name}.l2"), rows.get(f"{name}.dram")
    if near is not None and far is not None:
        return near[0], far[1]
    product = _WGMMA.fullmatch(name)
    if product is not None:
        known = measured.widths.get(_alike(product), {})
        return _between(known, int(product[1]), 0), _between(known, int(product[1]), 1)
    types = name.split(".")
    return rows.get(".".join(_ALIKE.get(t, t) for t in types), (None, None))


def _alike(product: re.Match[str]) -> str:
    """Everything of a wgmma's name behind its width, in types that were measured."""
    return ".".join([product[2], *(_ALIKE.get(product[i], product[i]) for i in (3, 4, 5))])


def _between(known: Mapping[int, Pair], n: int, which: int) -> float | None:
    """One of the two clocks at width `n`: the straight line between the nearest measured ones."""
    below = max((w for w in known if w <= n and known[w][which] is not None), default=None)
    above = min((w for w in known if w >= n and known[w][which] is not None), default=None)
    if below is None or above is None:
        return None
    low, high = known[below][which], known[above][which]
    assert low is not None and high is not None
    return low if below == above else low + (n - below) / (above - below) * (high - low)
