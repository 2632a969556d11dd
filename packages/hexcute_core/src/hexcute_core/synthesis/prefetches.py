"""prefetch(view): the boxes by which TMA brings a tile into L2, or the reason why there are none.

Without boxes a prefetch does nothing: all it could have changed is time.
"""

from __future__ import annotations

from collections.abc import Mapping

from hexcute_core.arch import Arch
from hexcute_core.synthesis.graph import Graph
from hexcute_core.synthesis.operands import SPANS, bulk_plan
from hexcute_core.synthesis.solution import BulkPlan, Rejected, subject
from hexcute_core.tile import Prefetch

NAME = "tma.prefetch"


def plan_prefetches(
    graph: Graph, arch: Arch, bulk: Mapping[int, BulkPlan]
) -> tuple[dict[int, BulkPlan], list[Rejected]]:
    """The plan of every prefetch that TMA can do, and why the others do nothing. Of equally few
    boxes those are taken that the copies of `bulk` move: they share a tensor map."""
    maps = {(plan.param, plan.box, plan.span) for plan in bulk.values()}
    plans: dict[int, BulkPlan] = {}
    useless: list[Rejected] = []
    for op in (item.op for item in graph.ops):
        if not isinstance(op, Prefetch):
            continue
        ways = [bulk_plan(graph.program, graph.facts, arch, op.src, s, NAME) for s in SPANS]
        possible = [plan for plan in ways if isinstance(plan, BulkPlan)]
        if possible:
            plans[op.id] = min(
                possible, key=lambda p: (p.calls, (p.param, p.box, p.span) not in maps, p.span)
            )
        else:
            # The last way asks least of the tile: its reason is the one that matters.
            useless.append(Rejected(subject(op), NAME, str(ways[-1]), op.span))
    return plans, useless
