"""mbarriers: phases that complete when all arrivals and all expected bytes have come.

An arrival releases what its lanes know, a wait for a phase that has completed acquires it for the
lanes that wait. Between blocks that takes an arrival that releases to the
cluster and a wait that acquires from it: any other hands on what engines have done and no access of
threads. `wait parity` goes on when the phase in progress has the
other parity: a new barrier is in phase 0, so that a wait for parity 1 passes at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from hexcute_core.errors import SourceSpan
from hexcute_core.simulator.code import PAUSE, Code, Routine, Step, Waits, then_pause
from hexcute_core.simulator.instructions.instruction import Instruction
from hexcute_core.simulator.instructions.operands import lanes_of, scalar_operand, shared_operand
from hexcute_core.simulator.lanes.values import Array
from hexcute_core.simulator.memory.clocks import join, tags
from hexcute_core.thread import Prim

if TYPE_CHECKING:
    from hexcute_core.simulator.actor import Actor
    from hexcute_core.simulator.agents import BlockAgents
    from hexcute_core.simulator.engines import AsyncOperation
    from hexcute_core.simulator.machine import Machine
    from hexcute_core.simulator.statements import StatementCompiler

BYTES = 8
Scope: TypeAlias = Literal["block", "cluster"]
"""Whose threads an arrival releases to, or a wait acquires from."""
PENDING_LIMIT = 2**20 - 1


class MBarrier:
    """The barrier at byte `place` of a block's shared memory; `count` arrivals fill a phase."""

    def __init__(self, m: Machine, place: int, count: int) -> None:
        self.place, self.count = place, count
        self.made, self.by = m.span, int(m.who[int(m.active()[0])])
        self.unit = m.world.new_unit("an asynchronous copy", m.blocks[0])
        self.phase = 0
        self.pending, self.bytes = count, 0
        self.published: int | None = None
        self._home = m.group
        nothing: Array = np.zeros(0, dtype=np.int64)
        # What a wait of either scope learns, of the last phase and of the one in progress.
        self._known: dict[Scope, Array] = {"block": nothing, "cluster": nothing}
        self._coming = dict(self._known)
        self._arrived: dict[int, int] = {}

    def arrive(
        self, m: Machine, lanes: Array, expected: int = 0, scope: Scope = "block"
    ) -> None:
        """Lanes of the machine's warp arrive, and expect bytes in this phase."""
        self.bytes += expected
        clock, alone = m.agent_clock, m.alone(lanes)
        self._arrived.update(dict.fromkeys(clock.speaks(alone), clock.time))
        shown = clock.release(alone)
        engines = m.world.of_engines(shown)
        near = m.group is self._home
        self._come(shown if near else engines, shown if near or scope == "cluster" else engines)
        self._count(m, len(lanes), int(lanes[0]))

    def acquire(self, m: Machine, lanes: Array, scope: Scope) -> None:
        """Lanes of the machine's warp have waited for the last phase."""
        m.agent_clock.acquire(self._known[scope], m.alone(lanes))
        if self._home is not None:
            self._home.welcome(self._arrived)

    def _come(self, block: Array, cluster: Array) -> None:
        self._coming["block"] = join(self._coming["block"], block)
        self._coming["cluster"] = join(self._coming["cluster"], cluster)

    def arrive_later(self, op: AsyncOperation, times: int) -> None:
        """Arrivals of threads whose copies have landed."""
        shown = op.clock.known.copy()
        shown[op.unit] = op.time
        self._come(shown, shown)
        self._count(op, times, 0)

    def _count(self, m: Actor, times: int, lane: int) -> None:
        self.pending -= times
        if self.pending < 0:
            m.stop(
                "barrier misuse",
                f"{times} arrivals at the mbarrier at shared byte {self.place} in phase "
                f"{self.phase}, which lacks {self.pending + times} of {self.count}",
                lane,
                "initialise it for as many arrivals as come in one phase",
                self.made,
            )
        self._advance()

    def complete(self, op: AsyncOperation, moved: int) -> None:
        """Bytes have come, by an operation that is an event of the barrier's unit."""
        shown = np.zeros(op.unit + 1, dtype=np.int64)
        shown[op.unit] = op.time
        self._come(shown, shown)
        self.bytes -= moved
        self._advance()

    def _advance(self) -> None:
        if self.pending == 0 and self.bytes == 0:
            self.phase += 1
            self.pending = self.count
            self._known = {
                scope: join(known, self._coming[scope]) for scope, known in self._known.items()
            }

    def lacks(self) -> str:
        """What the phase in progress still waits for."""
        return (
            f"{self.pending} of {self.count} arrivals and {self.bytes} bytes are missing "
            f"(phase {self.phase})"
        )


class AtMBarrier:
    """A warp waits for the phase of `parity`."""

    def __init__(self, barrier: MBarrier, parity: int, span: SourceSpan | None) -> None:
        self.span = span
        self.barrier, self._parity = barrier, parity

    def ready(self) -> bool:
        """Whether the phase has completed."""
        return self.barrier.phase & 1 != self._parity

    def describe(self) -> str:
        """What is missing."""
        return (
            f"waits for parity {self._parity} of the mbarrier at shared byte "
            f"{self.barrier.place}: {self.barrier.lacks()}"
        )

    @property
    def miscounted(self) -> bool:
        """Whether only bytes are missing, which nothing will bring."""
        return self.barrier.pending == 0 and self.barrier.bytes != 0


def find_mbarrier(m: Machine, place: int, group: BlockAgents | None = None) -> MBarrier:
    """The barrier at `place` of the machine's block, or of another of its cluster."""
    home = m.group if group is None else group
    found = None if home is None else home.mbarriers.get(place)
    if found is None:
        m.stop(
            "uninitialised read",
            f"the mbarrier at shared byte {place} is used before it is initialised",
            int(m.active()[0]),
            "let one thread execute mbarrier.init, then fence.mbarrier, then synchronise the block",
        )
    return found


def touch(m: Machine, lanes: Array, place: Array, name: str) -> None:
    """A use of barriers at `place` [n]: it must come after they were initialised."""
    cells = m.shared.cells(m, lanes, place, BYTES, name)
    m.shared.shadow.read(m, lanes, cells, name, atomic="all")


def places_of(m: Machine, lanes: Array, place: Array, name: str) -> list[tuple[int, Array]]:
    """The barriers that executing lanes name, and which lanes name each."""
    touch(m, lanes, place, name)
    return [(int(p), lanes[place == p]) for p in np.unique(place)]


def init(stmt: Prim, compiler: StatementCompiler) -> Step:
    """`mbarrier.init place, count`."""
    compiler.require_agents()
    where, count = shared_operand(stmt, 0), scalar_operand(stmt, 1)
    site, name = compiler.site(stmt.span), stmt.name

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        lanes = m.active()
        place, counts = where(m, lanes), lanes_of(count(m), lanes)
        cells = m.shared.cells(m, lanes, place, BYTES, name)
        m.shared.store(m, lanes, cells, np.zeros((len(lanes), BYTES), dtype=np.uint8), name)
        m.shared.reserve(cells)
        for p, c in zip(place, counts, strict=True):
            if not 1 <= c <= PENDING_LIMIT:
                m.stop("barrier misuse", f"{name} with {c} arrivals", int(lanes[0]))
            there = m.home.mbarriers.get(int(p))
            if there is not None:
                m.report(
                    "barrier misuse",
                    f"{name} at shared byte {p}, where a barrier was initialised before",
                    int(lanes[0]),
                    "let one thread initialise a barrier, once",
                    there.made,
                )
            m.home.mbarriers[int(p)] = MBarrier(m, int(p), int(c))

    return run


def publish(stmt: Prim, compiler: StatementCompiler) -> Step:
    """`fence.mbarrier`: barriers this thread initialised become visible to engines."""
    compiler.require_agents()
    site, name = compiler.site(stmt.span), stmt.name

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        mine = {int(w) for w in m.who[m.active()]}
        for barrier in m.group.mbarriers.values() if m.group is not None else ():
            if barrier.by in mine and barrier.published is None:
                barrier.published = m.agent_clock.time

    return run


def _unknown(m: Machine, lanes: Array, by: int, time: int) -> bool:
    """Whether some of `lanes`, which are not thread `by`, do not know what that did at `time`."""
    others = lanes[m.who[lanes] != by]
    tag = np.broadcast_to(tags(time, 0, np.array([[by]])), (len(others), 1))
    return bool(m.clock.unordered(others, tag, True).any())


def check_published(m: Machine, barrier: MBarrier, name: str) -> None:
    """An engine may use the barrier only after its initialiser's fence."""
    lanes = m.active()
    if barrier.published is None or _unknown(m, lanes, barrier.by, barrier.published):
        m.report(
            "missing fence",
            f"{name} uses the mbarrier at shared byte {barrier.place}, whose initialisation is "
            f"not visible to it",
            int(lanes[0]),
            "let the initialising thread execute fence.mbarrier before the block synchronises",
            barrier.made,
        )


def arrive(stmt: Prim, compiler: StatementCompiler) -> Code:
    """`mbarrier.arrive place`: once for each executing lane."""
    compiler.require_agents()
    where, site, name = shared_operand(stmt, 0), compiler.site(stmt.span), stmt.name

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        lanes = m.active()
        for place, together in places_of(m, lanes, where(m, lanes), name):
            find_mbarrier(m, place).arrive(m, together)

    return then_pause(run)


def expect(stmt: Prim, compiler: StatementCompiler) -> Code:
    """`mbarrier.expect place, bytes`: an arrival that announces bytes."""
    compiler.require_agents()
    where, size = shared_operand(stmt, 0), scalar_operand(stmt, 1)
    site, name = compiler.site(stmt.span), stmt.name

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        lanes = m.active()
        place, sizes = where(m, lanes), lanes_of(size(m), lanes)
        for p, together in places_of(m, lanes, place, name):
            expected = int(sizes[place == p].sum())
            find_mbarrier(m, p).arrive(m, together, expected)

    return then_pause(run)


def wait(stmt: Prim, compiler: StatementCompiler) -> Routine:
    """`mbarrier.wait place, parity`, and `mbarrier.wait.cluster`."""
    compiler.require_agents()
    scope: Scope = "cluster" if stmt.name.endswith(".cluster") else "block"
    where, parity = shared_operand(stmt, 0), scalar_operand(stmt, 1)
    site, name = compiler.site(stmt.span), stmt.name

    def start(m: Machine) -> Waits:
        m.site = site
        m.count(name)
        lanes = m.active()
        place, parities = where(m, lanes), lanes_of(parity(m), lanes)
        touch(m, lanes, place, name)
        for p, q in sorted({(int(a), int(b)) for a, b in zip(place, parities, strict=True)}):
            barrier = find_mbarrier(m, p)
            yield AtMBarrier(barrier, q & 1, m.span)
            barrier.acquire(m, lanes[(place == p) & (parities == q)], scope)
        yield PAUSE

    return Routine(start)


_MAKERS = {
    "mbarrier.init": init, "mbarrier.arrive": arrive, "mbarrier.expect": expect,
    "mbarrier.wait": wait, "mbarrier.wait.cluster": wait,
}  # fmt: skip


def instruction(name: str) -> Instruction | None:
    """mbarriers of the thread's own block."""
    if name == "fence.mbarrier":
        return Instruction(publish)
    make = _MAKERS.get(name)
    return None if make is None else Instruction(make, shared=BYTES)
