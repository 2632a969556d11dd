"""timeline : a compiled kernel and the arguments of a call -> when its threads did what.

The stamps are a pass over the thread program, so that the kernel itself is what it is without them;
a stamped one is compiled when it is first asked for, and kept by nobody but its `CompiledKernel`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice, product
from typing import TYPE_CHECKING, Any

import numpy as np

from hexcute_core.arch import Arch
from hexcute_core.backend import emit
from hexcute_core.driver.grid import GridFunction, grid_function
from hexcute_core.errors import LaunchError, OptionError, SimulationError, SourceSpan
from hexcute_core.lowering.stamps import stamped
from hexcute_core.runtime import (
    Grid,
    KernelImage,
    LoadedKernel,
    ScalarParam,
    Signature,
    StampBuffer,
    Written,
    multiprocessors,
)
from hexcute_core.scalar import MULTIPROCESSORS, as_scalar, substitute
from hexcute_core.thread import ThreadProgram
from hexcute_core.thread.stamps import TRACK
from hexcute_core.thread.timeline import Timeline, Track, stretches
from hexcute_core.thread.verify import verify
from hexcute_core.thread.visit import calls
from hexcute_core.tile import Role, TileProgram
from hexcute_core.toolchain import compile_cubin

if TYPE_CHECKING:
    from hexcute_core.driver.compiled import CompiledKernel
    from hexcute_core.simulator import SimulationReport

BLOCKS = 8
"""Blocks of a launch that are told of where none are named: the first."""
ROOM, MOST_ROOM = 4096, 2**24
"""Rows of stamps a track has room for, unless more are asked for, and at most."""
_WRAP = 2**32


class Stamped:
    """A compiled kernel with stamps."""

    def __init__(self, compiled: CompiledKernel) -> None:
        self.thread: ThreadProgram = stamped(compiled.thread)
        verify(self.thread)
        self._compiled = compiled
        self._loaded: LoadedKernel | None = None

    def _image(self) -> KernelImage:
        thread, signature = self.thread, self._compiled.signature
        source = emit(thread, self._compiled.code)
        cubin = compile_cubin(source.text, self._compiled.code)
        assert thread.stamps is not None
        hidden = [ScalarParam(param, "u64") for param in thread.stamps.params]
        given: Signature = replace(signature, params=(*signature.params, *hidden))
        return KernelImage(
            source.entry, cubin.cubin, cubin.arch, thread.shared_bytes, (thread.block_dim, 1, 1),
            given, thread.maps, thread.cluster_dim, calls(thread.body, "griddepcontrol.wait"),
        )  # fmt: skip

    def launch(
        self, device: int, values: Sequence[Any], blocks: Sequence[Grid] | None, room: int
    ) -> Timeline:
        """One launch on a GPU with what a binder of the kernel's signature gave, waited for."""
        signature, thread = self._compiled.signature, self.thread
        grid = self._grid(device)(values)
        chosen = _chosen(grid, blocks, signature.span)
        if self._loaded is None:
            self._loaded = LoadedKernel(self._image())
        assert thread.stamps is not None
        runs = thread.stamps.runs
        buffer = StampBuffer(device, grid, chosen, thread.block_dim, runs, room, signature.span)
        before = len(signature.tensors) + len(signature.scalars)
        given = (*values[:before], *buffer.given, *values[before:])
        self._loaded.launch_bound(grid, device, given)
        return told(thread, self._compiled.tile, buffer.read())

    def simulate(
        self,
        arrays: Mapping[str, Any],
        numbers: Mapping[str, int | float],
        blocks: Sequence[Grid] | None,
        check: bool,
        arch: Arch,
    ) -> SimulationReport:
        """A run on the CPU by the clocks of the cost model for `arch`, with its timeline."""
        from hexcute_core.simulator import simulate
        from hexcute_core.simulator.meter import Meter

        thread = self.thread
        assert thread.stamps is not None
        meter = Meter(thread, arch)
        given = {**numbers, **dict.fromkeys(thread.stamps.params, 0)}
        report = simulate(thread, arrays, given, blocks, check=check, meter=meter)
        stamps: dict[tuple[Grid, int], list[tuple[int | None, float]]] = {}
        for block, first, opens, time in meter.stamps:
            stamps.setdefault((block, first), []).append((opens, time))
        called, tracks = names(self._compiled.tile), []
        for block in report.blocks:
            for i, name in enumerate(called):
                began = meter.began.get(block, 0.0)
                end = meter.ended.get((block, i * TRACK), began)
                found = stretches(thread.stamps.intervals, stamps.get((block, i * TRACK), []), end)
                tracks.append(Track(block, name, began, end, found))
        return replace(report, timeline=Timeline(thread.name, "clocks", tuple(tracks)))

    def _grid(self, device: int) -> GridFunction:
        count = {MULTIPROCESSORS.name: as_scalar(multiprocessors(device))}
        grid = [substitute(e, count) for e in self.thread.grid_dim]
        return grid_function(grid, self._compiled.signature.value_names)


def _chosen(
    grid: Grid, blocks: Sequence[Grid] | None, span: SourceSpan | None
) -> tuple[Grid, ...]:
    """The blocks to tell of, as far as they are in the grid."""
    if blocks is None:
        x, y, z = grid
        places = product(range(z), range(y), range(x))
        return tuple((i, j, k) for k, j, i in islice(places, BLOCKS))
    # What may be named is what a simulation may.
    from hexcute_core.simulator.arguments import bind_blocks

    try:
        bound = bind_blocks(grid, blocks)
        return tuple(dict.fromkeys((int(x), int(y), int(z)) for x, y, z in bound))
    except SimulationError as wrong:
        raise LaunchError(wrong.message, span, wrong.fix) from None


def check_room(room: object, span: SourceSpan | None) -> int:
    """The number of rows of stamps a track has room for."""
    if type(room) is not int or not 1 <= room <= MOST_ROOM:
        raise OptionError(
            f"stamps is {room!r}, expected a whole number from 1 to {MOST_ROOM}", span,
            f"pass stamps={ROOM}",
        )  # fmt: skip
    return room


def names(tile: TileProgram) -> list[str]:
    """What each warp group of a block is called: by its role, where it has one."""
    roles = [stmt for stmt in tile.body if isinstance(stmt, Role)]
    alike = [r.kind for r in roles]
    found = []
    for first in range(0, tile.block_dim, TRACK):
        last = min(first + TRACK, tile.block_dim) - 1
        name = f"threads {first} to {last}"
        for i, role in enumerate(roles):
            if role.first <= first < role.first + role.threads:
                number = f" {alike[:i].count(role.kind)}" if alike.count(role.kind) > 1 else ""
                name = f"{role.kind}{number}, {name}"
        found.append(name)
    return found


def told(thread: ThreadProgram, tile: TileProgram, written: Sequence[Written]) -> Timeline:
    """The timeline of what a launch wrote.

    Clocks of multiprocessors begin anywhere and have one speed, which the tracks' ends tell all
    together; the nanoseconds at the ends of a block's tracks say where it begins.
    """
    assert thread.stamps is not None
    spent = sum((w.end[1] - w.start[1]) % _WRAP for w in written)
    passed = sum(w.end[0] - w.start[0] for w in written)
    pace = passed / spent if spent and passed else 1.0
    begins = _begins(written, pace)
    origin = min(begins.values(), default=0.0)
    called, tracks = names(tile), []
    for w in written:
        # A clock counts on from the one before it, however often it went round.
        counted = np.array([w.start[1], *(clock for _, clock in w.stamps)], dtype=np.uint32)
        clocks = np.concatenate([[0], np.cumsum(np.diff(counted).astype(np.int64))])
        base = begins[w.block] - origin + _since(w, written) * pace
        times = [base + float(c) * pace for c in clocks[1:]]
        end = base + (w.end[1] - w.start[1]) % _WRAP * pace
        end = max([end, *times])
        stamps = [(number, time) for (number, _), time in zip(w.stamps, times, strict=True)]
        last = times[-1] if w.lost and times else end
        found = stretches(thread.stamps.intervals, stamps, last)
        name = called[w.track]
        tracks.append(Track(w.block, name, base, end, found, w.multiprocessor, w.lost))
    return Timeline(thread.name, "ns", tuple(tracks), 1.0 / pace)


def _since(w: Written, written: Sequence[Written]) -> int:
    """Clocks from the start of its block's first track to its own."""
    first = next(other for other in written if other.block == w.block)
    since = (w.start[1] - first.start[1]) % _WRAP
    return since - _WRAP if since >= _WRAP // 2 else since


def _begins(written: Sequence[Written], pace: float) -> dict[Grid, float]:
    """The nanosecond at which each block's first track starts, as its tracks' ends tell it on
    average: nanoseconds go on in steps."""
    seen: dict[Grid, list[float]] = {}
    for w in written:
        since = _since(w, written)
        long = (w.end[1] - w.start[1]) % _WRAP
        both = (w.start[0] - since * pace, w.end[0] - (since + long) * pace)
        seen.setdefault(w.block, []).extend(both)
    return {block: sum(times) / len(times) for block, times in seen.items()}
