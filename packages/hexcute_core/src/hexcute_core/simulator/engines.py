"""AsyncOperation = one thing under way on an asynchronous engine, with a clock of its own.

It knows what its issuer knew when it was issued. What it touches carries its unit and time, so
only those who have waited for it know that it comes before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from hexcute_core.simulator.actor import Actor
from hexcute_core.simulator.lanes.state import WARP
from hexcute_core.simulator.lanes.values import Array
from hexcute_core.simulator.memory.clocks import VectorClock

if TYPE_CHECKING:
    from hexcute_core.simulator.machine import Machine


class AsyncOperation(Actor):
    """Issued by `lanes` of machine `m` now; it is event `time` of `unit`."""

    clock: VectorClock

    def __init__(
        self, m: Machine, lanes: Sequence[int] | Array, unit: int, time: int, column: int = 0,
        in_order: bool = True,
    ) -> None:  # fmt: skip
        """With `in_order`, the unit's earlier events come before it."""
        self.world, self.sites, self.site = m.world, m.sites, m.site
        self.blocks, self.threads = m.blocks, m.threads
        self.block_of = np.zeros(1, dtype=np.int64)
        # Two events that meet are not one thread's.
        self.who = np.array([unit * WARP + time % WARP], dtype=np.int64)
        self.column = column
        self.unit, self.time = unit, time
        self._thread = m.thread(int(lanes[0]))
        self.clock = VectorClock(unit, 0, m.world.voices)
        self.clock.known = m.agent_clock.release(m.alone(lanes))
        self.clock.time = time
        m.world.adopt(self.clock)
        if in_order:
            self.clock.learn(unit, time - 1)

    def thread(self, lane: int) -> int:
        """The thread that issued it."""
        return self._thread

    def finish(self) -> None:
        """It touches nothing any more."""
        self.world.retire(self.clock)
