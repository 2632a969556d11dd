"""Measured timings of sm_90: name -> (issue, latency) in clocks, None: not measured.

Written by `python -m hexcute_bench.microbench --table`; not edited by hand.
"""

from __future__ import annotations

SOURCE = ""
ROWS: dict[str, tuple[float | None, float | None]] = {}
