"""A part's table, from that of the whole: the whole and its parts are proven to be one tensor.

Wherever a part begins, what every thread holds of it must be a run of registers, the same for all
threads, which begins as many registers further as the part begins further along each mode.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product as cartesian

import numpy as np

from hexcute_core.arch import Fragment
from hexcute_core.errors import SourceSpan, VerifyError
from hexcute_core.synthesis.proof.tables import Table, digits
from hexcute_core.synthesis.solution import Solution
from hexcute_core.tile import RegisterTensor, TileRef


def part_table(solution: Solution, ref: TileRef, threads: int, span: SourceSpan) -> Table:
    """[thread, value, dimension] -> coordinate in tile `ref`, of what a thread holds of it."""
    f, tensor = solution.fragments[ref.tensor], solution.program.tensor(ref.tensor)
    if not isinstance(tensor, RegisterTensor) or f.shape != tensor.shape:
        raise VerifyError(f"`{ref.tensor}` is laid out as a tile of {f.shape}", span)
    found = _part(f, ref.extents, ref.kept, threads)
    if found is None:
        raise VerifyError(f"`{ref.tensor}`: {f} does not hold its part in one piece", span)
    copied: Table = found.copy()
    return copied


@lru_cache(maxsize=256)
def _part(
    f: Fragment, extents: tuple[int, ...], kept: tuple[int, ...], threads: int
) -> Table | None:
    whole = table(f, threads)
    rooms = [range(extent - size + 1) for extent, size in zip(f.shape, extents)]
    firsts: dict[tuple[int, ...], int] = {}
    first: Table | None = None
    for starts in cartesian(*rooms):
        run = _run(whole, f.shape, starts, extents)
        if run is None:
            return None
        firsts[starts], here = run
        first = here if first is None else first
        if not np.array_equal(here, first):
            return None
    assert first is not None
    steps = [tuple(int(d == m) for d in range(len(rooms))) for m in range(len(rooms))]
    for starts, at in firsts.items():
        if at != sum(s * firsts[step] for s, step in zip(starts, steps) if s):
            return None
    mine: Table = first[..., list(kept)]
    return mine


def _run(
    whole: Table, shape: tuple[int, ...], starts: tuple[int, ...], extents: tuple[int, ...]
) -> tuple[int, Table] | None:
    """The first register of a part, and where each thread's registers of it lie in the part."""
    held = np.ones(whole.shape[:2], dtype=np.bool_)
    for d, (start, size) in enumerate(zip(starts, extents)):
        if size < shape[d]:
            held &= (whole[..., d] >= start) & (whole[..., d] < start + size)
    registers = np.flatnonzero(held[0])
    if (held != held[0]).any() or not len(registers):
        return None
    at = int(registers[0])
    if not np.array_equal(registers, np.arange(at, at + len(registers))):
        return None
    return at, whole[:, registers] - np.array(starts)


@lru_cache(maxsize=64)
def table(f: Fragment, threads: int) -> Table:
    """f(t, v) [thread, value, dimension], threads past the layout's end repeating others."""
    own = digits(np.arange(threads), f.thread, len(f.shape))
    held = digits(np.arange(f.values), f.value, len(f.shape))
    both: Table = own[:, None, :] + held[None, :, :]
    return both
