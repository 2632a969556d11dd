"""TMA: boxes between global and shared memory, moved by an engine.

A load fills its bytes at some time after it was issued and then completes them on its mbarrier.
Stores and reductions read shared memory at some time after they were issued; `tma.commit` closes
a thread's group of them, `tma.wait.read n` waits until all but the n latest groups have read
their source, `tma.wait n` until they have written. A block may not end before its sources are
known to have been read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hexcute_core.errors import SimulationError, SourceSpan
from hexcute_core.simulator.boxes import CHUNK, Box, box_at, shared_chunks
from hexcute_core.simulator.code import Code, Routine, Step, Waits, then_pause
from hexcute_core.simulator.engines import AsyncOperation
from hexcute_core.simulator.instructions import Instruction
from hexcute_core.simulator.mbarrier import MBarrier, check_published, find_mbarrier, touch
from hexcute_core.simulator.operands import lanes_of, scalar_operand, shared_operand
from hexcute_core.simulator.scalars import Evaluate, compile_scalar
from hexcute_core.simulator.values import Array, from_bytes, to_bytes
from hexcute_core.thread import MapRef, Prim, TensorMap

if TYPE_CHECKING:
    from hexcute_core.simulator.agents import BlockAgents
    from hexcute_core.simulator.machine import Machine
    from hexcute_core.simulator.statements import StatementCompiler

ALIGNMENT = 128


class BoxOperand:
    """A `MapRef` made ready."""

    def __init__(self, stmt: Prim, index: int) -> None:
        operand = stmt.operands[index] if index < len(stmt.operands) else None
        if not isinstance(operand, MapRef):
            raise SimulationError(f"operand {index} of {stmt.name} must be a box", stmt.span)
        self.name = operand.name
        self._coords: list[Evaluate] = [compile_scalar(c) for c in operand.coords]

    def map(self, m: Machine) -> TensorMap:
        """The tensor map."""
        found = m.world.maps.get(self.name)
        if found is None:
            m.fail(f"{self.name} is not a tensor map of the program")
        return found

    def box(self, m: Machine, lane: int) -> Box:
        """The box of one lane, its tensor's alignment checked."""
        tensor_map = self.map(m)
        buffer, extents = m.buffers[tensor_map.param], m.world.extents[tensor_map.param]
        element = buffer.dtype.bits // 8
        if buffer.base or any((n * element) % 16 for n in extents[-1:] if len(extents) > 1):
            m.stop(
                "misaligned access",
                f"{tensor_map.param} of shape {extents} has no tensor map: its address and rows "
                f"must be multiples of 16 bytes",
                lane,
            )
        one = np.array([lane])
        coords = tuple(int(lanes_of(c(m), one)[0]) for c in self._coords)
        return box_at(tensor_map, buffer, extents, coords)


class LoadEngine:
    """A box on its way to shared memory."""

    def __init__(
        self, m: Machine, group: BlockAgents, barrier: MBarrier, operand: BoxOperand, box: Box,
        start: int, name: str, lane: int,
    ) -> None:  # fmt: skip
        self.group, self.box, self.name = group, box, name
        self._barrier, self._phase = barrier, barrier.phase
        self._operation = AsyncOperation(m, lane, barrier.unit, barrier.phase + 1)
        tensor_map = operand.map(m)
        self._buffer = m.buffers[tensor_map.param]
        places = shared_chunks(start, box, tensor_map.swizzle)
        self._lanes = np.zeros(len(places), dtype=np.int64)
        self._landed = False
        arena, op = group.shared, self._operation
        self._cells = arena.cells(op, self._lanes, places, CHUNK, name)
        arena.claim(op, self._lanes, self._cells, name, None)
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
        op, box, arena = self._operation, self.box, self.group.shared
        raw = np.zeros((len(box.address), box.size), dtype=np.uint8)
        inside = np.flatnonzero(box.inside)
        if len(inside):
            lanes = np.zeros(len(inside), dtype=np.int64)
            raw[inside] = self._buffer.load(op, lanes, box.address[inside], box.size, self.name)
        chunks = raw.reshape(-1, CHUNK)
        arena.fill(op, self._lanes, self._cells, chunks, op.site, self.name, generic=False)
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
        return None if self._landed else f"{self.name} still fills shared memory"


class StoreEngine:
    """A box on its way to global memory, and the two events that a thread may wait for."""

    def __init__(
        self, m: Machine, group: BlockAgents, operand: BoxOperand, box: Box, start: int, name: str,
        lane: int, adds: bool,
    ) -> None:  # fmt: skip
        self.group, self.box, self.name = group, box, name
        self.done = self.waited = False
        self.number = group.next_event()
        self._adds = adds
        warps = len(group.agents)
        self._reads = AsyncOperation(
            m, lane, m.engine_unit("bulk.read"), self.number, warps + m.column
        )
        self._writes = AsyncOperation(m, lane, m.engine_unit("bulk.write"), self.number)
        tensor_map = operand.map(m)
        self._buffer = m.buffers[tensor_map.param]
        places = shared_chunks(start, box, tensor_map.swizzle)
        self._lanes = np.zeros(len(places), dtype=np.int64)
        self._cells = group.shared.cells(self._reads, self._lanes, places, CHUNK, name)
        group.shared.load_async(self._reads, self._lanes, self._cells, name)

    @property
    def span(self) -> SourceSpan | None:
        """Where it was issued."""
        return self._reads.span

    def ready(self) -> bool:
        """Stores happen in any order."""
        return True

    def happen(self) -> None:
        """The bytes are read and written."""
        inside = np.flatnonzero(self.box.inside)
        raw = self.group.shared.data[self._cells].reshape(-1, self.box.size)[inside]
        if len(inside):
            lanes, address = np.zeros(len(inside), dtype=np.int64), self.box.address[inside]
            op, buffer = self._writes, self._buffer
            if self._adds:
                old = from_bytes(buffer.load(op, lanes, address, self.box.size, self.name, True),
                                 buffer.dtype)  # fmt: skip
                total = (old + from_bytes(raw, buffer.dtype)).astype(old.dtype)
                raw = to_bytes(total, buffer.dtype)
            buffer.store(op, lanes, address, raw, self.name, self._adds)
        self.done = True
        self._reads.world.changes += 1
        self._reads.finish()
        self._writes.finish()

    def unfinished(self) -> str | None:
        """What is wrong if the block ends now."""
        if self.waited:
            return None
        return f"{self.name} may still read shared memory: nobody has waited for it"


def load(stmt: Prim, compiler: StatementCompiler) -> Code:
    """`tma.load dst, box, mbarrier` and `tma.load.multicast dst, box, mbarrier, mask`."""
    compiler.require_agents()
    dst, operand, where = shared_operand(stmt, 0), BoxOperand(stmt, 1), shared_operand(stmt, 2)
    mask = scalar_operand(stmt, 3) if stmt.name.endswith("multicast") else None
    site, name = compiler.site(stmt.span), stmt.name

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        lanes = m.active()
        starts, places = dst(m, lanes), where(m, lanes)
        _check_start(m, lanes, starts, name)
        touch(m, lanes, places, name)
        masks = None if mask is None else lanes_of(mask(m), lanes)
        for i, lane in enumerate(int(x) for x in lanes):
            box = operand.box(m, lane)
            m.tally.moved(name, site, int(box.inside.sum()) * box.size)
            for group in _targets(m, None if masks is None else int(masks[i])):
                barrier = find_mbarrier(m, int(places[i]), group)
                check_published(m, barrier, name)
                engine = LoadEngine(m, group, barrier, operand, box, int(starts[i]), name, lane)
                m.start_engine(engine)

    return then_pause(run)


def _check_start(m: Machine, lanes: Array, starts: Array, name: str) -> None:
    crooked = starts % ALIGNMENT != 0
    if crooked.any():
        which = int(np.flatnonzero(crooked)[0])
        m.stop(
            "misaligned access",
            f"{name} of a box at shared byte {int(starts[which])}, which must be a multiple of "
            f"{ALIGNMENT}",
            int(lanes[which]),
        )


def _targets(m: Machine, mask: int | None) -> list[BlockAgents]:
    """The blocks that a load fills."""
    home = m.home
    if mask is None:
        return [home]
    ranks = [rank for rank in range(mask.bit_length()) if mask >> rank & 1]
    if not ranks or ranks[-1] >= len(home.cluster):
        m.stop(
            "out of bounds",
            f"the multicast mask {mask:#x} names blocks outside the cluster of {len(home.cluster)}",
            int(m.active()[0]),
        )
    return [home.cluster[rank] for rank in ranks]


def store(stmt: Prim, compiler: StatementCompiler) -> Code:
    """`tma.store box, src` and `tma.reduce.add box, src`."""
    compiler.require_agents()
    operand, src = BoxOperand(stmt, 0), shared_operand(stmt, 1)
    site, name, adds = compiler.site(stmt.span), stmt.name, stmt.name.startswith("tma.reduce")

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        lanes = m.active()
        starts = src(m, lanes)
        _check_start(m, lanes, starts, name)
        for i, lane in enumerate(int(x) for x in lanes):
            box = operand.box(m, lane)
            m.tally.moved(name, site, int(box.inside.sum()) * box.size)
            engine = StoreEngine(m, m.home, operand, box, int(starts[i]), name, lane, adds)
            m.start_engine(engine)
            m.bulk_open.setdefault(lane, []).append(engine)

    return then_pause(run)


def commit(stmt: Prim, compiler: StatementCompiler) -> Step:
    """`tma.commit`: closes each lane's group of stores."""
    compiler.require_agents()
    site, name = compiler.site(stmt.span), stmt.name

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        for lane in (int(x) for x in m.active()):
            m.bulk_groups.setdefault(lane, []).append(tuple(m.bulk_open.pop(lane, [])))

    return run


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


def wait(stmt: Prim, compiler: StatementCompiler) -> Routine:
    """`tma.wait n` and `tma.wait.read n`."""
    compiler.require_agents()
    pending, site, name = scalar_operand(stmt, 0), compiler.site(stmt.span), stmt.name
    units = ("bulk.read",) if name.endswith(".read") else ("bulk.read", "bulk.write")

    def start(m: Machine) -> Waits:
        m.site = site
        m.count(name)
        engines: list[StoreEngine] = []
        lanes = m.active()
        for lane, keep in zip(lanes, lanes_of(pending(m), lanes), strict=True):
            groups = m.bulk_groups.get(int(lane), [])
            for group in groups[: max(0, len(groups) - int(keep))]:
                engines += group
        yield AtBulkGroups(engines, m.span)
        for engine in engines:
            engine.waited = True
            for unit in units:
                m.agent_clock.learn(m.engine_unit(unit), engine.number)

    return Routine(start)


def prefetch(stmt: Prim, compiler: StatementCompiler) -> Step:
    """`tma.prefetch box`: nothing that can be seen."""
    BoxOperand(stmt, 0)
    site, name = compiler.site(stmt.span), stmt.name

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)

    return run


_LOADS = ("tma.load", "tma.load.multicast")
_STORES = ("tma.store", "tma.reduce.add")
_WAITS = ("tma.wait", "tma.wait.read")


def instruction(name: str) -> Instruction | None:
    """Bulk tensor copies."""
    if name in _LOADS:
        return Instruction(load, shared=16, global_=16)
    if name in _STORES:
        return Instruction(store, shared=16, global_=16, writes=True)
    if name in _WAITS:
        return Instruction(wait)
    return {"tma.commit": Instruction(commit), "tma.prefetch": Instruction(prefetch)}.get(name)
