"""trace(program, arguments) = what each warp executed, in its order: the primitives that touch
memory or order others, with the lanes that executed them and the values of their operands.

It is taken from one run of the simulator, of which nothing else is used: not its clocks, and none
of what it thinks of an access.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from hexcute_core.scalar.expr import ScalarBase
from hexcute_core.simulator import launch, simulate
from hexcute_core.simulator.code import Code, Routine, Waits
from hexcute_core.simulator.instructions.boxes import Box, box_at
from hexcute_core.simulator.instructions.operands import lanes_of
from hexcute_core.simulator.lanes.scalars import compile_scalar
from hexcute_core.simulator.lanes.values import Array
from hexcute_core.simulator.machine import Machine
from hexcute_core.simulator.primitives import compile_primitive
from hexcute_core.simulator.statements import StatementCompiler
from hexcute_core.thread import (
    GlobalPtr,
    MapRef,
    MatrixDesc,
    Prim,
    Regs,
    RemotePtr,
    SharedPtr,
    ThreadProgram,
)  # fmt: skip

OWN = ("mma.", "shfl.", "vote.", "griddepcontrol.", "setmaxnreg.", "tma.prefetch", "wgmma.fence")
"""Primitives that touch registers alone, or nothing."""


@dataclass(frozen=True)
class Event:
    """A primitive that lanes of a warp executed. `values` has for each operand: of a scalar or of a
    shared address its value on each of `lanes`; of global memory a name and byte addresses; of a
    box its bytes, by lane; of another block's memory addresses and ranks."""

    stmt: Prim
    lanes: tuple[int, ...]
    values: tuple[Any, ...]

    @property
    def name(self) -> str:
        """The primitive."""
        return self.stmt.name

    @property
    def place(self) -> str:
        """The primitive and where it was written."""
        return f"{self.name} at line {self.stmt.span.line if self.stmt.span else '-'}"


@dataclass(frozen=True)
class Boxes:
    """A box of each lane: bytes of tensor `param`, in shared memory under a swizzle."""

    param: str
    boxes: tuple[Box, ...]
    swizzle: int


Trace = dict[tuple[int, int], list[Event]]
"""By block and warp."""


def _value(operand: Any, m: Machine, lanes: Array) -> Any:
    match operand:
        case GlobalPtr():
            offset = lanes_of(compile_scalar(operand.offset)(m), lanes)
            return operand.param, offset * operand.dtype.bits // 8
        case SharedPtr() | MatrixDesc():
            return lanes_of(compile_scalar(operand.offset)(m), lanes)
        case RemotePtr():
            both = (compile_scalar(operand.offset)(m), compile_scalar(operand.rank)(m))
            return tuple(lanes_of(value, lanes) for value in both)
        case MapRef():
            return _boxes(operand, m, lanes)
        case ScalarBase():
            return lanes_of(compile_scalar(operand)(m), lanes)
        case _:
            assert isinstance(operand, Regs)
            return None


def _boxes(operand: MapRef, m: Machine, lanes: Array) -> Boxes:
    tensor_map = m.world.maps[operand.name]
    buffer, tensor = m.buffers[tensor_map.param], m.world.mapped[tensor_map.param]
    corners = [lanes_of(compile_scalar(c)(m), lanes) for c in operand.coords]
    found = tuple(
        box_at(tensor_map, buffer, tensor, tuple(int(c[i]) for c in corners))
        for i in range(len(lanes))
    )
    return Boxes(tensor_map.param, found, tensor_map.swizzle)


@contextmanager
def _recording(into: Trace) -> Iterator[None]:
    def recorded(stmt: Prim, compiler: StatementCompiler) -> Code:
        compiler.require_agents()
        code = compile_primitive(stmt, compiler)
        if stmt.name.startswith(OWN):
            return code

        def start(m: Machine) -> Waits:
            lanes = m.active()
            values = tuple(_value(operand, m, lanes) for operand in stmt.operands)
            block = int(m.who[0]) // (-(-m.threads // 32) * 32)
            into.setdefault((block, m.column), []).append(
                Event(stmt, tuple(int(lane) for lane in lanes), values)
            )
            if isinstance(code, Routine):
                yield from code.start(m)
            else:
                code(m)

        return Routine(start)

    true, launch.compile_primitive = launch.compile_primitive, recorded  # type: ignore[assignment]
    try:
        yield
    finally:
        launch.compile_primitive = true


def trace(
    program: ThreadProgram, arrays: Mapping[str, np.ndarray], numbers: Mapping[str, Any]
) -> Trace:
    """Of a run under seed 0, which must have no findings."""
    found: Trace = {}
    with _recording(found):
        simulate(program, arrays, numbers, seed=0)
    return found
