"""Clocks of one block from its first operation to its last: units busy in turn, results in flight.

Operations start in program order once their operands are there. Each keeps its units (Tensor
Cores, shared memory, global memory, arithmetic) busy for its issue clocks and its result is there
a latency later; the next may start beside it on other units. A loop costs its first rounds and
its steady state times the rest; what is still in flight at the end is waited for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from hexcute_core.synthesis.compute_cost import BARRIERS
from hexcute_core.synthesis.graph import build_graph, op_refs, op_results, op_tensors
from hexcute_core.synthesis.solution import Solution
from hexcute_core.tile import (
    AsyncCommit,
    AsyncWait,
    Copy,
    For,
    ForElements,
    Gemm,
    GlobalView,
    If,
    Prefetch,
    Produce,
    Role,
    Stmt,
    Sync,
    While,
)
from hexcute_core.tile.ir import TileOp

# The rounds of a loop that are followed; later ones repeat the last.
ROUNDS = 3
UNKNOWN_TRIPS = 32
# An operation that shares no unit with the next still takes its slots of the warp schedulers.
START = 0.25
ARITHMETIC_LATENCY = 6.0
TMA_LATENCY = 700.0


@dataclass
class _Clock:
    """When things are free or there; mutable while a program is walked."""

    now: float = 0.0
    last: float = 0.0
    units: dict[str, float] = field(default_factory=dict)
    ready: dict[str, float] = field(default_factory=dict)
    open_group: float = 0.0
    groups: list[float] = field(default_factory=list)


def block_clocks(solution: Solution) -> float:
    """Estimated clocks of one block alone on a multiprocessor."""
    walk = _Walk(solution)
    walk.body(solution.program.body)
    return max(walk.clock.now, walk.clock.last)


class _Walk:
    def __init__(self, solution: Solution) -> None:
        self.solution = solution
        graph = build_graph(solution.program)
        self.facts = graph.facts
        self.clock = _Clock()
        self.weights = {item.op.id: item.weight for item in graph.ops}

    def body(self, body: Iterable[Stmt]) -> None:
        """Statements in order."""
        for stmt in body:
            self.statement(stmt)

    def statement(self, stmt: Stmt) -> None:
        """Moves the clock over one statement."""
        clock = self.clock
        match stmt:
            case For():
                self.loop(stmt.body, self.facts.trips(stmt))
            case While():
                self.loop(stmt.body, UNKNOWN_TRIPS)
            case If():
                self.branches(stmt)
            case Role() | Produce():
                self.body(stmt.body)
            case Sync():
                clock.now += BARRIERS / 2
            case AsyncCommit():
                clock.groups.append(clock.open_group)
                clock.open_group = clock.now
            case AsyncWait():
                done = clock.groups[: max(0, len(clock.groups) - stmt.pending)]
                clock.now = max([clock.now, *done])
            case _ if hasattr(stmt, "id"):
                self.operation(stmt)  # type: ignore[arg-type]
            case _:
                clock.now += START

    def loop(self, body: tuple[Stmt, ...], trips: int) -> None:
        """The first rounds, then the steady state."""
        marks = [self.clock.now]
        for _ in range(min(trips, ROUNDS)):
            self.body(body)
            marks.append(self.clock.now)
        if trips > ROUNDS:
            skipped = (trips - ROUNDS) * (marks[-1] - marks[-2])
            self.shift(skipped)

    def shift(self, by: float) -> None:
        """Everything that the clock knows happens `by` later."""
        clock = self.clock
        clock.now += by
        clock.last += by
        clock.open_group += by
        clock.units = {u: t + by for u, t in clock.units.items()}
        clock.ready = {n: t + by for n, t in clock.ready.items()}
        clock.groups = [t + by for t in clock.groups]

    def branches(self, stmt: If) -> None:
        """Half of each side."""
        start = self.clock.now
        self.body(stmt.then)
        self.body(stmt.otherwise)
        self.clock.now = start + (self.clock.now - start) / 2

    def operation(self, op: TileOp) -> None:
        """Starts when its operands are there and its unit free."""
        clock, refs, results = self.clock, op_refs(op), op_results(op)
        # An accumulator is read as well; so is whatever a loop over elements touches.
        read = [r.tensor for r in (refs if isinstance(op, Gemm) else refs[len(results) :])]
        if isinstance(op, ForElements):
            read = list(op_tensors(op))
        weight = self.weights.get(op.id, 1.0)
        busy = self.solution.op_cost.get(op.id, 0.0) / weight if weight else 0.0
        unit, latency, asynchronous = self._needs(op)
        waits = [clock.now, clock.units.get(unit, 0.0), *(clock.ready.get(n, 0.0) for n in read)]
        start = max(waits)
        done = start + busy + latency
        clock.units[unit] = start + busy
        clock.last = max(clock.last, done)
        if asynchronous:
            clock.open_group = max(clock.open_group, done)
        else:
            clock.ready.update({r.tensor: done for r in results})
        clock.now = start + (busy if unit == "arithmetic" else min(busy, START))

    def _needs(self, op: TileOp) -> tuple[str, float, bool]:
        """(unit, latency, whether its result is waited for apart)."""
        solution = self.solution
        if isinstance(op, Gemm):
            if op.id in solution.wgmmas:
                return "tensor", solution.wgmmas[op.id].row.timing.latency, False
            return "tensor", solution.gemms[op.id].row.timing.latency, False
        if isinstance(op, Copy):
            plan = solution.copies.get(op.id)
            if plan is None:
                if op.id in solution.bulk:
                    return "global", TMA_LATENCY, True
                return "arithmetic", ARITHMETIC_LATENCY, False
            tensors = [solution.program.tensor(r.tensor) for r in (op.src, op.dst)]
            outside = any(isinstance(t, GlobalView) for t in tensors)
            stored = isinstance(tensors[1], GlobalView)
            latency = 0.0 if stored else plan.row.timing.latency
            return "global" if outside else "shared", latency, plan.row.asynchronous
        if isinstance(op, Prefetch):
            return "global", 0.0, False
        return "arithmetic", ARITHMETIC_LATENCY, False
