"""by_team(program) = every statement with the threads that run it together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hexcute_core.tile.ir import (
    For,
    ForElements,
    If,
    Nest,
    Produce,
    Role,
    Stmt,
    TileProgram,
    While,
)
from hexcute_core.tile.visit import placed
from hexcute_core.unions import assert_never


@dataclass(frozen=True)
class Team:
    """The threads [first, first + threads) of a block, and the registers each has claimed."""

    first: int
    threads: int
    registers: int | None = field(default=None, compare=False)


def whole_block(program: TileProgram) -> Team:
    """All threads of a block."""
    return Team(0, program.block_dim)


def by_team(program: TileProgram) -> Iterator[tuple[Stmt, Team]]:
    """Every statement with the threads that run it; a role itself with those around it."""
    return placed(program.body, whole_block(program), inner_team)


def inner_team(stmt: Nest, team: Team) -> Team:
    """The threads that run the bodies of `stmt`, which `team` runs."""
    match stmt:
        case Role():
            return Team(stmt.first, stmt.threads, stmt.registers)
        case For() | While() | If() | Produce() | ForElements():
            return team
        case _:
            assert_never(stmt)
