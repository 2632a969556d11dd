"""`ld.cluster.B` and `st.cluster.B`: shared memory of another block of the cluster, B bytes per
lane.

The bytes are those of the other block's arena, with all that it knows of them; a warp that reads
there leaves its mark beside those of that block's own warps, so that a later writer must know of
it. Nothing is ordered by the access itself: the cluster's barrier does that, or an mbarrier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from hexcute_core.errors import SimulationError
from hexcute_core.simulator.actor import Actor
from hexcute_core.simulator.code import Code
from hexcute_core.simulator.instructions.cluster import block_of_rank, visit
from hexcute_core.simulator.instructions.instruction import Instruction, split_size
from hexcute_core.simulator.instructions.loads_stores import SIZES, note_shared
from hexcute_core.simulator.instructions.operands import lanes_of, regs_operand
from hexcute_core.simulator.lanes.scalars import compile_scalar
from hexcute_core.simulator.lanes.values import Array, from_bytes, to_bytes
from hexcute_core.thread import Prim, RemotePtr

if TYPE_CHECKING:
    from hexcute_core.simulator.agents import BlockAgents
    from hexcute_core.simulator.machine import Machine
    from hexcute_core.simulator.statements import StatementCompiler


class Guest(Actor):
    """A warp in another block's shared memory: itself, its reads kept in a column of its own."""

    def __init__(self, m: Machine, host: BlockAgents) -> None:
        self.world, self.clock, self.site, self.sites = m.world, m.clock, m.site, m.sites
        self.who, self.blocks, self.block_of, self.threads = m.who, m.blocks, m.block_of, m.threads
        self.column = host.guest_column(m)
        self._machine = m

    def thread(self, lane: int) -> int:
        """The thread of its own block."""
        return self._machine.thread(lane)


Place = Callable[["Machine", Array], tuple[Array, Array]]


def _remote_operand(stmt: Prim, index: int) -> Place:
    """Operand `index` as a function giving the byte address and the rank of given lanes."""
    operand = stmt.operands[index]
    if not isinstance(operand, RemotePtr):
        raise SimulationError(f"operand {index} of {stmt.name} must be another block's", stmt.span)
    offset, rank = compile_scalar(operand.offset), compile_scalar(operand.rank)
    return lambda m, lanes: (lanes_of(offset(m), lanes), lanes_of(rank(m), lanes))


def _hosts(
    m: Machine, lanes: Array, ranks: Array, name: str
) -> Iterator[tuple[BlockAgents, Actor, Array, str]]:
    """The blocks that `lanes` reach: each with who comes there, which of the lanes, and what the
    access is called."""
    for rank in np.unique(ranks):
        part = np.flatnonzero(ranks == rank)
        host = block_of_rank(m, int(rank), name, int(lanes[part[0]]))
        if host is m.home:
            yield host, m, part, name
        else:
            visit(m, lanes[part], host, name)
            yield host, Guest(m, host), part, f"{name} in block {host.block}"


def load(stmt: Prim, compiler: StatementCompiler, size: int) -> Code:
    """`ld.cluster.B dst, src`"""
    compiler.require_agents()
    dst, src = regs_operand(stmt, 0, size), _remote_operand(stmt, 1)
    site, name = compiler.site(stmt.span), stmt.name

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        lanes = m.active()
        address, ranks = src(m, lanes)
        raw = np.zeros((m.lanes, size), dtype=np.uint8)
        for host, guest, part, what in _hosts(m, lanes, ranks, name):
            cells = host.shared.cells(guest, lanes[part], address[part], size, what)
            raw[lanes[part]] = host.shared.load(guest, lanes[part], cells, what)
        m.tally.moved(name, site, len(lanes) * size)
        note_shared(m, name, lanes, address, size)
        dst.write(m, from_bytes(raw, dst.dtype))

    return run


def store(stmt: Prim, compiler: StatementCompiler, size: int) -> Code:
    """`st.cluster.B dst, src`"""
    compiler.require_agents()
    dst, src = _remote_operand(stmt, 0), regs_operand(stmt, 1, size)
    site, name = compiler.site(stmt.span), stmt.name

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        lanes = m.active()
        address, ranks = dst(m, lanes)
        raw = to_bytes(src.read(m, lanes)[lanes], src.dtype)
        for host, guest, part, what in _hosts(m, lanes, ranks, name):
            cells = host.shared.cells(guest, lanes[part], address[part], size, what)
            host.shared.store(guest, lanes[part], cells, raw[part], what)
        m.tally.moved(name, site, len(lanes) * size)
        note_shared(m, name, lanes, address, size)

    return run


def instruction(name: str) -> Instruction | None:
    """Loads and stores of another block's shared memory."""
    sized = split_size(name, SIZES)
    if sized is None or sized[0] not in ("ld.cluster", "st.cluster"):
        return None
    family, size = sized
    make = load if family == "ld.cluster" else store
    return Instruction(
        lambda stmt, compiler: make(stmt, compiler, size), shared=size, polls=make is load
    )
