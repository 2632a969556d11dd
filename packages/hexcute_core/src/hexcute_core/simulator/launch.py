"""simulate(program, arrays, scalars) = the arrays the kernel leaves, or the first thing it does
that a GPU does not define."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hexcute_core.simulator.arguments import bind_arrays, bind_blocks, bind_grid, bind_scalars
from hexcute_core.simulator.buffers import GlobalBuffer
from hexcute_core.simulator.counting import Counters, Tally
from hexcute_core.simulator.lanes import Block
from hexcute_core.simulator.machine import Machine
from hexcute_core.simulator.primitives import compile_primitive, shared_bytes
from hexcute_core.simulator.shared import SharedArena
from hexcute_core.simulator.statements import StatementCompiler
from hexcute_core.simulator.values import Array
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
    arrays: Mapping[str, Array],
    scalars: Mapping[str, int | float],
    blocks: Sequence[Block] | None = None,
) -> SimulationReport:
    """Runs `program` on the CPU, every lane of every block of `blocks` (default: the whole grid).

    `arrays` holds a C-contiguous numpy array for each pointer parameter, written in place when
    the run ends well; `scalars` a number for each scalar parameter and symbol. Raises
    SimulationError at the first race, out-of-bounds, misaligned or uninitialised access, use
    before a wait, or divergent barrier, located in the source.
    """
    pointers = {p.name: p for p in program.params if p.pointer}
    values = bind_scalars(
        program.name, {p.name: p.dtype for p in program.params if not p.pointer}, scalars
    )
    grid = bind_grid(program.grid_dim, values)
    chosen = bind_blocks(grid, blocks)
    expected = {name: (p.dtype, p.shape) for name, p in pointers.items()}
    bound = bind_arrays(program.name, expected, arrays, values)
    buffers = {
        name: GlobalBuffer(name, pointers[name].dtype, array, pointers[name].aligned)
        for name, array in bound.items()
    }
    compiler = StatementCompiler(compile_primitive)
    body = compiler.block(program.body)
    granule = min([n for p in _prims(program.body) if (n := shared_bytes(p.name))], default=16)
    # Only whole warps line up when blocks run side by side.
    batch = max(1, BATCH_LANES // program.block_dim) if program.block_dim % 32 == 0 else 1
    tally = Tally()
    with np.errstate(all="ignore"):
        for first in range(0, len(chosen), batch):
            part = chosen[first : first + batch]
            shared = SharedArena(program.shared_bytes, len(part), granule)
            body(
                Machine(
                    part, grid, program.block_dim, shared, buffers, values, compiler.sites, tally
                )
            )
    for buffer in buffers.values():
        buffer.write_back()
    return SimulationReport(bound, tally.freeze(), chosen)


def _prims(stmts: Sequence[Stmt]) -> Iterator[Prim]:
    for stmt in stmts:
        if isinstance(stmt, Prim):
            yield stmt
        elif isinstance(stmt, (For, While)):
            yield from _prims(stmt.body)
        elif isinstance(stmt, If):
            yield from _prims(stmt.then)
            yield from _prims(stmt.otherwise)
