"""`ld` and `st` of global and shared memory, B bytes a lane.

A predicated-off global load gives zeros, a predicated-off store does nothing, and neither looks
at its address. Addresses are multiples of B.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hexcute_core.simulator.counting import count_sectors, count_wavefronts, phase_of
from hexcute_core.simulator.operands import (
    global_operand,
    predicated,
    regs_operand,
    scalar_operand,
    shared_operand,
)
from hexcute_core.simulator.statements import StatementCompiler, Step
from hexcute_core.simulator.values import Array, from_bytes, to_bytes
from hexcute_core.thread import Prim

if TYPE_CHECKING:
    from hexcute_core.simulator.machine import Machine


def note_global(m: Machine, name: str, lanes: Array, address: Array, size: int) -> None:
    """Counts the bytes and sectors of one access."""
    m.tally.bytes[name] += len(lanes) * size
    m.tally.sectors[name] += count_sectors(m.warp_of[lanes], address)


def note_shared(m: Machine, name: str, lanes: Array, address: Array, size: int) -> None:
    """Counts the wavefronts of one access."""
    phase = phase_of(m.warp_of[lanes], lanes % m.threads % 32, size)
    m.tally.wavefronts[name] += count_wavefronts(phase, address, size)


def load_global(stmt: Prim, compiler: StatementCompiler, size: int) -> Step:
    """`ld.global.B dst, src, pred`"""
    dst, src = regs_operand(stmt, 0, size), global_operand(stmt, 1)
    predicate, site, name = scalar_operand(stmt, 2), compiler.site(stmt.span), stmt.name

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        raw = np.zeros((m.lanes, size), dtype=np.uint8)
        lanes = predicated(m, predicate(m))
        if len(lanes):
            buffer, address = src(m, lanes)
            raw[lanes] = buffer.load(m, lanes, address, size, name)
            note_global(m, name, lanes, address, size)
        dst.write(m, from_bytes(raw, dst.dtype))

    return run


def store_global(stmt: Prim, compiler: StatementCompiler, size: int) -> Step:
    """`st.global.B dst, src, pred`"""
    dst, src = global_operand(stmt, 0), regs_operand(stmt, 1, size)
    predicate, site, name = scalar_operand(stmt, 2), compiler.site(stmt.span), stmt.name

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        lanes = predicated(m, predicate(m))
        if len(lanes):
            buffer, address = dst(m, lanes)
            raw = to_bytes(src.read(m, lanes)[lanes], src.dtype)
            buffer.store(m, lanes, address, raw, name)
            note_global(m, name, lanes, address, size)

    return run


def load_shared(stmt: Prim, compiler: StatementCompiler, size: int) -> Step:
    """`ld.shared.B dst, src`"""
    dst, src = regs_operand(stmt, 0, size), shared_operand(stmt, 1)
    site, name = compiler.site(stmt.span), stmt.name

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        lanes = m.active()
        address = src(m, lanes)
        cells = m.shared.cells(m, lanes, address, size, name)
        raw = np.zeros((m.lanes, size), dtype=np.uint8)
        raw[lanes] = m.shared.load(m, lanes, cells, name)
        m.tally.bytes[name] += len(lanes) * size
        note_shared(m, name, lanes, address, size)
        dst.write(m, from_bytes(raw, dst.dtype))

    return run


def store_shared(stmt: Prim, compiler: StatementCompiler, size: int) -> Step:
    """`st.shared.B dst, src`"""
    dst, src = shared_operand(stmt, 0), regs_operand(stmt, 1, size)
    site, name = compiler.site(stmt.span), stmt.name

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        lanes = m.active()
        address = dst(m, lanes)
        cells = m.shared.cells(m, lanes, address, size, name)
        raw = to_bytes(src.read(m, lanes)[lanes], src.dtype)
        m.shared.store(m, lanes, cells, raw, name)
        m.tally.bytes[name] += len(lanes) * size
        note_shared(m, name, lanes, address, size)

    return run
