"""bounds : Solution -> how long a block keeps each unit of its multiprocessor busy.

    a block takes at least max over units of clocks(unit)

The units: global memory (at the pace of L2), shared memory, the Tensor Core, the special functions
(exp, log, sqrt, division's reciprocals), and the issue of instructions by the four schedulers. A
block whose estimate is far above the longest waits: for latency, for barriers, or for roles that
take turns.
"""

from __future__ import annotations

from math import prod

from hexcute_core.arch.groups import WARP
from hexcute_core.synthesis.compute_cost import SIMPLE, SPECIAL, special_functions
from hexcute_core.synthesis.cost import working_warps
from hexcute_core.synthesis.graph import WeightedOp, build_graph
from hexcute_core.synthesis.solution import Solution
from hexcute_core.tile import (
    CastTile,
    Copy,
    Elementwise,
    Fill,
    ForElements,
    Gemm,
    GlobalView,
    Prefetch,
    Rearrange,
    Reduce,
    Relabel,
    Scan,
)
from hexcute_core.tile.facts import Facts
from hexcute_core.unions import assert_never

MEMORY, SHARED, TENSOR = "global memory", "shared memory", "the Tensor Core"
SPECIALS, ISSUE = "special functions", "issue"
UNITS = (MEMORY, SHARED, TENSOR, SPECIALS, ISSUE)


def bounds(solution: Solution) -> dict[str, float]:
    """Clocks of one block by unit, loops included, in the order of `UNITS`."""
    graph = build_graph(solution.program)
    busy = dict.fromkeys(UNITS, 0.0)
    for item in graph.ops:
        for unit, clocks in _shares(solution, graph.facts, item).items():
            busy[unit] += clocks
    return busy


def _shares(solution: Solution, facts: Facts, item: WeightedOp) -> dict[str, float]:
    """The clocks of one operation by unit."""
    op, cost = item.op, solution.op_cost.get(item.op.id, 0.0)
    warps = item.team.threads / WARP
    match op:
        case Gemm() if op.id in solution.wgmmas:
            return {TENSOR: cost}
        case Gemm():
            plan = solution.gemms[op.id]
            if plan.row.name.startswith("fma"):
                return {ISSUE: cost}
            calls = prod(level.size for level in (*plan.m, *plan.n, *plan.k))
            return {TENSOR: cost, ISSUE: item.weight * warps * calls * SIMPLE}
        case Prefetch():
            return {MEMORY: cost}
        case Copy() if op.id in solution.bulk:
            return {MEMORY: cost}
        case Copy() if op.id in solution.copies:
            copied = solution.copies[op.id]
            sides = (solution.program.tensor(ref.tensor) for ref in (op.src, op.dst))
            outside = any(isinstance(side, GlobalView) for side in sides)
            issued = working_warps(copied, item.team.threads) * copied.calls
            return {MEMORY if outside else SHARED: cost, ISSUE: item.weight * issued * SIMPLE}
        case Elementwise() | ForElements():
            # Each takes its slot of a scheduler too.
            count = item.weight * special_functions(op, solution.fragments, facts, warps)
            special = min(cost, count * SPECIAL)
            return {SPECIALS: special, ISSUE: cost - special + count * SIMPLE}
        case Copy() | Fill() | CastTile() | Relabel() | Reduce() | Scan() | Rearrange():
            return {ISSUE: cost}
        case _:
            assert_never(op)
