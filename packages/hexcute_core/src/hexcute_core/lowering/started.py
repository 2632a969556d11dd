"""Copies by cp.async: those that threads only start, and what finishes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hexcute_core.synthesis.solution import Solution
from hexcute_core.tile import AsyncCommit, AsyncWait, Copy, Produce, Stmt, TileProgram
from hexcute_core.tile.visit import bodies, statements


@dataclass(frozen=True)
class Started:
    """`copies` are only started where they stand, but for those into a pipeline's slot, which waits
    for its own. `grouped`: the author closes or awaits groups; `alone`: some copy is in none."""

    copies: tuple[Copy, ...]
    grouped: bool
    alone: bool


def find_started(program: TileProgram, solution: Solution) -> Started:
    """What `program` starts. It is found once: every barrier asks for it."""
    everything = list(statements(program.body))
    filled = {id(s) for p in everything if isinstance(p, Produce) for s in p.body}
    copies = tuple(
        s
        for s in everything
        if isinstance(s, Copy)
        and id(s) not in filled
        and s.id in solution.copies
        and solution.copies[s.id].row.asynchronous
    )
    alone = {id(s) for s in _ungrouped(program.body)}
    return Started(
        copies,
        grouped=any(isinstance(s, (AsyncCommit, AsyncWait)) for s in everything),
        alone=any(id(s) in alone for s in copies),
    )


def _ungrouped(body: Sequence[Stmt]) -> Iterator[Copy]:
    """Copies that no commit follows in their own block."""
    last = max((i for i, s in enumerate(body) if isinstance(s, AsyncCommit)), default=-1)
    for stmt in body[last + 1 :]:
        if isinstance(stmt, Copy):
            yield stmt
    for stmt in body:
        for part in bodies(stmt):
            yield from _ungrouped(part)
