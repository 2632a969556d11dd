"""simulate(program, arrays, scalars) = the arrays the kernel leaves, or the first thing it does
that a GPU does not define."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hexcute_core.errors import SimulationError
from hexcute_core.scalar import Scalar
from hexcute_core.simulator.buffers import GlobalBuffer, bind_buffer
from hexcute_core.simulator.counting import Counters, Tally
from hexcute_core.simulator.machine import Block, Machine
from hexcute_core.simulator.primitives import compile_primitive, shared_bytes
from hexcute_core.simulator.scalars import compile_scalar, constant_value
from hexcute_core.simulator.statements import StatementCompiler
from hexcute_core.simulator.values import Array, Value
from hexcute_core.thread import For, If, Prim, Stmt, ThreadProgram, While

BATCH_LANES = 1024
"""Blocks run side by side up to this many lanes: numpy's cost a call is then well spread."""


@dataclass(frozen=True)
class SimulationReport:
    """What a run left: `outputs` are the caller's arrays, written in place."""

    outputs: Mapping[str, Array]
    counters: Counters
    blocks: tuple[Block, ...]


def simulate(
    program: ThreadProgram,
    arrays: Mapping[str, Any],
    scalars: Mapping[str, int | float],
    blocks: Sequence[Block] | None = None,
) -> SimulationReport:
    """Runs `program` on the CPU, every lane of every block of `blocks` (default: the whole grid).

    `arrays` holds a C-contiguous numpy array for each pointer parameter, written in place when
    the run ends well; `scalars` a number for each scalar parameter and symbol. Raises
    SimulationError at the first race, out-of-bounds, misaligned or uninitialised access, use
    before a wait, or divergent barrier, located in the source.
    """
    values = _bind_scalars(program, scalars)
    grid = _grid(program, values)
    chosen = _check_blocks(grid, blocks)
    buffers = _bind_arrays(program, arrays, values)
    compiler = StatementCompiler(compile_primitive)
    body = compiler.block(program.body)
    granule = min([n for p in _prims(program.body) if (n := shared_bytes(p.name))], default=16)
    batch = max(1, BATCH_LANES // program.block_dim) if program.block_dim % 32 == 0 else 1
    tally = Tally()
    with np.errstate(all="ignore"):
        for first in range(0, len(chosen), batch):
            machine = Machine(
                chosen[first : first + batch], grid, program.block_dim, program.shared_bytes,
                granule, buffers, values, compiler.sites, tally,
            )  # fmt: skip
            body(machine)
    for buffer in buffers.values():
        buffer.write_back()
    return SimulationReport(
        {name: buffer.array for name, buffer in buffers.items()}, tally.freeze(), chosen
    )


def _prims(stmts: Sequence[Stmt]) -> Iterator[Prim]:
    for stmt in stmts:
        if isinstance(stmt, Prim):
            yield stmt
        elif isinstance(stmt, (For, While)):
            yield from _prims(stmt.body)
        elif isinstance(stmt, If):
            yield from _prims(stmt.then)
            yield from _prims(stmt.otherwise)


def _bind_scalars(program: ThreadProgram, scalars: Mapping[str, int | float]) -> dict[str, Value]:
    expected = {p.name: p.dtype for p in program.params if not p.pointer}
    unknown, missing = set(scalars) - set(expected), set(expected) - set(scalars)
    if unknown or missing:
        raise SimulationError(
            f"{program.name} takes the scalars {sorted(expected)}, got {sorted(scalars)}",
            fix="pass scalars={name: number} for each of them",
        )
    return {name: constant_value(scalars[name], dtype) for name, dtype in expected.items()}


class _Uniform:
    """Just enough of a machine to evaluate an expression of symbols."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        self.vars = values

    def fail(self, message: str, lane: int | None = None, fix: str | None = None) -> None:
        raise SimulationError(message, None, fix)


def evaluate_symbols(e: Scalar, values: Mapping[str, Value]) -> int:
    """The integer `e` is, given the symbols it is made of."""
    result = compile_scalar(e)(_Uniform(values))  # type: ignore[arg-type]
    return int(np.asarray(result)[()])


def _grid(program: ThreadProgram, values: Mapping[str, Value]) -> Block:
    x, y, z = (evaluate_symbols(e, values) for e in program.grid_dim)
    return x, y, z


def _check_blocks(grid: Block, blocks: Sequence[Block] | None) -> tuple[Block, ...]:
    if blocks is None:
        places = itertools.product(range(grid[2]), range(grid[1]), range(grid[0]))
        return tuple((x, y, z) for z, y, x in places)
    for block in blocks:
        if len(block) != 3 or not all(0 <= at < end for at, end in zip(block, grid, strict=True)):
            raise SimulationError(
                f"block {tuple(block)} is not in the grid {grid}", fix="name blocks (x, y, z) of it"
            )
    return tuple(blocks)


def _bind_arrays(
    program: ThreadProgram, arrays: Mapping[str, Any], values: Mapping[str, Value]
) -> dict[str, GlobalBuffer]:
    pointers = {p.name: p for p in program.params if p.pointer}
    if set(arrays) != set(pointers):
        raise SimulationError(
            f"{program.name} takes the arrays {sorted(pointers)}, got {sorted(arrays)}",
            fix="pass arrays={name: numpy array} for each of them",
        )
    return {
        name: bind_buffer(
            name, p.dtype, tuple(evaluate_symbols(e, values) for e in p.shape), arrays[name],
            p.aligned,
        )
        for name, p in pointers.items()
    }  # fmt: skip
