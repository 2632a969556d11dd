"""a -> b: whether an access by one thread happens before another thread's, by vector clocks.

A tag packs who touched something (the thread's number in the launch), where (a site of the
source) and at which clock of its unit. Run in lockstep, a block is one unit whose clock counts
its barriers; as agents, each warp is a unit, and `known[u]` is the latest clock of unit u whose
accesses happen before what this warp does next. A barrier, or a release and the acquire that
reads it, hands that knowledge on; where some lanes of a warp do so without the others, theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import numpy as np

from hexcute_core.errors import SimulationError
from hexcute_core.simulator.lanes.state import WARP, padded
from hexcute_core.simulator.lanes.values import Array

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
LANDED = -2
"""The same of copies that arrived at a barrier by themselves: whoever waited there has to fence."""

Lanes: TypeAlias = "Sequence[int] | None"
"""Lanes of a warp that do something without the others; None where all of them do it."""


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
    short, wide = sorted((a, b), key=len)
    both: Array = wide.copy()
    np.maximum(both[: len(short)], short, out=both[: len(short)])
    return both


class BlockClock:
    """Lockstep: one clock per block, all of its threads at the same place."""

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


class Voices:
    """A unit of its own for every thread that releases by itself, apart from its warp; `nobody` is
    the unit of all others, of which nothing is ever known."""

    def __init__(self, threads: int, nobody: int, new_unit: Callable[[], int]) -> None:
        self._nobody, self._new_unit = nobody, new_unit
        self._units = np.full(threads + 1, nobody, dtype=np.int64)
        self.all: list[int] = []

    def unit(self, who: int) -> int:
        """The unit of thread `who` of the launch."""
        if self._units[who] == self._nobody:
            self._units[who] = self._new_unit()
            self.all.append(int(self._units[who]))
        return int(self._units[who])

    def of(self, who: Array) -> Array | None:
        """The units of `who`, which may be engines; None where no thread has one."""
        if not self.all:
            return None
        units: Array = self._units[np.minimum(who, len(self._units) - 1)]
        return units


class Relaxed:
    """What passes through relaxed accesses, by lane, under None for all lanes: `seen` is what reads
    showed, known after the next fence; `fenced` the clock at the last fence, of which writes hand
    over what it knew."""

    def __init__(self) -> None:
        self._seen: dict[int | None, Array] = {}
        self._fenced: dict[int | None, VectorClock] = {}

    def read(self, shown: Array, lanes: Lanes) -> None:
        """`lanes` have read a flag that shows this."""
        for lane in (None,) if lanes is None else lanes:
            self._seen[lane] = join(self._seen.get(lane, shown), shown)

    def acquire(self, clock: VectorClock, lanes: Lanes) -> None:
        """`lanes` execute a fence: what they have read becomes known."""
        for lane, shown in self._seen.items():
            if lane is None:
                clock.acquire(shown, lanes)
            elif lanes is None or lane in lanes:
                clock.acquire(shown, [lane])

    def fence(self, clock: VectorClock, lanes: Lanes) -> None:
        """What `lanes` hand over from now on is what `clock`, a copy, knew."""
        if lanes is None:
            self._fenced.clear()
        self._fenced.update(dict.fromkeys((None,) if lanes is None else lanes, clock))

    def hands(self, lanes: Lanes) -> Array:
        """What a relaxed write by `lanes` hands over."""
        shown: Array = np.zeros(0, dtype=np.int64)
        whole = self._fenced.get(None)
        for lane in (None,) if lanes is None else lanes:
            clock = self._fenced.get(lane, whole)
            if clock is not None:
                shown = join(shown, clock.shows(None if lane is None else [lane]))
        return shown


class VectorClock:
    """An agent's clock: its own time, and what it knows of every unit.

    `known` is what all of its lanes know. What some lanes did alone is another matter: `apart` is
    what such a lane has learnt by itself, until the lanes meet, and a lane that releases by itself
    hands on its own accesses, under a unit of its own (`Voices`), and of the other lanes' only
    those before they met.
    """

    def __init__(self, unit: int, units: int, voices: Voices | None = None) -> None:
        self.unit = unit
        self.time = 1
        self.known = np.zeros(units, dtype=np.int64)
        self.apart: dict[int, Array] = {}
        self.far, self.near = Relaxed(), Relaxed()
        self.voices = voices

    def now(self, lanes: Array) -> int:
        """The agent's time, the same for its lanes."""
        return self.time

    def unordered(self, lanes: Array, tag: Array, across: bool) -> Array:
        """As for BlockClock."""
        clock, who = tag >> CLOCK_SHIFT, tag & WHO_MASK
        late: Array = clock > self.known[who // WARP]
        if not late.any():
            return late
        alone = None if self.voices is None else self.voices.of(who)
        if alone is not None:
            late &= clock > self.known[alone]
        for row, lane in enumerate(lanes) if self.apart else ():
            own = self.apart.get(int(lane))
            if own is not None:
                late[row] &= clock[row] > own[who[row] // WARP]
                if alone is not None:
                    late[row] &= clock[row] > own[alone[row]]
        return late

    def own(self, lanes: Array, tag: Array) -> Array:
        """As for BlockClock; the unit is the warp, or the engine."""
        same: Array = (tag & WHO_MASK) // WARP == self.unit
        return same

    def speaks(self, lanes: Lanes = None) -> tuple[int, ...]:
        """The units under which `lanes` hand on what they did; None for all lanes."""
        if lanes is None or self.voices is None:
            return (self.unit,)
        return tuple(self.voices.unit(self.unit * WARP + int(lane)) for lane in lanes)

    def shows(self, lanes: Lanes = None) -> Array:
        """What `lanes` know, and did until now."""
        units = list(self.speaks(lanes))
        room = max(0, max(units) + 1 - len(self.known))
        shown: Array = np.pad(self.known, (0, room)) if room else self.known.copy()
        for lane, own in self.apart.items():
            if lanes is None or lane in lanes:
                shown = join(shown, own)
        shown[units] = self.time
        return shown

    def release(self, lanes: Lanes = None) -> Array:
        """What a reader of this moment may know of `lanes`; later accesses are not in it."""
        shown = self.shows(lanes)
        self.time += 1
        return shown

    def acquire(self, shown: Array, lanes: Lanes = None) -> None:
        """`lanes`, all if None, take over what a release gave."""
        if lanes is None:
            part = self.known[: len(shown)]
            np.maximum(part, shown, out=part)
            return
        for lane in lanes:
            own = self.apart.setdefault(int(lane), np.zeros(len(self.known), dtype=np.int64))
            part = own[: len(shown)]
            np.maximum(part, shown, out=part)

    def meet(self) -> None:
        """The lanes have met: each knows what any of them knew and did."""
        self.acquire(self.release())
        self.apart.clear()

    def copy(self) -> VectorClock:
        """The clock as it is now."""
        now = VectorClock(self.unit, 0, self.voices)
        now.time, now.known = self.time, self.known.copy()
        now.apart = {lane: own.copy() for lane, own in self.apart.items()}
        return now

    def knows(self, unit: int, time: int) -> bool:
        """Whether what `unit` did at its clock `time` is known, to any lane, to be over."""
        views = (self.known, *self.apart.values())
        return any(unit < len(view) and bool(view[unit] >= time) for view in views)

    def heard_of(self, units: Array, lanes: Lanes = None) -> bool:
        """Whether each of `lanes` knows of anything that one of `units` did."""
        if self.known[units].any():
            return True
        heard = {lane for lane, own in self.apart.items() if own[units].any()}
        return lanes is not None and heard.issuperset(lanes)

    def learn(self, unit: int, time: int, lanes: Lanes = None) -> None:
        """What `unit` did up to its clock `time` comes before what `lanes` do from now on."""
        shown = np.zeros(unit + 1, dtype=np.int64)
        shown[unit] = time
        self.acquire(shown, lanes)

    def grow(self, units: int) -> None:
        """Makes room for units that came later."""
        self.known = np.pad(self.known, (0, units - len(self.known)))
        for lane, own in self.apart.items():
            self.apart[lane] = np.pad(own, (0, units - len(own)))
