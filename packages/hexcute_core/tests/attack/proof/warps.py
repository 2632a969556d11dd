"""Warp = strands of lanes, each with what it has learnt (`heard`) and what it has yet to tell.

Lanes of a warp that always execute together are one strand; what strands, and lanes of one strand,
do is ordered between them by barriers alone. A strand tells (`tell`) what its lanes did and heard
before; it hears (`hear`) what others told. What lies between is neither told earlier nor heard
later: no path leads from one lane's access through a wait to another lane's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from attack.proof.graph import Graph
from attack.proof.trace import Event
from hexcute_core.simulator.lanes.values import Array


class Unproved(Exception):
    """Something in a trace is not, or cannot be shown to be, as it must be."""


@dataclass
class Strand:
    """Lanes of a warp: `heard` is the node behind all that they know, `did` what they did since
    they last told, `told` where they did, `tested` the last wait that they have passed."""

    name: tuple[int, int, int]
    lanes: tuple[int, ...]
    heard: int
    did: list[int] = field(default_factory=list)
    told: list[int] = field(default_factory=list)
    tested: list[int] = field(default_factory=list)


@dataclass
class Access:
    """Bytes that lanes, or an engine for them, read or write.

    It happens behind all of `starts` and before `end` (None: nothing says that it is over). Its
    `lanes` [n, k] touch granules `cells` [n, k], a lane -1 where it speaks for nobody; `first` and
    `last` are where it began and was over in its warp's order.
    """

    what: str
    space: tuple[str, object]
    strand: Strand
    writes: bool
    proxy: str
    cells: Array
    lanes: Array
    starts: list[int]
    first: int
    end: int | None = None
    last: int | None = None
    atomic: bool = False


@dataclass(frozen=True)
class Fence:
    """A proxy fence of a kind by a strand, at a place in its warp's order."""

    kind: str
    strand: Strand
    at: int
    node: int


class Warp:
    """One warp's events, how far it has come, and its strands."""

    def __init__(self, graph: Graph, block: int, number: int, events: list[Event]) -> None:
        self.graph, self.block, self.number, self.events = graph, block, number, events
        self.at = 0
        self.entry = graph.node()
        lanes = range(32)
        marks: list[tuple[bool, ...]] = [() for _ in lanes]
        for mask in sorted(set(masks(events)), key=sorted):
            marks = [(*mark, lane in mask) for lane, mark in zip(lanes, marks, strict=True)]
        found: dict[tuple[bool, ...], list[int]] = {}
        for lane, mark in zip(lanes, marks, strict=True):
            found.setdefault(mark, []).append(lane)
        self.strands = [
            Strand((block, number, i), tuple(part), self.entry)
            for i, part in enumerate(found.values())
        ]

    @property
    def event(self) -> Event:
        """What it executes next."""
        return self.events[self.at]

    @property
    def ended(self) -> bool:
        """Whether it has executed everything."""
        return self.at == len(self.events)

    def of(self, lanes: Iterable[int]) -> list[Strand]:
        """The strands of these lanes, which are whole."""
        wanted = set(lanes)
        return [strand for strand in self.strands if wanted.issuperset(strand.lanes)]

    def do(self, strand: Strand) -> int:
        """Lanes of a strand do something now."""
        node = self.graph.node([strand.heard])
        strand.did.append(node)
        return node

    def tell(self, strand: Strand) -> int:
        """The lanes of a strand tell all that they did and heard."""
        node = self.graph.node([strand.heard, *strand.did, *strand.told])
        strand.did.clear()
        strand.told[:] = [node]
        return node

    def hear(self, strand: Strand, sees: Iterable[int], after: Iterable[int] = ()) -> None:
        """The lanes of a strand learn."""
        strand.heard = self.graph.node([strand.heard, *sees], after)

    def index(self, event: Event, lanes: Iterable[int]) -> Array:
        """Where in the event's lanes these stand."""
        wanted = set(lanes)
        return np.flatnonzero([lane in wanted for lane in event.lanes])


def masks(events: list[Event]) -> Iterable[frozenset[int]]:
    """The sets of lanes that execute something together, or name one barrier."""
    for event in events:
        yield frozenset(event.lanes)
        if event.values and "mbarrier" in event.name:
            for rows in together(event):
                yield frozenset(event.lanes[row] for row in rows)


def together(event: Event) -> list[Array]:
    """The positions of the lanes that name the same numbers."""
    table = np.stack([np.asarray(value) for value in event.values], axis=1)
    rows, which = np.unique(table, axis=0, return_inverse=True)
    return [np.flatnonzero(which.reshape(-1) == i) for i in range(len(rows))]
