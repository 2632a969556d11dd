"""The warps of a block as agents, each its own coroutine, and the order in which they run.

A scheduler lets one agent go on until it waits, or until a place where the order matters. Seed 0
takes the agents in turn and lets engines finish as late as possible; other seeds draw the order,
every second one by a priority for each agent that changes now and then, so that some run far
ahead. When nobody can go on and no block is left to start, it is a deadlock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

import numpy as np

from hexcute_core.errors import SourceSpan
from hexcute_core.simulator.code import PAUSE, Wait, Waits
from hexcute_core.simulator.findings import Finding, Kind, RunEnds
from hexcute_core.simulator.instructions.cluster import ClusterBarrier, Visit
from hexcute_core.simulator.instructions.register_pool import ALIKE, RegisterPool
from hexcute_core.simulator.lanes.state import WARP, Block
from hexcute_core.simulator.lanes.values import Array
from hexcute_core.simulator.machine import Machine
from hexcute_core.simulator.memory.shared import SharedArena
from hexcute_core.simulator.world import World

if TYPE_CHECKING:
    from hexcute_core.simulator.instructions.barriers import NamedBarrier
    from hexcute_core.simulator.instructions.mbarrier import MBarrier
    from hexcute_core.simulator.instructions.wgmma import Products
    from hexcute_core.simulator.meter import Meter

CHANGE_OF_PRIORITY = 0.02


class Engine(Protocol):
    """Something asynchronous that is under way, such as a bulk copy."""

    group: BlockAgents

    @property
    def span(self) -> SourceSpan | None:
        """Where it was issued."""

    def ready(self) -> bool:
        """Whether it may happen now, as far as its order with others goes."""

    def happen(self) -> None:
        """Makes it happen."""

    def unfinished(self) -> str | None:
        """What is wrong if its block ends now."""


class BlockAgents:
    """One block: its arena, its barriers, its warps, and who came from other blocks."""

    def __init__(
        self, world: World, ordinal: int, shared_bytes: int, granule: int,
        start: Callable[[Machine], Waits], guests: int = 0,
    ) -> None:  # fmt: skip
        """With `guests`, warps of so many blocks of the cluster may read its memory."""
        self.world = world
        self.block: Block = world.block(ordinal)
        self.threads = world.threads
        self.barriers: dict[int, NamedBarrier] = {}
        self.mbarriers: dict[int, MBarrier] = {}
        self.products: dict[int, Products] = {}
        self.started: list[Engine] = []
        self.visits: dict[int, Visit] = {}
        self._welcomed: dict[int, int] = {}
        self.cluster: list[BlockAgents] = [self]
        self.cluster_barrier = ClusterBarrier()
        self.pool = RegisterPool(world.threads, world.together)
        self._events = 0
        firsts = range(0, world.threads, WARP)
        # Each warp reads by itself, through its bulk copies and through its products.
        columns, home = (3 + guests) * len(firsts), ordinal if guests else None
        self.shared = SharedArena(shared_bytes, 1, granule, columns, home)
        self.agents = [
            Agent(self, ordinal, range(first, min(first + WARP, world.threads)), start)
            for first in firsts
        ]

    def next_event(self) -> int:
        """A number for something that happens on an engine."""
        self._events += 1
        return self._events

    def guest_column(self, m: Machine) -> int:
        """Where reads by a warp of another block of the cluster are kept."""
        return (3 + self.cluster.index(m.home)) * len(self.agents) + m.column

    def units(self) -> Array:
        """The units of its warps, and of the threads that spoke for themselves."""
        clocks = [agent.machine.agent_clock for agent in self.agents]
        voices = self.world.voices.of(np.concatenate([a.machine.who for a in self.agents]))
        own = np.array([clock.unit for clock in clocks])
        return own if voices is None else np.concatenate([own, voices])

    def welcome(self, arrived: Mapping[int, int]) -> None:
        """A wait has seen these arrivals at a barrier: by unit, the clock of the last."""
        for unit, time in arrived.items():
            self._welcomed[unit] = max(time, self._welcomed.get(unit, 0))

    @property
    def ended(self) -> bool:
        """Whether all warps have ended."""
        return all(agent.ended for agent in self.agents)

    def finish(self) -> None:
        """The block ends: its shared memory is gone, nothing may still need it."""
        for engine in self.started:
            wrong = engine.unfinished()
            if wrong is not None:
                self._ends_while(wrong, engine.span, "wait for it before the kernel ends")
        torn = self.pool.torn(len(self.agents))
        if torn is not None:
            self._end("divergent instruction", torn[0], torn[1], ALIKE)
        clocks = [agent.machine.agent_clock for agent in self.agents]
        for visit in self.visits.values():
            over = any(
                self._welcomed.get(unit, 0) >= visit.time
                or any(clock.knows(unit, visit.time) for clock in clocks)
                for unit in visit.units
            )
            if not over:
                self._ends_while(
                    f"{visit.name} of block {visit.by} may still be on its way to it",
                    visit.span,
                    "let the blocks of a cluster meet before they end: hx.cluster_sync()",
                )

    def _ends_while(self, wrong: str, span: SourceSpan | None, fix: str) -> None:
        self._end("use before wait", f"block {self.block} ends while {wrong}", span, fix)

    def _end(self, kind: Kind, message: str, span: SourceSpan | None, fix: str) -> None:
        seed = self.world.seed
        self.world.findings.add(Finding(kind, message, span, None, fix, self.block, None, seed))


class Agent:
    """One warp of a block and what it waits for."""

    def __init__(
        self, group: BlockAgents, ordinal: int, part: range, start: Callable[[Machine], Waits]
    ) -> None:
        self.group = group
        self.warp = part.start // WARP
        self.machine = Machine(group.world, range(ordinal, ordinal + 1), group.shared, part, group)
        self.wait: Wait = PAUSE
        self.ended = self.held = False
        self._waits: Iterator[Wait] = start(self.machine)

    def go_on(self) -> None:
        """Runs until the next wait or the end."""
        wait = next(self._waits, None)
        if wait is None:
            self.ended = True
            self.group.world.retire(self.machine.agent_clock)
            meter = self.group.world.meter
            if meter is not None:
                meter.ended[self.group.block, self.warp * WARP] = self.machine.pace.now
        else:
            self.wait = wait

    @property
    def span(self) -> SourceSpan | None:
        """Where it stands."""
        return self.wait.span

    def describe(self) -> str:
        """`waits at ...`."""
        where = f" at {self.span}" if self.span is not None else ""
        return self.wait.describe() + where


def _told(agents: list[Agent]) -> str:
    """`warp 3 waits at ...; warps 4, 5 each ...`: who stands where, each place once."""
    places: dict[str, list[int]] = {}
    for agent in agents:
        places.setdefault(agent.describe(), []).append(agent.warp)
    return "; ".join(
        f"warps {', '.join(map(str, warps))} each {told}"
        if len(warps) > 1
        else f"warp {warps[0]} {told}"
        for told, warps in places.items()
    )


class Scheduler:
    """Runs agents and engines until all blocks have ended."""

    def __init__(self, world: World, clusters: Iterator[list[BlockAgents]], at_once: int) -> None:
        self.world = world
        self.engines: list[Engine] = []
        self._clusters = clusters
        self._at_once = at_once
        self._live: list[Agent] = []
        self._last = -1
        self._rank: dict[int, float] = {}
        world.scheduler = self

    def run(self) -> None:
        """Everything, to the end; RunEnds at a deadlock that is kept as a finding."""
        self._admit()
        while True:
            if self._go_on():
                continue
            if self._admit():
                continue
            if not self._live and not self.engines:
                return
            self._deadlock()

    def _admit(self) -> bool:
        """Starts the next cluster of blocks, or as many as run at once; whether there was one."""
        running = len({id(agent.group) for agent in self._live})
        meter = self.world.meter
        if meter is not None and not running:
            meter.time = 0.0
        started = False
        while not started or running < self._at_once:
            cluster = next(self._clusters, None)
            if cluster is None:
                break
            for group in cluster:
                group.cluster = cluster
                if meter is not None:
                    meter.begin(group)
                self._live += group.agents
            running, started = running + len(cluster), True
        return started

    def _go_on(self) -> bool:
        """One agent or engine goes on; whether any could."""
        ready = [i for i, agent in enumerate(self._live) if agent.wait.ready()]
        engines = [engine for engine in self.engines if engine.ready()]
        if not ready and not engines:
            return False
        meter = self.world.meter
        if meter is None:
            chosen = self._choose(ready, len(engines))
            engine = self._which(engines) if chosen is None else None
        else:
            chosen, engine = self._next(meter, ready, engines)
        if chosen is None:
            assert engine is not None
            self.engines.remove(engine)
            engine.happen()
            return True
        agent = self._live[chosen]
        agent.go_on()
        self._last = chosen
        if agent.ended:
            del self._live[chosen]
            self._last = chosen - 1
            if agent.group.ended:
                agent.group.finish()
                self._admit()
        return True

    def _choose(self, ready: list[int], engines: int) -> int | None:
        """The index of an agent, or None for an engine."""
        world = self.world
        if world.seed == 0:
            if not ready:
                return None
            return self._last if self._last in ready else next(
                (i for i in ready if i > self._last), ready[0]
            )  # fmt: skip
        if engines and (not ready or world.random.random() < engines / (engines + len(ready))):
            return None
        if world.seed % 2:
            return int(world.random.choice(ready))
        return max(ready, key=self._priority)

    def _next(
        self, meter: Meter, ready: list[int], engines: list[Engine]
    ) -> tuple[int | None, Engine | None]:
        """Whatever comes first in time. Who had to wait goes on no earlier than what has just
        happened, which ended the wait."""
        for i, agent in enumerate(self._live):
            if i not in ready:
                agent.held = True
            elif agent.held:
                agent.held = False
                agent.machine.pace.now = max(agent.machine.pace.now, meter.time)
        first = min(ready, key=lambda i: self._live[i].machine.pace.now, default=None)
        soonest = min(engines, key=meter.due, default=None)
        now = None if first is None else self._live[first].machine.pace.now
        if soonest is not None and (now is None or meter.due(soonest) <= now):
            meter.time = max(meter.time, meter.due(soonest))
            return None, soonest
        assert now is not None
        meter.time = max(meter.time, now)
        return first, None

    def _priority(self, index: int) -> float:
        agent, world = id(self._live[index]), self.world
        if agent not in self._rank or world.random.random() < CHANGE_OF_PRIORITY:
            self._rank[agent] = float(world.random.random())
        return self._rank[agent]

    def _which(self, engines: list[Engine]) -> Engine:
        """The adversary completes what was started last first."""
        if self.world.seed == 0:
            return engines[-1]
        return engines[int(self.world.random.integers(len(engines)))]

    def _deadlock(self) -> None:
        miscounted = [agent for agent in self._live if getattr(agent.wait, "miscounted", False)]
        stuck = (miscounted or self._live)[0]
        group = [agent for agent in self._live if agent.group is stuck.group]
        told = _told(group)
        others = [agent.span for agent in group if agent.span not in (None, stuck.span)]
        found = Finding(
            "transaction bytes" if miscounted else "deadlock",
            f"block {stuck.group.block} cannot go on: {told}",
            stuck.span,
            others[0] if others else None,
            "expect as many bytes as the copies of a phase bring"
            if miscounted
            else "let every warp that is counted reach the barrier, as often as the others do",
            stuck.group.block,
            stuck.warp * WARP,
            self.world.seed,
        )
        self.world.findings.add(found)
        raise RunEnds
