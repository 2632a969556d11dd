"""Clusters: blocks that run together, meet, and arrive at each other's mbarriers.

`cluster.arrive` releases and `cluster.wait` acquires: a phase completes when every warp of every
block of the cluster has arrived. `mbarrier.arrive.cluster place, rank` arrives at the barrier at
the same address of block `rank`. `griddepcontrol` orders kernels, of which one runs here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexcute_core.errors import SourceSpan
from hexcute_core.simulator.clocks import join
from hexcute_core.simulator.code import Code, Routine, Step, Waits, then_pause
from hexcute_core.simulator.instructions import Instruction
from hexcute_core.simulator.lanes import Block
from hexcute_core.simulator.mbarrier import BYTES, find_mbarrier, touch
from hexcute_core.simulator.operands import lanes_of, scalar_operand, shared_operand
from hexcute_core.simulator.values import Array
from hexcute_core.thread import Prim

if TYPE_CHECKING:
    from hexcute_core.simulator.agents import BlockAgents
    from hexcute_core.simulator.machine import Machine
    from hexcute_core.simulator.statements import StatementCompiler


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
    """What a warp of another block did to this block's shared memory, at `time` of its `unit`."""

    name: str
    by: Block
    unit: int
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
        m.cluster_phase = home.cluster[0].cluster_barrier.arrive(m, home.cluster)

    return then_pause(run)


def wait(stmt: Prim, compiler: StatementCompiler) -> Routine:
    """`cluster.wait`."""
    compiler.require_agents()
    site, name = compiler.site(stmt.span), stmt.name

    def start(m: Machine) -> Waits:
        m.site = site
        m.count(name)
        m.warp_mask(name)
        if m.cluster_phase is None:
            m.stop("barrier misuse", f"{name} without cluster.arrive before it", 0)
        barrier = m.home.cluster[0].cluster_barrier
        yield AtCluster(barrier, m.cluster_phase, m.home, m.span)
        m.cluster_phase = None
        m.agent_clock.acquire(barrier.known)

    return Routine(start)


def arrive_remote(stmt: Prim, compiler: StatementCompiler) -> Code:
    """`mbarrier.arrive.cluster place, rank`."""
    compiler.require_agents()
    where, rank = shared_operand(stmt, 0), scalar_operand(stmt, 1)
    site, name = compiler.site(stmt.span), stmt.name

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        lanes = m.active()
        places, ranks = where(m, lanes), lanes_of(rank(m), lanes)
        touch(m, lanes, places, name)
        cluster = m.home.cluster
        for place, to in zip(places, ranks, strict=True):
            if not 0 <= to < len(cluster):
                m.stop(
                    "out of bounds", f"{name} to block {to} of a cluster of {len(cluster)}",
                    int(lanes[0]),
                )  # fmt: skip
            target = cluster[int(to)]
            if target is not m.home:
                _visit(m, target, name)
            find_mbarrier(m, int(place), target).arrive(m, 1)

    return then_pause(run)


def _visit(m: Machine, target: BlockAgents, name: str) -> None:
    """The warp reaches into another block, which must not have ended, nor end unaware of it."""
    if target.ended:
        m.stop(
            "use before wait",
            f"{name} reaches block {target.block}, which has ended",
            0,
            "let the blocks of a cluster meet before they end: hx.cluster_sync()",
        )
    clock = m.agent_clock
    target.visits.append(Visit(name, m.home.block, clock.unit, clock.time, m.span))


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
    if name == "mbarrier.arrive.cluster":
        return Instruction(arrive_remote, shared=BYTES)
    return {"cluster.arrive": Instruction(arrive), "cluster.wait": Instruction(wait)}.get(name)
