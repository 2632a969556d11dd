"""Atomic read-modify-writes: `red` without the old value, `atom` with it.

| primitive | operands |
|---|---|
| `red.global.OP.T` | GlobalPtr, Regs value, bool pred |
| `atom.global.OP.T` | Regs old, GlobalPtr, Regs value, bool pred |
| `atom.global.cas.T` | Regs old, GlobalPtr, Regs compare, Regs value, bool pred |
| `red.shared.OP.T`, `atom.shared.OP.T` | the same with SharedPtr and without pred |

OP is add, min, max, and, or, xor, inc, dec, exch or cas. Several elements a lane are that many
atomics; where `.vN` follows the type, one instruction does all N, at an address that is a multiple
of them. A memory order may follow, as in `atom.global.add.i32.acq_rel`; without one they are
relaxed and hand nothing over. `red`, which brings nothing back, cannot acquire. With `.cta` at the
end the scope is the block: to threads of other blocks the update is a read and a write. Lanes that
meet come one after the other, in an order drawn from the seed. A sum of f32 in global memory takes
subnormals for zeros and leaves none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hexcute_core.dtypes import BY_NAME, DType, f32
from hexcute_core.errors import SimulationError
from hexcute_core.simulator.code import Code, then_pause
from hexcute_core.simulator.instructions.instruction import Instruction
from hexcute_core.simulator.instructions.loads_stores import note_global, note_shared
from hexcute_core.simulator.instructions.operands import (
    global_operand,
    predicated,
    regs_operand,
    scalar_operand,
    shared_operand,
)
from hexcute_core.simulator.instructions.ordering import ORDERS, PLAIN, Order
from hexcute_core.simulator.lanes.values import Array, from_bytes, to_bytes
from hexcute_core.simulator.memory.clocks import AtomicKind
from hexcute_core.thread import Prim

if TYPE_CHECKING:
    from hexcute_core.simulator.machine import Machine
    from hexcute_core.simulator.statements import StatementCompiler

_UPDATES: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "exch": lambda old, new: new,
    "inc": lambda old, top: np.where(old >= top, 0, old + 1).astype(old.dtype),
    "dec": lambda old, top: np.where((old == 0) | (old > top), top, old - 1).astype(old.dtype),
}  # fmt: skip
_INTEGERS = ("i32", "u32", "i64", "u64")
_TYPES = {
    "add": (*_INTEGERS, "f32", "f64", "f16", "bf16"), "min": _INTEGERS, "max": _INTEGERS,
    "and": _INTEGERS, "or": _INTEGERS, "xor": _INTEGERS, "exch": (*_INTEGERS, "f32"),
    "inc": ("u32",), "dec": ("u32",), "cas": (*_INTEGERS, "u16"),
}  # fmt: skip
_VECTORS = ("v2", "v4", "v8")


@dataclass(frozen=True)
class Atomic:
    """What an atomic's name says."""

    returns: bool
    space: str
    op: str
    dtype: DType
    order: Order
    width: int = 1
    block: bool = False

    @property
    def kind(self) -> AtomicKind:
        """Which accesses it is atomic to."""
        return "block" if self.block else "all"

    def update(self, old: Array, value: Array, compare: Array | None) -> Array:
        """The new cells."""
        if compare is not None:
            return np.where(old == compare, value, old)
        if self.space == "global" and self.op == "add" and self.dtype == f32:
            return _flushed(_flushed(old) + _flushed(value))
        new: Array = _UPDATES[self.op](old, value)
        return new.astype(old.dtype)


def _flushed(value: Array) -> Array:
    """Zeros of the same sign for subnormals."""
    tiny = np.abs(value) < np.finfo(value.dtype).tiny
    return np.where(tiny, np.copysign(np.zeros_like(value), value), value)


def parse(name: str) -> Atomic | None:
    """The parts of `atom.SPACE.OP.T[.vN][.ORDER][.cta]`."""
    parts = name.split(".")
    orders = {order.name: order for order in ORDERS if order.name}
    block = parts[-1] == "cta"
    parts = parts[:-1] if block else parts
    order = orders.get(parts[-1])
    if order is not None:
        parts = parts[:-1]
    width = 1
    if len(parts) == 5 and parts[-1] in _VECTORS:
        width = int(parts.pop()[1:])
    if len(parts) != 4 or parts[0] not in ("red", "atom") or parts[1] not in ("global", "shared"):
        return None
    family, space, op, kind = parts
    if family == "red" and (op in ("cas", "exch") or (order and "acq" in order.name)):
        return None
    if kind not in _TYPES.get(op, ()) or (block and space == "shared"):
        return None
    if width > 1 and (op != "add" or width not in _widths(family, space, kind)):
        return None
    return Atomic(family == "atom", space, op, BY_NAME[kind], order or PLAIN, width, block)


def _widths(family: str, space: str, kind: str) -> tuple[int, ...]:
    """Elements of one instruction: words of two halves anywhere, up to 16 bytes of a `red`."""
    halves = (2,) if kind in ("f16", "bf16") else ()
    if (family, space) != ("red", "global"):
        return halves
    return {"f32": (2, 4), "f16": (2, 4, 8), "bf16": (2, 4, 8)}.get(kind, ())


def compile_atomic(atomic: Atomic, stmt: Prim, compiler: StatementCompiler) -> Code:
    """One atomic statement."""
    if atomic.order.strong:
        compiler.require_agents()
    first = 1 if atomic.returns else 0
    values = 2 if atomic.op == "cas" else 1
    wanted = first + 1 + values + (atomic.space == "global")
    if len(stmt.operands) != wanted:
        raise SimulationError(
            f"{stmt.name} takes {wanted} operands, got {len(stmt.operands)}", stmt.span
        )
    old_value = regs_operand(stmt, 0) if atomic.returns else None
    operands = [regs_operand(stmt, first + 1 + i) for i in range(values)]
    apply = _global(atomic, stmt, first) if atomic.space == "global" else _shared(
        atomic, stmt, first
    )  # fmt: skip
    site, name, dtype = compiler.site(stmt.span), stmt.name, atomic.dtype

    def run(m: Machine) -> None:
        m.site = site
        m.count(name)
        lanes = m.active()
        held = [operand.read(m, lanes) for operand in operands]
        value, compare = held[-1], held[0] if len(held) == 2 else None
        if atomic.width not in (1, value.shape[1]):
            raise SimulationError(f"{name} of {value.shape[1]} registers", stmt.span)
        old = np.zeros((m.lanes, value.shape[1]), dtype=value.dtype)
        apply(m, value, compare, old)
        if old_value is not None:
            old_value.write(m, from_bytes(to_bytes(old, dtype), old_value.dtype))

    return then_pause(run) if compiler.agents else run


Apply = Callable[["Machine", Array, "Array | None", Array], None]


def _global(atomic: Atomic, stmt: Prim, place: int) -> Apply:
    pointer = global_operand(stmt, place)
    predicate = scalar_operand(stmt, len(stmt.operands) - 1)
    size, dtype, order, name = atomic.dtype.bits // 8, atomic.dtype, atomic.order, stmt.name

    def apply(m: Machine, value: Array, compare: Array | None, old: Array) -> None:
        lanes = predicated(m, predicate(m))
        if not len(lanes):
            return
        buffer, address = pointer(m, lanes)
        buffer.check(m, lanes, address, size * atomic.width, name)
        note_global(m, name, lanes, address, size * value.shape[1])
        for j in range(value.shape[1]):
            for turn in _turns(m, address):
                who, at = lanes[turn], address[turn] + j * size
                raw = buffer.load(m, who, at, size, name, atomic.kind)
                old[who, j] = from_bytes(raw, dtype)[:, 0]
                wanted = None if compare is None else compare[who, j]
                new = atomic.update(old[who, j], value[who, j], wanted)
                order.update(m, who, buffer.shadow, buffer.cells(at, size))
                buffer.store(m, who, at, to_bytes(new[:, None], dtype), name, atomic.kind)

    return apply


def _shared(atomic: Atomic, stmt: Prim, place: int) -> Apply:
    pointer = shared_operand(stmt, place)
    size, dtype, order, name = atomic.dtype.bits // 8, atomic.dtype, atomic.order, stmt.name

    def apply(m: Machine, value: Array, compare: Array | None, old: Array) -> None:
        lanes = m.active()
        address = pointer(m, lanes)
        m.shared.cells(m, lanes, address, size * atomic.width, name)
        note_shared(m, name, lanes, address, size * value.shape[1])
        for j in range(value.shape[1]):
            for turn in _turns(m, address + m.block_of[lanes] * m.shared.stride):
                who = lanes[turn]
                cells = m.shared.cells(m, who, address[turn] + j * size, size, name)
                raw = m.shared.load(m, who, cells, name, atomic="all")
                old[who, j] = from_bytes(raw, dtype)[:, 0]
                wanted = None if compare is None else compare[who, j]
                new = atomic.update(old[who, j], value[who, j], wanted)
                order.update(m, who, m.shared.shadow, cells)
                m.shared.store(m, who, cells, to_bytes(new[:, None], dtype), name, atomic="all")

    return apply


def _turns(m: Machine, address: Array) -> list[Array]:
    """Positions in `address` [n] that come at once: in each turn every address once."""
    order = np.arange(len(address)) if m.world.seed == 0 else m.world.random.permutation(
        len(address)
    )  # fmt: skip
    ranked = order[np.argsort(address[order], kind="stable")]
    held = address[ranked]
    starts = np.flatnonzero(np.r_[True, held[1:] != held[:-1]])
    lengths = np.diff(np.r_[starts, len(held)])
    rank = np.arange(len(held)) - np.repeat(starts, lengths)
    return [ranked[rank == turn] for turn in range(int(lengths.max()))]


def instruction(name: str) -> Instruction | None:
    """Atomics."""
    atomic = parse(name)
    if atomic is None:
        return None
    size, shared = atomic.dtype.bits // 8, atomic.space == "shared"
    return Instruction(
        lambda stmt, compiler: compile_atomic(atomic, stmt, compiler),
        shared=size if shared else 0,
        global_=0 if shared else size,
        writes=True,
        polls=atomic.returns,
    )
