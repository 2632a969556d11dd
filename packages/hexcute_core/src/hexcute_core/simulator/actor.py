"""Actor = whoever touches memory: lanes with an identity, a clock, and a place in the source."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from hexcute_core.errors import SourceSpan
from hexcute_core.simulator.findings import Finding, Kind, RunEnds
from hexcute_core.simulator.lanes.state import Block
from hexcute_core.simulator.lanes.values import Array
from hexcute_core.simulator.memory.clocks import BlockClock, Lanes, VectorClock

if TYPE_CHECKING:
    from hexcute_core.simulator.world import World


class Actor(ABC):
    """What memory must know of whoever accesses it.

    Lane i is number `who[i]` of the launch and belongs to block `block_of[i]` of `blocks`;
    `column` is where its reads of shared memory are kept.
    """

    world: World
    clock: BlockClock | VectorClock
    site: int
    sites: Sequence[SourceSpan | None]
    who: Array
    blocks: tuple[Block, ...]
    block_of: Array
    threads: int
    column: int

    def alone(self, lanes: Sequence[int] | Array) -> Lanes:
        """`lanes` where they are only a part of the agent's warp, else None."""
        return None if len(lanes) == len(self.who) else [int(lane) for lane in lanes]

    @property
    def span(self) -> SourceSpan | None:
        """Where the running statement was written."""
        return self.sites[self.site]

    @abstractmethod
    def thread(self, lane: int) -> int:
        """The thread of its block that a lane is, or acts for."""

    def report(
        self,
        kind: Kind,
        message: str,
        lane: int | None = None,
        fix: str | None = None,
        other: SourceSpan | None = None,
    ) -> None:
        """A finding of the running statement, which goes on where findings are collected."""
        block = thread = None
        if lane is not None:
            block, thread = self.blocks[int(self.block_of[lane])], self.thread(lane)
            message = f"{message} [block {block} thread {thread}]"
        found = Finding(kind, message, self.span, other, fix, block, thread, self.world.seed)
        self.world.findings.add(found)

    def stop(
        self,
        kind: Kind,
        message: str,
        lane: int | None = None,
        fix: str | None = None,
        other: SourceSpan | None = None,
    ) -> NoReturn:
        """A finding after which the run cannot go on."""
        self.report(kind, message, lane, fix, other)
        raise RunEnds
