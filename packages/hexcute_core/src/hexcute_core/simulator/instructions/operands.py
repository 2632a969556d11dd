"""Operands of primitives made ready: byte addresses per lane, predicates, register parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from hexcute_core.errors import SimulationError
from hexcute_core.scalar.expr import ScalarBase
from hexcute_core.simulator.lanes.scalars import Evaluate, compile_scalar
from hexcute_core.simulator.lanes.values import Array, Value
from hexcute_core.simulator.memory.buffers import GlobalBuffer
from hexcute_core.simulator.registers import RegOperand
from hexcute_core.thread import GlobalPtr, Operand, Prim, Regs, SharedPtr

if TYPE_CHECKING:
    from hexcute_core.simulator.machine import Machine


GlobalAddress = Callable[["Machine", Array], tuple[GlobalBuffer, Array]]


def _operand(stmt: Prim, index: int) -> Operand:
    if index >= len(stmt.operands):
        raise SimulationError(f"{stmt.name} lacks operand {index}", stmt.span)
    return stmt.operands[index]


def regs_operand(stmt: Prim, index: int, size: int | None = None) -> RegOperand:
    """Operand `index` as registers; `size` is the bytes they must hold."""
    operand = _operand(stmt, index)
    if not isinstance(operand, Regs):
        raise SimulationError(f"operand {index} of {stmt.name} must be registers", stmt.span)
    if size is not None and operand.count * operand.dtype.bits != size * 8:
        raise SimulationError(
            f"operand {index} of {stmt.name} must hold {size} bytes, {operand.count} registers "
            f"of {operand.dtype} hold {operand.count * operand.dtype.bits / 8:g}",
            stmt.span,
        )
    return RegOperand(operand, compile_scalar(operand.offset), stmt.span)


def scalar_operand(stmt: Prim, index: int) -> Evaluate:
    """Operand `index` as a scalar."""
    operand = _operand(stmt, index)
    if not isinstance(operand, ScalarBase):
        raise SimulationError(f"operand {index} of {stmt.name} must be a scalar", stmt.span)
    return compile_scalar(operand)


def global_operand(stmt: Prim, index: int) -> GlobalAddress:
    """Operand `index` as a function giving the buffer and the byte address of given lanes."""
    operand = _operand(stmt, index)
    if not isinstance(operand, GlobalPtr):
        raise SimulationError(f"operand {index} of {stmt.name} must be global memory", stmt.span)
    name, bits, offset = operand.param, operand.dtype.bits, compile_scalar(operand.offset)

    def run(m: Machine, lanes: Array) -> tuple[GlobalBuffer, Array]:
        buffer = m.buffers.get(name)
        if buffer is None:
            m.fail(f"{name} is not a pointer parameter of the program")
        bit = lanes_of(offset(m), lanes) * bits
        if bits < 8 and (bit % 8).any():
            m.fail(f"the address of an access to {name} is not a whole byte")
        return buffer, bit // 8

    return run


def shared_operand(stmt: Prim, index: int) -> Callable[[Machine, Array], Array]:
    """Operand `index` as a function giving the shared byte address of given lanes."""
    operand = _operand(stmt, index)
    if not isinstance(operand, SharedPtr):
        raise SimulationError(f"operand {index} of {stmt.name} must be shared memory", stmt.span)
    offset = compile_scalar(operand.offset)
    return lambda m, lanes: lanes_of(offset(m), lanes)


def lanes_of(value: Value, lanes: Array) -> Array:
    """An integer value of the given lanes, as int64."""
    if isinstance(value, np.ndarray):
        return value[lanes].astype(np.int64)
    return np.full(len(lanes), int(value), dtype=np.int64)


def predicated(m: Machine, predicate: Value) -> Array:
    """Indices of the executing lanes whose predicate holds."""
    lanes = m.active()
    if isinstance(predicate, np.ndarray):
        return lanes if predicate.all() else lanes[predicate[lanes]]
    return lanes if predicate else lanes[:0]
