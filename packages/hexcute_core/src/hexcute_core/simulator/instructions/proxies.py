"""Fences between proxies, and copies of threads that arrive at an mbarrier when they are done.

`fence.proxy`: what the executing threads wrote to shared memory becomes visible to the async
proxy, for whoever knows of the fence; `fence.proxy.global`: what they wrote to global memory.
`cp.async.mbarrier place`: when all cp.async that the thread has issued so far have landed, it
arrives at the barrier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hexcute_core.errors import SourceSpan
from hexcute_core.simulator.code import Code, Step, then_pause
from hexcute_core.simulator.engines import AsyncOperation
from hexcute_core.simulator.instructions.asynchronous import Copies
from hexcute_core.simulator.instructions.instruction import Instruction
from hexcute_core.simulator.instructions.mbarrier import BYTES, MBarrier, find_mbarrier, places_of
from hexcute_core.simulator.instructions.operands import shared_operand
from hexcute_core.simulator.lanes.values import Array
from hexcute_core.simulator.memory.clocks import LANDED
from hexcute_core.thread import Prim

if TYPE_CHECKING:
    from hexcute_core.simulator.machine import Machine
    from hexcute_core.simulator.statements import StatementCompiler


def fence(stmt: Prim, compiler: StatementCompiler) -> Step:
    """`fence.proxy` and `fence.proxy.global`."""
    compiler.require_agents()
    site, name = compiler.site(stmt.span), stmt.name

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        if name == "fence.proxy":
            m.shared.fence(m, m.active())
        else:
            for buffer in m.buffers.values():
                buffer.fence(m, m.active())

    return run


class ArriveEngine:
    """Arrivals that come when copies have landed."""

    def __init__(self, m: Machine, barrier: MBarrier, lanes: Array, name: str) -> None:
        self.group, self.name = m.home, name
        self._barrier, self._times = barrier, len(lanes)
        self._operation = AsyncOperation(m, lanes, barrier.unit, barrier.phase + 1)
        state = m.state(Copies)
        mine = [copy.part(np.isin(copy.lanes, lanes)) for copy in state.pending]
        self._copies = [copy for copy in mine if len(copy.lanes)]
        state.pending = [
            rest
            for copy in state.pending
            if len((rest := copy.part(~np.isin(copy.lanes, lanes))).lanes)
        ]

    @property
    def span(self) -> SourceSpan | None:
        """Where it was issued."""
        return self._operation.span

    def ready(self) -> bool:
        """Copies land at any time."""
        return True

    def happen(self) -> None:
        """The copies land, and the threads arrive."""
        op = self._operation
        for copy in self._copies:
            copy.land(op, self.group.shared, np.zeros(len(copy.lanes), dtype=np.int64), LANDED)
        self._barrier.arrive_later(op, self._times)
        op.world.changes += 1
        op.finish()
        self._times = 0

    def unfinished(self) -> str | None:
        """What is wrong if the block ends now."""
        return f"{self.name} has not arrived" if self._times else None


def arrive_after_copies(stmt: Prim, compiler: StatementCompiler) -> Code:
    """`cp.async.mbarrier place`."""
    compiler.require_agents()
    where, site, name = shared_operand(stmt, 0), compiler.site(stmt.span), stmt.name

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        lanes = m.active()
        place = where(m, lanes)
        for p, together in places_of(m, lanes, place, name):
            m.start_engine(ArriveEngine(m, find_mbarrier(m, p), together, name))

    return then_pause(run)


def instruction(name: str) -> Instruction | None:
    """Proxy fences, and arrivals of asynchronous copies."""
    if name in ("fence.proxy", "fence.proxy.global"):
        return Instruction(fence)
    return Instruction(arrive_after_copies, shared=BYTES) if name == "cp.async.mbarrier" else None
