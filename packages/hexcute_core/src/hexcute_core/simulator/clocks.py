"""a -> b: whether an access by one thread happens before another thread's, by vector clocks.

A tag packs who touched something (the thread's number in the launch), where (a site of the
source) and at which clock of its unit. Run in lockstep, a block is one unit whose clock counts
its barriers; as agents, each warp is a unit, and `known[u]` is the latest clock of unit u whose
accesses happen before what this warp does next. A barrier, or a release and the acquire that
reads it, hands that knowledge on.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from hexcute_core.errors import SimulationError
from hexcute_core.simulator.lanes import WARP, padded
from hexcute_core.simulator.values import Array

WHO_BITS, SITE_BITS = 30, 12
SITE_SHIFT = WHO_BITS
ATOMIC = 1 << (WHO_BITS + SITE_BITS)
MANY = ATOMIC << 1
NEAR = ATOMIC << 2
"""Of an atomic access: to the threads of its own block alone."""
CLOCK_SHIFT = WHO_BITS + SITE_BITS + 3
WHO_MASK = (1 << WHO_BITS) - 1
SITE_MASK = (1 << SITE_BITS) - 1
LAST = (1 << (63 - CLOCK_SHIFT)) - 1
"""The greatest clock that a tag can hold."""
AtomicKind = Literal["no", "block", "all"]
"""Whether an access is atomic: to no other, to those of its block, to all."""
MARKS: dict[AtomicKind, int] = {"no": 0, "block": ATOMIC | NEAR, "all": ATOMIC}
NEVER = 0
"""The tag of what nobody touched: clocks start at 1."""
UNFENCED = -1
"""In place of a clock: written by threads, and no fence since."""


def tags(clock: int | Array, site: int, who: Array) -> Array:
    """The tags of accesses at `site` by threads `who` [n]. Raises SimulationError beyond what a
    tag can hold, where a later access would be taken for an earlier one."""
    if np.max(clock, initial=0) > LAST:
        raise SimulationError(
            f"one warp meets others more than {LAST} times, more than the simulator can tell apart",
            fix="simulate fewer iterations, or fewer blocks at once: blocks=[(x, y, z), ...]",
        )
    tag: Array = (np.asarray(clock, dtype=np.int64) << CLOCK_SHIFT) | (site << SITE_SHIFT) | who
    return tag


def join(a: Array, b: Array) -> Array:
    """What is known from both of two releases."""
    wide = max(len(a), len(b))
    both: Array = np.maximum(np.pad(a, (0, wide - len(a))), np.pad(b, (0, wide - len(b))))
    return both


class BlockClock:
    """Lockstep: one clock a block, all of its threads at the same place."""

    def __init__(self, block_of: Array, first: int, threads: int) -> None:
        self.epoch = np.ones(len(block_of), dtype=np.int64)
        self._block = block_of + first
        self._stride = padded(threads)

    def now(self, lanes: Array) -> Array:
        """The clock of each of `lanes`."""
        at: Array = self.epoch[lanes]
        return at

    def unordered(self, lanes: Array, tag: Array, across: bool) -> Array:
        """Where the accesses `tag` [n, ...] are not known to come before `lanes` [n];
        `across` where they may be another block's."""
        shape = (-1,) + (1,) * (tag.ndim - 1)
        late: Array = tag >> CLOCK_SHIFT >= self.epoch[lanes].reshape(shape)
        if across:
            apart: Array = late | (~self.own(lanes, tag) & (tag != NEVER))
            return apart
        return late

    def own(self, lanes: Array, tag: Array) -> Array:
        """Where the accesses `tag` [n, ...] are by the unit, here the block, of `lanes` [n]."""
        shape = (-1,) + (1,) * (tag.ndim - 1)
        same: Array = (tag & WHO_MASK) // self._stride == self._block[lanes].reshape(shape)
        return same


class VectorClock:
    """An agent's clock: its own time, and what it knows of every unit.

    `seen` is what relaxed reads showed it, known after its next fence; `fenced` what it knew at
    its last fence, which its relaxed writes hand over. Fences of the block alone reach no further:
    `seen_near` and `fenced_near` are what passes between the threads of one block.
    """

    def __init__(self, unit: int, units: int) -> None:
        self.unit = unit
        self.time = 1
        self.known = np.zeros(units, dtype=np.int64)
        self.seen = np.zeros(0, dtype=np.int64)
        self.fenced = np.zeros(0, dtype=np.int64)
        self.seen_near = np.zeros(0, dtype=np.int64)
        self.fenced_near = np.zeros(0, dtype=np.int64)

    def now(self, lanes: Array) -> int:
        """The agent's time, the same for its lanes."""
        return self.time

    def unordered(self, lanes: Array, tag: Array, across: bool) -> Array:
        """As for BlockClock."""
        late: Array = tag >> CLOCK_SHIFT > self.known[(tag & WHO_MASK) // WARP]
        return late

    def own(self, lanes: Array, tag: Array) -> Array:
        """As for BlockClock; the unit is the warp, or the engine."""
        same: Array = (tag & WHO_MASK) // WARP == self.unit
        return same

    def release(self) -> Array:
        """What a reader of this moment may know; later accesses are not in it."""
        shown: Array = self.known.copy()
        shown[self.unit] = self.time
        self.time += 1
        return shown

    def acquire(self, shown: Array) -> None:
        """Takes over what a release gave."""
        part = self.known[: len(shown)]
        np.maximum(part, shown, out=part)

    def copy(self) -> VectorClock:
        """The clock as it is now."""
        now = VectorClock(self.unit, 0)
        now.time, now.known = self.time, self.known.copy()
        now.known[self.unit] = self.time
        return now

    def knows(self, unit: int, time: int) -> bool:
        """Whether what `unit` did at its clock `time` is known to be over."""
        return unit < len(self.known) and bool(self.known[unit] >= time)

    def learn(self, unit: int, time: int) -> None:
        """What `unit` did up to its clock `time` comes before what follows."""
        self.known[unit] = max(int(self.known[unit]), time)

    def grow(self, units: int) -> None:
        """Makes room for units that came later."""
        self.known = np.pad(self.known, (0, units - len(self.known)))
