"""TMA and bulk copies: boxes of tensors, or contiguous bytes, moved by an engine.

A load fills its bytes at some time after it was issued and then completes them on its mbarrier.
Stores and reductions read shared memory at some time after they were issued; `tma.commit` closes
a thread's group of them, `tma.wait.read n` waits until all but the n latest groups have read
their source, `tma.wait n` until they have written. A block may not end before its sources are
known to have been read. Hints on what leaves L2 first change nothing that can be seen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from hexcute_core.arch.boxes import HINTS
from hexcute_core.errors import SimulationError
from hexcute_core.simulator.code import Code, Routine, Step, Waits, then_pause
from hexcute_core.simulator.instructions.boxes import CHUNK, Box, box_at, shared_chunks
from hexcute_core.simulator.instructions.bulk_engines import (
    AtBulkGroups,
    LoadEngine,
    Move,
    StoreEngine,
)
from hexcute_core.simulator.instructions.instruction import Instruction
from hexcute_core.simulator.instructions.mbarrier import check_published, find_mbarrier, touch
from hexcute_core.simulator.instructions.operands import (
    global_operand,
    lanes_of,
    scalar_operand,
    shared_operand,
)
from hexcute_core.simulator.lanes.scalars import compile_scalar
from hexcute_core.simulator.lanes.values import Array
from hexcute_core.thread import MapRef, Prim, TensorMap

if TYPE_CHECKING:
    from hexcute_core.simulator.agents import BlockAgents
    from hexcute_core.simulator.machine import Machine
    from hexcute_core.simulator.statements import StatementCompiler

BOX_ALIGNMENT = 128
MoveOf: TypeAlias = "Callable[[Machine, Array], list[Move]]"
"""The moves of the executing lanes [n], one each."""


class Stores:
    """The stores that each lane has issued: those of its open group, and its closed groups."""

    def __init__(self, m: Machine) -> None:
        self.open: dict[int, list[StoreEngine]] = {}
        self.groups: dict[int, list[tuple[StoreEngine, ...]]] = {}


def _corners(stmt: Prim, box_index: int) -> Callable[[Machine, Array], tuple[TensorMap, Array]]:
    """The tensor map of a box operand, and the corners (n, rank) of the executing lanes' boxes, as
    far as TMA takes them."""
    operand = stmt.operands[box_index] if box_index < len(stmt.operands) else None
    if not isinstance(operand, MapRef):
        raise SimulationError(f"operand {box_index} of {stmt.name} must be a box", stmt.span)
    map_name, name = operand.name, stmt.name
    places = [compile_scalar(c) for c in operand.coords]

    def corners(m: Machine, lanes: Array) -> tuple[TensorMap, Array]:
        tensor_map = m.world.maps.get(map_name)
        if tensor_map is None:
            m.fail(f"{map_name} is not a tensor map of the program")
        buffer = m.buffers[tensor_map.param]
        extents, strides = m.world.mapped[tensor_map.param].axes(tensor_map)
        size = max(8, buffer.dtype.bits) // 8
        # The stride of a dimension with one element is never taken.
        steps = [s for s, e in zip(strides[:-1], extents) if e > 1 or not tensor_map.dims]
        if buffer.base or any(step * size % CHUNK for step in steps):
            m.stop(
                "misaligned access",
                f"{tensor_map.param} of shape {tuple(extents)} has no tensor map: its address and "
                f"strides must be multiples of {CHUNK} bytes",
                int(lanes[0]),
            )
        coords = np.stack([lanes_of(c(m), lanes) for c in places], axis=1)
        _check_corners(m, lanes, coords, name, max(8, buffer.dtype.bits))
        return tensor_map, coords

    return corners


def _box_moves(stmt: Prim, box_index: int, shared_index: int) -> MoveOf:
    """Of a box of a tensor map and where it lies in shared memory."""
    corners, where, name = _corners(stmt, box_index), shared_operand(stmt, shared_index), stmt.name

    def moves(m: Machine, lanes: Array) -> list[Move]:
        tensor_map, coords = corners(m, lanes)
        buffer, tensor = m.buffers[tensor_map.param], m.world.mapped[tensor_map.param]
        starts = where(m, lanes)
        _check_alignment(m, lanes, starts, BOX_ALIGNMENT, name)
        out = []
        for start, at in zip(starts, coords, strict=True):
            box = box_at(tensor_map, buffer, tensor, tuple(int(c) for c in at))
            chunks = shared_chunks(int(start), box, tensor_map.swizzle)
            out.append(Move(name, buffer, box, chunks))
        return out

    return moves


def _check_corners(m: Machine, lanes: Array, coords: Array, name: str, bits: int) -> None:
    """A box may be read from a corner with negative coordinates, not written there (CUDA C++
    Programming Guide, "Tensor memory access"); it begins at a multiple of 16 bytes of a row, as an
    H200 shows, where any other is an illegal instruction."""
    before = np.any(coords < 0, axis=1)
    if name.startswith(("tma.store", "tma.reduce")) and before.any():
        m.stop(
            "out of bounds",
            f"{name} of a box from {_corner(coords, before)}: what TMA writes may not begin before "
            "its tensor",
            int(lanes[before][0]),
        )
    within = coords[:, -1] * bits % (CHUNK * 8) != 0
    if within.any():
        m.stop(
            "misaligned access",
            f"{name} of a box from {_corner(coords, within)}: TMA begins at multiples of {CHUNK} "
            "bytes of a row",
            int(lanes[within][0]),
        )


def _corner(coords: Array, wrong: Array) -> tuple[int, ...]:
    """The first corner that is wrong."""
    return tuple(int(c) for c in coords[wrong][0])


def _byte_moves(stmt: Prim, global_index: int, shared_index: int) -> MoveOf:
    """Of contiguous bytes, whose number is operand 2."""
    pointer, where = global_operand(stmt, global_index), shared_operand(stmt, shared_index)
    count, name = scalar_operand(stmt, 2), stmt.name

    def moves(m: Machine, lanes: Array) -> list[Move]:
        buffer, addresses = pointer(m, lanes)
        starts, counts = where(m, lanes), lanes_of(count(m), lanes)
        for what in (starts, counts, addresses + buffer.base):
            _check_alignment(m, lanes, what, CHUNK, name)
        out = []
        for start, address, size in zip(starts, addresses, counts, strict=True):
            steps = np.arange(0, int(size), CHUNK, dtype=np.int64)
            box = Box(CHUNK, address + steps, np.ones(len(steps), dtype=np.bool_))
            out.append(Move(name, buffer, box, start + steps))
        return out

    return moves


def _check_alignment(m: Machine, lanes: Array, value: Array, align: int, name: str) -> None:
    crooked = value % align != 0
    if crooked.any():
        which = int(np.flatnonzero(crooked)[0])
        m.stop(
            "misaligned access",
            f"{name} with {int(value[which])} where a multiple of {align} is needed",
            int(lanes[which]),
        )


def _load(stmt: Prim, compiler: StatementCompiler, moves: MoveOf, barrier: int) -> Code:
    """A load that completes on the mbarrier that operand `barrier` is."""
    compiler.require_agents()
    where = shared_operand(stmt, barrier)
    mask = scalar_operand(stmt, 3) if ".multicast" in stmt.name else None
    site, name = compiler.site(stmt.span), stmt.name

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        lanes = m.active()
        places = where(m, lanes)
        touch(m, lanes, places, name)
        masks = None if mask is None else lanes_of(mask(m), lanes)
        for i, move in enumerate(moves(m, lanes)):
            m.tally.moved(name, site, int(move.box.inside.sum()) * move.box.size)
            for group in _targets(m, None if masks is None else int(masks[i])):
                found = find_mbarrier(m, int(places[i]), group)
                check_published(m, found, name)
                m.start_engine(LoadEngine(m, int(lanes[i]), group, found, move))

    return then_pause(run)


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


def _store(stmt: Prim, compiler: StatementCompiler, moves: MoveOf) -> Code:
    """A store or a reduction, of the thread's open group."""
    compiler.require_agents()
    site, name = compiler.site(stmt.span), stmt.name
    combine = next((f for start, f in _REDUCTIONS.items() if name.startswith(start)), None)

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        lanes = m.active()
        for lane, move in zip(lanes, moves(m, lanes), strict=True):
            m.tally.moved(name, site, int(move.box.inside.sum()) * move.box.size)
            engine = StoreEngine(m, int(lane), move, combine)
            m.start_engine(engine)
            m.state(Stores).open.setdefault(int(lane), []).append(engine)

    return then_pause(run)


def commit(stmt: Prim, compiler: StatementCompiler) -> Step:
    """`tma.commit`: closes each lane's group of stores."""
    compiler.require_agents()
    site, name = compiler.site(stmt.span), stmt.name

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        stores = m.state(Stores)
        for lane in (int(x) for x in m.active()):
            stores.groups.setdefault(lane, []).append(tuple(stores.open.pop(lane, [])))

    return run


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
            groups = m.state(Stores).groups.get(int(lane), [])
            for group in groups[: max(0, len(groups) - int(keep))]:
                engines += group
        yield AtBulkGroups(engines, m.span)
        for engine in engines:
            engine.waited = True
            for unit in units:
                m.agent_clock.learn(m.engine_unit(unit), engine.number, m.alone(lanes))

    return Routine(start)


def prefetch(stmt: Prim, compiler: StatementCompiler) -> Step:
    """`tma.prefetch box`: nothing that can be seen, of a box that TMA takes."""
    site, name, corners = compiler.site(stmt.span), stmt.name, _corners(stmt, 0)

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        corners(m, m.active())

    return run


def _load_box(stmt: Prim, compiler: StatementCompiler) -> Code:
    return _load(stmt, compiler, _box_moves(stmt, 1, 0), 2)


def _load_bytes(stmt: Prim, compiler: StatementCompiler) -> Code:
    return _load(stmt, compiler, _byte_moves(stmt, 1, 0), 3)


def _store_box(stmt: Prim, compiler: StatementCompiler) -> Code:
    return _store(stmt, compiler, _box_moves(stmt, 0, 1))


def _store_bytes(stmt: Prim, compiler: StatementCompiler) -> Code:
    return _store(stmt, compiler, _byte_moves(stmt, 0, 1))


# fmin and fmax leave NaN out as the machine's min and max do.
_REDUCTIONS = {"tma.reduce.add": np.add, "tma.reduce.min": np.fmin, "tma.reduce.max": np.fmax}
_TABLE = {
    "tma.load": Instruction(_load_box, shared=CHUNK, global_=CHUNK),
    "tma.load.multicast": Instruction(_load_box, shared=CHUNK, global_=CHUNK),
    "tma.store": Instruction(_store_box, shared=CHUNK, global_=CHUNK, writes=True),
    **{
        name: Instruction(_store_box, shared=CHUNK, global_=CHUNK, writes=True)
        for name in _REDUCTIONS
    },
    "bulk.load": Instruction(_load_bytes, shared=CHUNK, global_=CHUNK),
    "bulk.store": Instruction(_store_bytes, shared=CHUNK, global_=CHUNK, writes=True),
    "tma.commit": Instruction(commit),
    "tma.wait": Instruction(wait),
    "tma.wait.read": Instruction(wait),
    "tma.prefetch": Instruction(prefetch),
}


def instruction(name: str) -> Instruction | None:
    """Bulk copies."""
    for hint in HINTS:
        name = name.removesuffix(f".{hint}")
    return _TABLE.get(name)
