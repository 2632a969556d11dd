"""World = what all blocks of one run share: global buffers, counters, findings, random numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hexcute_core.errors import SimulationError, SourceSpan
from hexcute_core.simulator.counting import Tally
from hexcute_core.simulator.findings import Findings
from hexcute_core.simulator.lanes.state import WARP, Block, padded
from hexcute_core.simulator.lanes.values import Array, Value
from hexcute_core.simulator.memory.buffers import GlobalBuffer
from hexcute_core.simulator.memory.clocks import WHO_MASK, VectorClock, Voices
from hexcute_core.thread import TensorMap

if TYPE_CHECKING:
    from hexcute_core.simulator.agents import Scheduler
    from hexcute_core.simulator.instructions.boxes import Mapped
    from hexcute_core.simulator.meter import Meter

SLACK = 64


class World:
    """One run of a launch.

    `seed` draws what the machine leaves open; seed 0 is the adversary, for whom everything
    asynchronous is as late as it may be. `changes` counts changes of memory while `watched`, so
    that agents that poll it know whether anything new can be seen.
    """

    def __init__(
        self,
        blocks: Sequence[Block],
        grid: Block,
        threads: int,
        buffers: Mapping[str, GlobalBuffer],
        scalars: Mapping[str, Value],
        sites: Sequence[SourceSpan | None],
        tally: Tally,
        findings: Findings,
        seed: int,
    ) -> None:
        self.blocks = tuple(blocks)
        self.grid = grid
        self.threads = threads
        self.buffers = buffers
        self.scalars = scalars
        self.sites = sites
        self.tally = tally
        self.findings = findings
        self.seed = seed
        self.random = np.random.default_rng(seed)
        self.maps: Mapping[str, TensorMap] = {}
        self.together = 1  # Blocks that are to fit a multiprocessor.
        self.mapped: Mapping[str, Mapped] = {}
        self.scheduler: Scheduler | None = None
        self.watched = False
        self.changes = 0
        self._warps = self._units = len(blocks) * padded(threads) // WARP
        self._room = self._units + SLACK
        self._clocks: list[VectorClock] = []
        self.printed: list[str] = []
        self.meter: Meter | None = None
        self._names: dict[int, tuple[str, Block]] = {}
        self.voices = Voices(len(blocks) * padded(threads), self._unit(), self._unit)

    def block(self, ordinal: int) -> Block:
        """The block that runs as number `ordinal`."""
        return self.blocks[ordinal]

    def early(self) -> bool:
        """Whether something asynchronous happens now rather than as late as it may."""
        return self.seed != 0 and bool(self.random.random() < 0.5)

    def clock(self, unit: int) -> VectorClock:
        """The clock of a new agent."""
        clock = VectorClock(unit, self._room, self.voices)
        self._clocks.append(clock)
        return clock

    def adopt(self, clock: VectorClock) -> None:
        """Keeps a clock that was made elsewhere as wide as the units need."""
        clock.grow(max(self._room, len(clock.known)))
        self._clocks.append(clock)

    def retire(self, clock: VectorClock) -> None:
        """The agent of `clock` has ended."""
        self._clocks.remove(clock)

    def new_unit(self, name: str, block: Block) -> int:
        """A unit of its own for something that is no warp, such as an asynchronous engine, called
        `name`; its threads' numbers start at unit * 32."""
        unit = self._unit()
        self._names[unit] = (name, block)
        return unit

    def _unit(self) -> int:
        """One more unit, for which all clocks have room."""
        self._units += 1
        self._check_room()
        if self._units > self._room:
            self._room *= 2
            for clock in self._clocks:
                clock.grow(self._room)
        return self._units - 1

    def _check_room(self) -> None:
        """Raises SimulationError where a tag cannot tell so many threads apart."""
        if self._units * WARP > WHO_MASK:
            raise SimulationError(
                f"a launch of {len(self.blocks)} blocks of {self.threads} threads is more than the "
                "simulator can tell apart",
                fix="name some of the blocks: blocks=[(x, y, z), ...]",
            )

    def of_engines(self, known: Array) -> Array:
        """What is known of engines alone, without the accesses of threads."""
        part: Array = known.copy()
        part[: self._warps] = 0
        part[[unit for unit in self.voices.all if unit < len(part)]] = 0
        return part

    def ordinals(self, who: Array) -> Array:
        """The number of the block of each of `who`, -1 for what is no thread."""
        block: Array = who // padded(self.threads)
        return np.where(block < len(self.blocks), block, -1)

    def is_engine(self, who: int) -> bool:
        """Whether number `who` of the launch is no thread."""
        return who // WARP in self._names

    def describe(self, who: int) -> tuple[str, Block]:
        """What number `who` of the launch is called, and its block."""
        named = self._names.get(who // WARP)
        if named is not None:
            return named
        ordinal, thread = divmod(who, padded(self.threads))
        return f"thread {thread}", self.block(ordinal)
