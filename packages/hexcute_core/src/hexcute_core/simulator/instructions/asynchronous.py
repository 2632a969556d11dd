"""cp.async: bytes are read when issued and land at the wait of the lane that issued them.

The machine may read as late as it writes: until the wait nobody may overwrite the source.

Every lane counts the groups it has committed. `cp.async.wait n` completes a lane's copies of all
but its n latest committed groups. Nobody may touch the bytes before that: the machine may always
be that late. Seeds other than 0 let the bytes land earlier now and then, so that what a broken
program computes varies as it does on a machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexcute_core.simulator.code import Code, Step, then_pause
from hexcute_core.simulator.instructions.instruction import Instruction, split_size
from hexcute_core.simulator.instructions.loads_stores import note_global, note_shared
from hexcute_core.simulator.instructions.operands import (
    global_operand,
    lanes_of,
    predicated,
    scalar_operand,
    shared_operand,
)
from hexcute_core.simulator.lanes.values import Array
from hexcute_core.simulator.memory.clocks import UNFENCED
from hexcute_core.simulator.statements import StatementCompiler
from hexcute_core.thread import Prim

if TYPE_CHECKING:
    from hexcute_core.simulator.actor import Actor
    from hexcute_core.simulator.machine import Machine
    from hexcute_core.simulator.memory.buffers import GlobalBuffer
    from hexcute_core.simulator.memory.shared import SharedArena


@dataclass(frozen=True)
class PendingCopy:
    """Copies one statement issued: for each lane its group, granules and bytes, whether it reads
    at all, and from which byte of which buffer."""

    name: str
    lanes: Array
    group: Array
    cells: Array
    raw: Array
    site: int
    reads: Array
    buffer: GlobalBuffer | None
    address: Array

    def part(self, which: Array) -> PendingCopy:
        """The copies of a subset, given by a mask."""
        return PendingCopy(
            self.name, self.lanes[which], self.group[which], self.cells[which], self.raw[which],
            self.site, self.reads[which], self.buffer, self.address[which],
        )  # fmt: skip

    def land(
        self, actor: Actor, arena: SharedArena, lanes: Array, proxy: int = UNFENCED
    ) -> None:
        """The bytes come by `actor`, for which these are the lanes `lanes`; the source is free."""
        arena.fill(actor, lanes, self.cells, self.raw, self.site, "cp.async", proxy=proxy)
        if self.buffer is not None:
            size = self.raw.shape[1]
            self.buffer.let_go(actor, lanes[self.reads], self.address[self.reads], size, self.name)


class Copies:
    """The groups that each lane has committed, and the copies that have not landed."""

    def __init__(self, m: Machine) -> None:
        self.committed = np.zeros(m.lanes, dtype=np.int64)
        self.pending: list[PendingCopy] = []


def copy_async(stmt: Prim, compiler: StatementCompiler, size: int) -> Step:
    """`cp.async.B dst, src, pred`: zeros where pred is false."""
    dst, src = shared_operand(stmt, 0), global_operand(stmt, 1)
    predicate, site, name = scalar_operand(stmt, 2), compiler.site(stmt.span), stmt.name

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        lanes = m.active()
        target = dst(m, lanes)
        cells = m.shared.cells(m, lanes, target, size, name)
        raw = np.zeros((m.lanes, size), dtype=np.uint8)
        reading = predicated(m, predicate(m))
        buffer, start = None, np.zeros(m.lanes, dtype=np.int64)
        if len(reading):
            buffer, address = src(m, reading)
            raw[reading] = buffer.load(m, reading, address, size, name)
            buffer.hold(m, address, size)
            start[reading] = address
            note_global(m, name, reading, address, size)
        note_shared(m, name, lanes, target, size)
        m.shared.claim(m, lanes, cells, name, None)
        m.shared.hold(m, lanes, cells)
        if m.world.early():
            m.shared.put(m, lanes, cells, raw[lanes], name)
        state = m.state(Copies)
        state.pending.append(
            PendingCopy(
                name, lanes, state.committed[lanes], cells, raw[lanes], site,
                np.isin(lanes, reading), buffer, start[lanes],
            )
        )  # fmt: skip

    return run


def commit(stmt: Prim, compiler: StatementCompiler) -> Step:
    """`cp.async.commit`: closes the group of copies issued so far."""
    site, name = compiler.site(stmt.span), stmt.name

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        m.state(Copies).committed[m.active()] += 1

    return run


def wait(stmt: Prim, compiler: StatementCompiler) -> Code:
    """`cp.async.wait n`: at most the n latest groups of each lane stay unfinished."""
    pending, site, name = scalar_operand(stmt, 0), compiler.site(stmt.span), stmt.name

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        state = m.state(Copies)
        finished = state.committed - lanes_of(pending(m), m.all_lanes)
        if m.mask is not None:
            finished = np.where(m.mask, finished, 0)
        state.pending = [rest for copy in state.pending for rest in _land(m, copy, finished)]

    return then_pause(run) if compiler.agents else run


def _land(m: Machine, copy: PendingCopy, finished: Array) -> list[PendingCopy]:
    """Completes the copies of groups below `finished` [lanes]; what stays pending."""
    done = copy.group < finished[copy.lanes]
    if not done.any():
        return [copy]
    ready = copy.part(done)
    ready.land(m, m.shared, ready.lanes)
    return [] if done.all() else [copy.part(~done)]


def instruction(name: str) -> Instruction | None:
    """cp.async and its groups."""
    if name == "cp.async.commit":
        return Instruction(commit)
    if name == "cp.async.wait":
        return Instruction(wait)
    sized = split_size(name, (4, 8, 16))
    if sized is None or sized[0] != "cp.async":
        return None
    size = sized[1]
    return Instruction(
        lambda stmt, compiler: copy_async(stmt, compiler, size), shared=size, global_=size
    )
