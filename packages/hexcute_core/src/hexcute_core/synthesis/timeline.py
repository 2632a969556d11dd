"""Clocks of one block from its first operation to its last: units busy in turn, results in flight.

Operations start in program order once their operands are there. Each keeps its units (Tensor
Cores, shared memory, global memory, arithmetic) busy for its issue clocks and its result is there
a latency later; the next may start beside it on other units. A loop costs its first rounds and
its steady state times the rest; what is still in flight at the end is waited for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from hexcute_core.errors import FrontendError
from hexcute_core.scalar import Scalar, as_scalar
from hexcute_core.scalar.visit import substitute
from hexcute_core.synthesis.compute_cost import BARRIERS
from hexcute_core.synthesis.graph import build_graph
from hexcute_core.synthesis.solution import CopyPlan, Solution
from hexcute_core.tile import (
    Assign,
    AsyncCommit,
    AsyncWait,
    CallStmt,
    ClusterOp,
    Copy,
    For,
    ForElements,
    Gemm,
    GemmWait,
    GlobalView,
    If,
    MbarrierOp,
    NamedBarrierOp,
    PipelineRelease,
    PipelineWait,
    Prefetch,
    Produce,
    Rearrange,
    Role,
    Say,
    SetElement,
    Stmt,
    Sync,
    UpdateElement,
    While,
)
from hexcute_core.tile.ir import Computation, TileOp
from hexcute_core.tile.visit import operands, results, statements, tiles
from hexcute_core.unions import assert_never

# The rounds of a loop that are followed; later ones repeat the last.
ROUNDS = 3
# An operation that shares no unit with the next still takes its slots of the warp schedulers.
START = 0.25
ARITHMETIC_LATENCY = 6.0
TMA_LATENCY = 700.0
_FIRST_BLOCK = ("blockIdx.x", "blockIdx.y", "blockIdx.z")


@dataclass
class _Clock:
    """When things are free or there; mutable while a program is walked."""

    now: float = 0.0
    last: float = 0.0
    units: dict[str, float] = field(default_factory=dict)
    ready: dict[str, float] = field(default_factory=dict)
    open_group: float = 0.0
    groups: list[float] = field(default_factory=list)


def block_clocks(solution: Solution, numbers: Mapping[str, int] | None = None) -> float:
    """Estimated clocks of one block alone on a multiprocessor.

    `numbers` are values of symbols, scalar parameters and the grid by name, as far as they are
    known: a loop whose bounds follow from them takes its rounds in the first block, another as many
    as `Facts.trips` guesses.
    """
    walk = _Walk(solution, numbers or {})
    walk.body(solution.program.body)
    return max(walk.clock.now, walk.clock.last)


class _Walk:
    def __init__(self, solution: Solution, numbers: Mapping[str, int]) -> None:
        self.solution = solution
        known = {name: as_scalar(number) for name, number in numbers.items()}
        self.known = {**dict.fromkeys(_FIRST_BLOCK, as_scalar(0)), **known}
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
            case For() | While():
                self.loop(stmt.body, self.trips(stmt))
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
            case _ if isinstance(stmt, TileOp):
                self.operation(stmt)
                if isinstance(stmt, ForElements):
                    # What it assigns comes from a tile.
                    for inner in statements(stmt.body):
                        if isinstance(inner, Assign):
                            self.known.pop(inner.var.name, None)
            case Assign():
                clock.now += START
                self.known[stmt.var.name] = self.value(stmt.value)
            case (
                CallStmt() | SetElement() | GemmWait() | PipelineWait()
                | PipelineRelease() | MbarrierOp() | NamedBarrierOp() | ClusterOp()
                | UpdateElement() | Say()
            ):  # fmt: skip
                clock.now += START
            case _:
                assert_never(stmt)

    def trips(self, loop: For | While) -> int:
        """The rounds of a loop."""
        if isinstance(loop, For):
            ends = [self.value(e) for e in (loop.start, loop.stop, loop.step)]
            loop = replace(loop, start=ends[0], stop=ends[1], step=ends[2])
        return self.facts.trips(loop)

    def value(self, e: Scalar) -> Scalar:
        """`e` by what is known; as it stands where it has no value, as behind a condition."""
        try:
            return substitute(e, self.known)
        except FrontendError:
            return e

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
        clock = self.clock
        # An accumulator is read as well.
        read = [ref.tensor for ref in (tiles(op) if isinstance(op, Gemm) else operands(op))]
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
            clock.ready.update({r.tensor: done for r in results(op)})
        clock.now = start + (busy if unit == "arithmetic" else min(busy, START))

    def _needs(self, op: TileOp) -> tuple[str, float, bool]:
        """(unit, latency, whether its result is waited for apart)."""
        solution = self.solution
        match op:
            case Gemm() if op.id in solution.wgmmas:
                return "tensor", solution.wgmmas[op.id].row.timing.latency, False
            case Gemm():
                return "tensor", solution.gemms[op.id].row.timing.latency, False
            case Copy() if op.id in solution.copies:
                return self._moved(op, solution.copies[op.id])
            case Copy() if op.id in solution.bulk:
                return "global", TMA_LATENCY, True
            case Prefetch():
                return "global", 0.0, False
            case Copy() | Rearrange() | ForElements():
                return "arithmetic", ARITHMETIC_LATENCY, False
            case _ if isinstance(op, Computation):
                return "arithmetic", ARITHMETIC_LATENCY, False
            case _:
                assert_never(op)

    def _moved(self, op: Copy, plan: CopyPlan) -> tuple[str, float, bool]:
        source, target = (self.solution.program.tensor(r.tensor) for r in (op.src, op.dst))
        stored = isinstance(target, GlobalView)
        outside = stored or isinstance(source, GlobalView)
        latency = 0.0 if stored else plan.row.timing.latency
        return "global" if outside else "shared", latency, plan.row.asynchronous
