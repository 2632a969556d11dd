"""Machine = lanes x (variables, registers) + shared arena + global buffers.

A machine runs a batch of whole blocks in lockstep, or one warp of one block as an agent; the
compiled statements change it. What a family of instructions remembers between two of them is a
class in the family's file, which `Machine.state` keeps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np

from hexcute_core.simulator.actor import Actor
from hexcute_core.simulator.code import NeedsAgents
from hexcute_core.simulator.lanes.state import WARP, LaneState, builtins
from hexcute_core.simulator.lanes.values import Array, Value
from hexcute_core.simulator.memory.clocks import BlockClock, VectorClock
from hexcute_core.simulator.memory.shared import SharedArena
from hexcute_core.simulator.pace import Pace
from hexcute_core.simulator.registers import RegisterArray, read_element
from hexcute_core.simulator.world import World

if TYPE_CHECKING:
    from hexcute_core.simulator.agents import BlockAgents, Engine

State = TypeVar("State")


class Machine(Actor, LaneState):
    """The state of threads `part` of blocks `ordinals` of a run.

    `group` is the block's meeting place where the machine is one of its agents, else None.
    """

    def __init__(
        self,
        world: World,
        ordinals: range,
        shared: SharedArena,
        part: range | None = None,
        group: BlockAgents | None = None,
    ) -> None:
        blocks = [world.block(i) for i in ordinals]
        chosen = range(world.threads) if part is None else part
        values = {**world.scalars, **builtins(blocks, world.grid, world.threads, chosen)}
        super().__init__(values, world.threads, blocks, chosen, ordinals.start)
        self.world = world
        self.group = group
        self.site = 0
        self.sites = world.sites
        self.tally = world.tally
        self.buffers = world.buffers
        self.shared = shared
        self.registers: dict[str, RegisterArray] = {}
        self.clock: BlockClock | VectorClock
        if group is None:
            self.clock = BlockClock(self.block_of, ordinals.start, world.threads)
        else:
            self.clock = world.clock(int(self.who[0]) // WARP)
        self.column = 0 if group is None else chosen.start // WARP
        self.touches = 0
        self.pace = Pace()
        self._units: dict[str, int] = {}
        self._states: dict[object, Any] = {}

    def state(self, kind: Callable[[Machine], State]) -> State:
        """What a family of instructions keeps of this machine, a class of the family's own; made
        when it is first asked for."""
        if kind not in self._states:
            self._states[kind] = kind(self)
        found: State = self._states[kind]
        return found

    def thread(self, lane: int) -> int:
        """The thread of its block that a lane is."""
        return int(self.thread_of[lane])

    @property
    def agent_clock(self) -> VectorClock:
        """The clock of a machine that is an agent; NeedsAgents in lockstep."""
        if isinstance(self.clock, BlockClock):
            raise NeedsAgents
        return self.clock

    @property
    def home(self) -> BlockAgents:
        """The block that the machine is an agent of; NeedsAgents in lockstep."""
        if self.group is None:
            raise NeedsAgents
        return self.group

    def engine_unit(self, name: str) -> int:
        """The unit of what the machine starts on the engine `name`."""
        if name not in self._units:
            self._units[name] = self.world.new_unit("an asynchronous copy", self.blocks[0])
        return self._units[name]

    def start_engine(self, engine: Engine) -> None:
        """Something asynchronous is under way."""
        self.home.started.append(engine)
        if self.world.meter is not None:
            self.world.meter.started(self, engine)
        if self.world.scheduler is not None:
            self.world.scheduler.engines.append(engine)

    def fail(self, message: str, lane: int | None = None, fix: str | None = None) -> NoReturn:
        """Ends the run at something that has no meaning."""
        self.stop("undefined", message, lane, fix)

    def element(self, array: str, indices: tuple[Value, ...]) -> Value:
        """Register `array[index]` of every lane."""
        if len(indices) != 1:
            self.fail(f"{array} has {len(indices)} indices, registers take one")
        return read_element(self, array, indices[0])

    def running_warps(self) -> int:
        """Warps with an executing lane."""
        return self.warps if self.mask is None else len(np.unique(self.warp_of[self.mask]))

    def count(self, name: str) -> None:
        """Counts one instruction `name` for each warp with an executing lane."""
        self.tally.issue(name, self.site, self.running_warps())

    def count_special(self, name: str, amount: int) -> None:
        """Counts operations of the special-function unit on the executing lanes."""
        lanes = self.lanes if self.mask is None else int(self.mask.sum())
        self.tally.special[name] += amount * lanes

    def warp_mask(self, what: str) -> Array | None:
        """The mask a warp [warps], for an instruction that whole warps must execute together."""
        if self.lanes % WARP:
            self.fail(f"{what} needs whole warps, and the block has {self.threads} threads")
        if self.mask is None:
            return None
        rows = self.mask.reshape(self.warps, WARP)
        some: Array = np.logical_or.reduce(rows, axis=1)
        torn = some & ~rows.all(axis=1)
        if torn.any():
            lane = int(np.flatnonzero(torn)[0]) * WARP
            self.stop(
                "divergent instruction",
                f"{what} inside divergent control flow: only part of a warp reaches it",
                lane,
                "move it out of the `if` or loop whose condition differs within a warp",
            )
        return some
