"""What moves bulk copies: a load fills shared memory and completes on its mbarrier, a store reads
shared memory and writes global memory, each at some time after it was issued."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from hexcute_core.errors import SourceSpan
from hexcute_core.simulator.engines import AsyncOperation
from hexcute_core.simulator.instructions.boxes import CHUNK, Box
from hexcute_core.simulator.lanes.values import Array, from_bytes, to_bytes
from hexcute_core.simulator.memory.clocks import AtomicKind

if TYPE_CHECKING:
    from hexcute_core.simulator.agents import BlockAgents
    from hexcute_core.simulator.instructions.mbarrier import MBarrier
    from hexcute_core.simulator.machine import Machine
    from hexcute_core.simulator.memory.buffers import GlobalBuffer


Combine: TypeAlias = Callable[[Array, Array], Array]


@dataclass(frozen=True)
class Move:
    """Accesses to `buffer`, and the shared byte address of each 16-byte chunk of them."""

    name: str
    buffer: GlobalBuffer
    box: Box
    chunks: Array


class LoadEngine:
    """A copy on its way to shared memory of block `group`."""

    def __init__(
        self, m: Machine, lane: int, group: BlockAgents, barrier: MBarrier, move: Move
    ) -> None:
        self.group = group
        self._move, self._barrier, self._phase = move, barrier, barrier.phase
        self._operation = op = AsyncOperation(m, [lane], barrier.unit, barrier.phase + 1)
        self._lanes = np.zeros(len(move.chunks), dtype=np.int64)
        self._landed = False
        arena = group.shared
        self._cells = arena.cells(op, self._lanes, move.chunks, CHUNK, move.name)
        arena.claim_async(op, self._lanes, self._cells, move.name)
        arena.hold(op, self._lanes, self._cells)

    @property
    def span(self) -> SourceSpan | None:
        """Where it was issued."""
        return self._operation.span

    def ready(self) -> bool:
        """Copies come in any order."""
        return True

    def happen(self) -> None:
        """The bytes come."""
        op, box, name = self._operation, self._move.box, self._move.name
        raw = np.zeros((len(box.address), box.size), dtype=np.uint8)
        inside = np.flatnonzero(box.inside)
        if len(inside):
            lanes = np.zeros(len(inside), dtype=np.int64)
            buffer, address = self._move.buffer, box.address[inside]
            buffer.need_fence(op, lanes, address, box.size, f"{name} reads")
            raw[inside] = buffer.load(op, lanes, address, box.size, name)
        chunks = raw.reshape(-1, CHUNK)
        arena = self.group.shared
        arena.fill(op, self._lanes, self._cells, chunks, op.site, name, proxy=0)
        self._landed = True
        if self._barrier.phase != self._phase:
            op.report(
                "transaction bytes",
                f"{box.bytes} bytes come to the mbarrier at shared byte {self._barrier.place} "
                f"after phase {self._phase}, for which they were issued, has completed",
                0,
                "expect the bytes of all copies of a phase",
                self._barrier.made,
            )
        self._barrier.complete(op, box.bytes)
        op.world.changes += 1
        op.finish()

    def unfinished(self) -> str | None:
        """What is wrong if the block ends now."""
        op = self._operation
        if self._landed and any(
            a.machine.agent_clock.knows(op.unit, op.time) for a in self.group.agents
        ):
            return None
        return f"{self._move.name} may still fill shared memory: nobody has waited for it"


class StoreEngine:
    """A copy on its way to global memory; `combine` is what is there and what comes.

    Its reads and its writes are event `number` of two units of the issuing warp, so that a thread
    may wait for the ones alone.
    """

    def __init__(self, m: Machine, lane: int, move: Move, combine: Combine | None) -> None:
        self.group = group = m.home
        self.number = group.next_event()
        self.done = self.waited = False
        self._move, self._combine = move, combine
        column = len(group.agents) + m.column
        self._reads = AsyncOperation(m, [lane], m.engine_unit("bulk.read"), self.number, column)
        unit = m.engine_unit("bulk.write")
        self._writes = AsyncOperation(m, [lane], unit, self.number, in_order=False)
        lanes = np.zeros(len(move.chunks), dtype=np.int64)
        self._cells = group.shared.cells(self._reads, lanes, move.chunks, CHUNK, move.name)
        group.shared.load_async(self._reads, lanes, self._cells, move.name)

    @property
    def span(self) -> SourceSpan | None:
        """Where it was issued."""
        return self._reads.span

    def ready(self) -> bool:
        """Stores happen in any order."""
        return True

    def happen(self) -> None:
        """The bytes are read and written."""
        box = self._move.box
        inside = np.flatnonzero(box.inside)
        raw = self.group.shared.data[self._cells].reshape(-1, box.size)[inside]
        if len(inside):
            self._write(np.zeros(len(inside), dtype=np.int64), box.address[inside], raw)
        self.done = True
        self._reads.world.changes += 1
        self._reads.finish()
        self._writes.finish()

    def _write(self, lanes: Array, address: Array, raw: Array) -> None:
        buffer, name, size = self._move.buffer, self._move.name, self._move.box.size
        buffer.need_fence(self._writes, lanes, address, size, f"{name} writes")
        if self._combine is not None:
            old = buffer.load(self._writes, lanes, address, size, name, "all")
            was, more = from_bytes(old, buffer.dtype), from_bytes(raw, buffer.dtype)
            raw = to_bytes(self._combine(was, more).astype(was.dtype), buffer.dtype)
        atomic: AtomicKind = "no" if self._combine is None else "all"
        buffer.store(self._writes, lanes, address, raw, name, atomic=atomic, generic=False)

    def unfinished(self) -> str | None:
        """What is wrong if the block ends now."""
        if self.waited:
            return None
        return f"{self._move.name} may still read shared memory: nobody has waited for it"


class AtBulkGroups:
    """A thread waits for its groups of stores."""

    def __init__(self, engines: list[StoreEngine], span: SourceSpan | None) -> None:
        self.span = span
        self._engines = engines

    def ready(self) -> bool:
        """Whether all have happened."""
        return all(engine.done for engine in self._engines)

    def describe(self) -> str:
        """What is waited for."""
        return f"waits for {sum(not e.done for e in self._engines)} bulk stores"
