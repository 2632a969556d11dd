"""`ld` and `st` of global and shared memory, B bytes per lane, plain or for flags.

A predicated-off global load gives zeros, a predicated-off store does nothing, and neither looks
at its address. Addresses are multiples of B. With `.relaxed`, `.acquire` or `.release` before the
size, as in `ld.global.acquire.4`, the access is strong: it never races with another strong one,
and orders what it says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hexcute_core.simulator.code import Code
from hexcute_core.simulator.instructions.instruction import Instruction, split_size
from hexcute_core.simulator.instructions.operands import (
    global_operand,
    predicated,
    regs_operand,
    scalar_operand,
    shared_operand,
)
from hexcute_core.simulator.instructions.ordering import ORDERS, PLAIN, Order
from hexcute_core.simulator.lanes.state import WARP
from hexcute_core.simulator.lanes.values import Array, from_bytes, to_bytes
from hexcute_core.simulator.statements import StatementCompiler
from hexcute_core.thread import Prim

if TYPE_CHECKING:
    from hexcute_core.simulator.machine import Machine


def note_global(m: Machine, name: str, lanes: Array, address: Array, size: int) -> None:
    """Counts the bytes and sectors of one access."""
    m.tally.moved(name, m.site, len(lanes) * size)
    m.tally.global_(name, m.site, m.warp_of[lanes], address, size)


def note_shared(m: Machine, name: str, lanes: Array, address: Array, size: int) -> None:
    """Counts the wavefronts of one access."""
    lane = m.thread_of[lanes] % WARP
    m.tally.shared(name, m.site, m.warp_of[lanes], lane, address, size)


def load_global(stmt: Prim, compiler: StatementCompiler, size: int, order: Order) -> Code:
    """`ld.global[.order].B dst, src, pred`"""
    dst, src = regs_operand(stmt, 0, size), global_operand(stmt, 1)
    predicate, site, name = scalar_operand(stmt, 2), compiler.site(stmt.span), stmt.name

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        raw = np.zeros((m.lanes, size), dtype=np.uint8)
        lanes = predicated(m, predicate(m))
        if len(lanes):
            buffer, address = src(m, lanes)
            raw[lanes] = buffer.load(m, lanes, address, size, name, order.kind)
            order.read(m, lanes, buffer.shadow, lambda: buffer.cells(address, size))
            note_global(m, name, lanes, address, size)
        dst.write(m, from_bytes(raw, dst.dtype))

    return order.code(compiler, run)


def store_global(stmt: Prim, compiler: StatementCompiler, size: int, order: Order) -> Code:
    """`st.global[.order].B dst, src, pred`"""
    dst, src = global_operand(stmt, 0), regs_operand(stmt, 1, size)
    predicate, site, name = scalar_operand(stmt, 2), compiler.site(stmt.span), stmt.name

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        lanes = predicated(m, predicate(m))
        if len(lanes):
            buffer, address = dst(m, lanes)
            raw = to_bytes(src.read(m, lanes)[lanes], src.dtype)
            order.write(m, lanes, buffer.shadow, lambda: buffer.cells(address, size))
            buffer.store(m, lanes, address, raw, name, order.kind)
            note_global(m, name, lanes, address, size)

    return order.code(compiler, run)


def load_shared(stmt: Prim, compiler: StatementCompiler, size: int, order: Order) -> Code:
    """`ld.shared[.order].B dst, src`"""
    dst, src = regs_operand(stmt, 0, size), shared_operand(stmt, 1)
    site, name = compiler.site(stmt.span), stmt.name

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        lanes = m.active()
        address = src(m, lanes)
        cells = m.shared.cells(m, lanes, address, size, name)
        raw = np.zeros((m.lanes, size), dtype=np.uint8)
        raw[lanes] = m.shared.load(m, lanes, cells, name, atomic=order.kind)
        order.read(m, lanes, m.shared.shadow, lambda: cells)
        m.tally.moved(name, site, len(lanes) * size)
        note_shared(m, name, lanes, address, size)
        dst.write(m, from_bytes(raw, dst.dtype))

    return order.code(compiler, run)


def store_shared(stmt: Prim, compiler: StatementCompiler, size: int, order: Order) -> Code:
    """`st.shared[.order].B dst, src`"""
    dst, src = shared_operand(stmt, 0), regs_operand(stmt, 1, size)
    site, name = compiler.site(stmt.span), stmt.name

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        lanes = m.active()
        address = dst(m, lanes)
        cells = m.shared.cells(m, lanes, address, size, name)
        raw = to_bytes(src.read(m, lanes)[lanes], src.dtype)
        order.write(m, lanes, m.shared.shadow, lambda: cells)
        m.shared.store(m, lanes, cells, raw, name, order.kind)
        m.tally.moved(name, site, len(lanes) * size)
        note_shared(m, name, lanes, address, size)

    return order.code(compiler, run)


def move(stmt: Prim, compiler: StatementCompiler, size: int, order: Order) -> Code:
    """`mov.B dst, src`: registers of one type get the bits of another's."""
    dst, src = regs_operand(stmt, 0, size), regs_operand(stmt, 1, size)
    site, name = compiler.site(stmt.span), stmt.name

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        raw = np.zeros((m.lanes, size), dtype=np.uint8)
        lanes = m.active()
        raw[lanes] = to_bytes(src.read(m, lanes)[lanes], src.dtype)
        dst.write(m, from_bytes(raw, dst.dtype))

    return order.code(compiler, run)


SIZES = (1, 2, 4, 8, 16)
_MAKERS = {
    "ld.global": load_global, "st.global": store_global,
    "ld.shared": load_shared, "st.shared": store_shared, "mov": move,
}  # fmt: skip


def instruction(name: str) -> Instruction | None:
    """Loads and stores."""
    sized = split_size(name, SIZES)
    if sized is None:
        return None
    family, size = sized
    order = PLAIN
    for known in ORDERS:
        if known.name and family.endswith("." + known.name):
            family, order = family.removesuffix("." + known.name), known
    make = _MAKERS.get(family)
    if make is None or not order.fits(family):
        return None
    shared = family.endswith("shared")
    return Instruction(
        lambda stmt, compiler: make(stmt, compiler, size, order),
        shared=size if shared else 0,
        global_=0 if shared or family == "mov" else size,
        writes=family == "st.global",
        polls=family.startswith("ld"),
    )
