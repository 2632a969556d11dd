"""How the time to compile grows with a program, as the package hexcute_bench.growth measures it."""

from __future__ import annotations

from hexcute_bench.growth import measure
from hexcute_bench.interface import TableSuite

GROWTH = TableSuite(
    name="growth",
    title="Seconds to compile by the size of a program, stage by stage",
    operator="",
    columns=(
        "key", "group", "n", "target", "status", *(f"{stage}_s" for stage in measure.STAGES),
        "total_s", "exact", "commit", "date", "run", "note",
    ),
    keys=measure.keys,
    measure=measure.measure,
    note="needs no GPU: run growth --out bench/results/host",
)  # fmt: skip
