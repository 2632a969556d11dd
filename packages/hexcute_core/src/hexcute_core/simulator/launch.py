"""simulate(program, arrays, scalars) = the arrays the kernel leaves, what a GPU would not define
on the way, and what it costs.

Blocks run in lockstep, side by side, as long as all warps of a block meet at the same barriers
and the schedule is the adversary's; otherwise every warp is an agent of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from hexcute_core.errors import SimulationError, SourceSpan
from hexcute_core.progress import Line, working
from hexcute_core.simulator.agents import BlockAgents, Scheduler
from hexcute_core.simulator.arguments import (
    bind_arrays,
    bind_blocks,
    bind_clusters,
    bind_grid,
    bind_scalars,
    check_schedules,
    refuse_overlap,
)
from hexcute_core.simulator.code import Code, NeedsAgents, Routine
from hexcute_core.simulator.counting import Counters, Tally
from hexcute_core.simulator.findings import Findings, RunEnds
from hexcute_core.simulator.instructions.boxes import mapped
from hexcute_core.simulator.lanes.state import WARP, Block
from hexcute_core.simulator.lanes.values import Array, Value
from hexcute_core.simulator.machine import Machine
from hexcute_core.simulator.memory.buffers import GlobalBuffer
from hexcute_core.simulator.memory.shared import SharedArena
from hexcute_core.simulator.meter import Meter
from hexcute_core.simulator.primitives import (
    compile_primitive,
    global_granules,
    polls,
    reaches,
    shared_granule,
)
from hexcute_core.simulator.report import SimulationReport
from hexcute_core.simulator.statements import StatementCompiler, started
from hexcute_core.simulator.world import World
from hexcute_core.thread import ThreadProgram

BATCH_LANES = 1024
"""Blocks run side by side up to this many lanes: numpy's cost a call is then well spread."""
BLOCKS_AT_ONCE = 4
"""Blocks whose agents a drawn schedule interleaves."""


def simulate(
    program: ThreadProgram,
    arrays: Mapping[str, Array],
    scalars: Mapping[str, int | float],
    blocks: Sequence[Block] | None = None,
    *,
    seed: int = 0,
    schedules: int = 1,
    check: bool = True,
    meter: Meter | None = None,
) -> SimulationReport:
    """Runs `program` on the CPU, every lane of every block of `blocks` (default: the whole grid).

    `arrays` holds a numpy array for each pointer parameter, C-contiguous unless it has strides of
    its own, written in place by the first schedule when it has ended; `scalars` a number for each
    scalar parameter and symbol.
    Seeds `seed` to `seed + schedules - 1` are run: 0 is the adversary, for whom everything
    asynchronous is as late as its waits allow, the others draw the order of warps and of
    completions. With `check` the first finding (a race, a deadlock, an access that is out of
    bounds, misaligned, uninitialised or before its wait, a divergent barrier) is raised as a
    SimulationError, located in the source; without, the report collects them. With a `meter`, one
    schedule is run, in the order of its clocks.
    """
    check_schedules(seed, schedules)
    run = _Launch(program, arrays, scalars, blocks, meter)
    findings = Findings(check)
    seeds = tuple(range(seed, seed + max(1, schedules)))
    first: _Left | None = None
    same = True
    total = len(run.chosen) * len(seeds)
    with np.errstate(all="ignore"), working(f"simulating {program.name}", total) as progress:
        for one in seeds:
            left = run.schedule(one, findings, progress)
            if first is None:
                first = left
            else:
                same = same and left.same(first)
    assert first is not None
    for buffer in first.buffers.values():
        buffer.write_back()
    return SimulationReport(
        run.arrays, first.counters, run.chosen, findings.all(), seeds, same, (), first.printed
    )


@dataclass(frozen=True)
class _Left:
    """What one schedule left."""

    buffers: Mapping[str, GlobalBuffer]
    counters: Counters
    printed: str

    def same(self, other: _Left) -> bool:
        """Whether the buffers hold the same bytes."""
        return all(self.buffers[name].holds_same(buffer) for name, buffer in other.buffers.items())


@dataclass
class _Launch:
    """A program bound to its arguments."""

    program: ThreadProgram
    given: Mapping[str, Array]
    scalars: Mapping[str, int | float]
    blocks: Sequence[Block] | None
    meter: Meter | None = None
    _compiled: dict[bool, tuple[Code, list[SourceSpan | None]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        program = self.program
        names = {p.name: p.dtype for p in program.params if not p.pointer}
        self.values: dict[str, Value] = bind_scalars(program.name, names, self.scalars)
        self.grid = bind_grid(
            program.name, program.grid_dim, program.cluster_dim, self.values
        )
        self.chosen = bind_blocks(self.grid, self.blocks)
        self.pointers = {p.name: p for p in program.params if p.pointer}
        pointers = tuple(self.pointers.values())
        self.arrays = bind_arrays(program.name, pointers, self.given, self.values)
        self.mapped = {p.name: mapped(p, self.values) for p in pointers}
        self.granules = global_granules(program)
        self.granule = shared_granule(program)
        for name, array in self.arrays.items():
            if self.granules.get(name) is not None and not array.flags.writeable:
                raise SimulationError(
                    f"argument {name}: {program.name} writes it, and the array is read-only",
                    fix=f"pass {name}.copy()",
                )
        written = {name for name, granule in self.granules.items() if granule is not None}
        refuse_overlap(program.name, self.arrays, written)

    def schedule(self, seed: int, findings: Findings, progress: Line) -> _Left:
        """One run of all blocks."""
        if seed == 0 and self.meter is None:
            try:
                return self._run(seed, findings, progress, agents=False)
            except NeedsAgents:
                pass
        return self._run(seed, findings, progress, agents=True)

    def _run(self, seed: int, findings: Findings, progress: Line, agents: bool) -> _Left:
        code, sites = self._compile(agents)
        buffers = {
            name: GlobalBuffer(
                name, self.pointers[name].dtype, array, self.pointers[name].aligned,
                self.granules.get(name), self.pointers[name].begins,
            )
            for name, array in self.arrays.items()
        }  # fmt: skip
        tally = Tally()
        world = World(
            self.chosen, self.grid, self.program.block_dim, buffers, self.values, sites, tally,
            findings, seed,
        )  # fmt: skip
        world.maps = {tensor_map.name: tensor_map for tensor_map in self.program.maps}
        world.mapped = self.mapped
        world.together = self.program.min_blocks or 1
        world.meter = self.meter
        try:
            if agents:
                self._interleaved(world, code, progress)
            else:
                self._lockstep(world, code, progress)
        except RunEnds:
            pass
        return _Left(buffers, tally.freeze(sites), "".join(world.printed))

    def _compile(self, agents: bool) -> tuple[Code, list[SourceSpan | None]]:
        if agents not in self._compiled:
            compiler = StatementCompiler(compile_primitive, agents, polls, self.meter)
            self._compiled[agents] = compiler.block(self.program.body), compiler.sites
        return self._compiled[agents]

    def _lockstep(self, world: World, code: Code, progress: Line) -> None:
        if isinstance(code, Routine):
            raise NeedsAgents
        threads, count = self.program.block_dim, len(self.chosen)
        # Only whole warps line up when blocks run side by side.
        batch = max(1, BATCH_LANES // threads) if threads % WARP == 0 else 1
        for first in range(0, count, batch):
            part = range(first, min(first + batch, count))
            shared = SharedArena(self.program.shared_bytes, len(part), self.granule)
            code(Machine(world, part, shared))
            progress.update(len(part))

    def _interleaved(self, world: World, code: Code, progress: Line) -> None:
        world.watched = True
        start, program = started(code), self.program
        clusters = bind_clusters(self.chosen, program.cluster_dim)
        guests = prod(program.cluster_dim) if reaches(program) else 0
        order = np.arange(len(clusters))
        at_once = 1
        if world.seed:
            world.random.shuffle(order)
            at_once = BLOCKS_AT_ONCE

        def groups() -> Iterator[list[BlockAgents]]:
            for done, index in enumerate(order):
                progress.update(len(clusters[index]) if done else 0)
                yield [
                    BlockAgents(world, ordinal, program.shared_bytes, self.granule, start, guests)
                    for ordinal in clusters[index]
                ]

        Scheduler(world, groups(), at_once).run()
