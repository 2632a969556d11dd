"""Clusters: blocks that run together, meet, and reach into each other.

`cluster.arrive` releases and `cluster.wait` acquires: a phase completes when every warp of every
block of the cluster has arrived. `mbarrier.arrive.cluster place, rank` arrives at the barrier at
the same address of block `rank`. Whoever reaches into a block must know that it has started, and
the block must know of the visit before it ends. `griddepcontrol` orders kernels, of which one runs
here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexcute_core.errors import SourceSpan
from hexcute_core.simulator.code import Code, Routine, Step, Waits, then_pause
from hexcute_core.simulator.instructions.instruction import Instruction
from hexcute_core.simulator.instructions.mbarrier import BYTES, Scope, find_mbarrier, touch
from hexcute_core.simulator.instructions.operands import lanes_of, scalar_operand, shared_operand
from hexcute_core.simulator.lanes.state import Block
from hexcute_core.simulator.lanes.values import Array
from hexcute_core.simulator.memory.clocks import join
from hexcute_core.thread import Prim

if TYPE_CHECKING:
    from hexcute_core.simulator.agents import BlockAgents
    from hexcute_core.simulator.machine import Machine
    from hexcute_core.simulator.statements import StatementCompiler


class Arrival:
    """The phase of the cluster's barrier that a machine arrived at and has not waited for."""

    def __init__(self, m: Machine) -> None:
        self.phase: int | None = None


class ClusterBarrier:
    """The barrier of a cluster: arrivals by warp of each block."""

    def __init__(self) -> None:
        self.phase = 0
        self.known: Array = np.zeros(0, dtype=np.int64)
        self._came: set[tuple[int, int]] = set()
        self._coming: Array = np.zeros(0, dtype=np.int64)

    def arrive(self, m: Machine, cluster: list[BlockAgents]) -> int:
        """The machine's warp arrives; the phase it arrives in."""
        me = (id(m.home), m.column)
        if me in self._came:
            m.stop(
                "barrier misuse",
                f"warp {m.column} arrives at the cluster's barrier twice in a phase",
                0,
                "let it wait between its arrivals",
            )
        phase = self.phase
        self._came.add(me)
        self._coming = join(self._coming, m.agent_clock.release())
        if len(self._came) == sum(len(group.agents) for group in cluster):
            self._came.clear()
            self.phase += 1
            self.known = self._coming
        return phase

    def missing(self, cluster: list[BlockAgents]) -> int:
        """Warps that have not arrived."""
        return sum(len(group.agents) for group in cluster) - len(self._came)


@dataclass(frozen=True)
class Visit:
    """The last that a warp of another block, or a lane of it, did to this block's shared memory:
    at `time` of all these `units`, each of which tells that it is over."""

    name: str
    by: Block
    units: tuple[int, ...]
    time: int
    span: SourceSpan | None


class AtCluster:
    """A warp waits for its cluster."""

    def __init__(
        self, barrier: ClusterBarrier, phase: int, home: BlockAgents, span: SourceSpan | None
    ) -> None:
        self.span = span
        self._barrier, self._phase, self._home = barrier, phase, home

    def ready(self) -> bool:
        """Whether all warps have arrived."""
        return self._barrier.phase > self._phase

    def describe(self) -> str:
        """How many are missing."""
        missing = self._barrier.missing(self._home.cluster)
        return f"waits for its cluster (phase {self._phase}): {missing} warps have not arrived"


def arrive(stmt: Prim, compiler: StatementCompiler) -> Code:
    """`cluster.arrive`."""
    compiler.require_agents()
    site, name = compiler.site(stmt.span), stmt.name

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        m.warp_mask(name)
        home = m.home
        m.state(Arrival).phase = home.cluster[0].cluster_barrier.arrive(m, home.cluster)

    return then_pause(run)


def wait(stmt: Prim, compiler: StatementCompiler) -> Routine:
    """`cluster.wait`."""
    compiler.require_agents()
    site, name = compiler.site(stmt.span), stmt.name

    def start(m: Machine) -> Waits:
        m.site = site
        m.count(name)
        m.warp_mask(name)
        arrival = m.state(Arrival)
        if arrival.phase is None:
            m.stop("barrier misuse", f"{name} without cluster.arrive before it", 0)
        barrier = m.home.cluster[0].cluster_barrier
        yield AtCluster(barrier, arrival.phase, m.home, m.span)
        arrival.phase = None
        m.agent_clock.acquire(barrier.known)

    return Routine(start)


def arrive_remote(stmt: Prim, compiler: StatementCompiler) -> Code:
    """`mbarrier.arrive.cluster place, rank`, relaxed, and `mbarrier.arrive.cluster.release`."""
    compiler.require_agents()
    where, rank = shared_operand(stmt, 0), scalar_operand(stmt, 1)
    scope: Scope = "cluster" if stmt.name.endswith(".release") else "block"
    site, name = compiler.site(stmt.span), stmt.name

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        lanes = m.active()
        places, ranks = where(m, lanes), lanes_of(rank(m), lanes)
        touch(m, lanes, places, name)
        # The lanes of one instruction arrive together, in one phase.
        for place, to in sorted({(int(p), int(r)) for p, r in zip(places, ranks, strict=True)}):
            together = lanes[(places == place) & (ranks == to)]
            target = block_of_rank(m, to, name, int(together[0]))
            if target is not m.home:
                visit(m, together, target, name)
            find_mbarrier(m, place, target).arrive(m, together, scope=scope)

    return then_pause(run)


def block_of_rank(m: Machine, rank: int, name: str, lane: int) -> BlockAgents:
    """Block `rank` of the machine's cluster, which `name` reaches on `lane`."""
    cluster = m.home.cluster
    if not 0 <= rank < len(cluster):
        m.stop("out of bounds", f"{name} to block {rank} of a cluster of {len(cluster)}", lane)
    return cluster[rank]


def visit(m: Machine, lanes: Array, target: BlockAgents, name: str) -> None:
    """Lanes of the warp reach into another block, which must have started for all that they know,
    must not have ended, nor end unaware of it."""
    clock, alone = m.agent_clock, m.alone(lanes)
    if not clock.heard_of(target.units(), alone):
        m.report(
            "use before wait",
            f"{name} reaches block {target.block}, of which nothing tells that it has started",
            0,
            "let the blocks of a cluster meet before they reach into one another: "
            "hx.cluster_sync()",
        )
    if target.ended:
        m.stop(
            "use before wait",
            f"{name} reaches block {target.block}, which has ended",
            0,
            "let the blocks of a cluster meet before they end: hx.cluster_sync()",
        )
    for unit in clock.speaks(alone):
        units = (unit, clock.unit)
        target.visits[unit] = Visit(name, m.home.block, units, clock.time, m.span)


def between_kernels(stmt: Prim, compiler: StatementCompiler) -> Step:
    """`griddepcontrol.wait`, `griddepcontrol.launch`: nothing that can be seen."""
    site, name = compiler.site(stmt.span), stmt.name

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)

    return run


def instruction(name: str) -> Instruction | None:
    """What blocks of a cluster tell each other."""
    if name in ("griddepcontrol.wait", "griddepcontrol.launch"):
        return Instruction(between_kernels)
    if name in ("mbarrier.arrive.cluster", "mbarrier.arrive.cluster.release"):
        return Instruction(arrive_remote, shared=BYTES)
    return {"cluster.arrive": Instruction(arrive), "cluster.wait": Instruction(wait)}.get(name)
