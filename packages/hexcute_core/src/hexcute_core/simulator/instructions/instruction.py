"""Instruction = what the simulator must know of a primitive before it runs it.

An architecture's primitives are tables: functions from a name to an `Instruction`, or None for a
name that is not theirs. Adding some takes a new file with such a function, named in
`primitives.TABLES`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from hexcute_core.simulator.code import Code
from hexcute_core.thread import Prim

if TYPE_CHECKING:
    from hexcute_core.simulator.statements import StatementCompiler

Maker: TypeAlias = "Callable[[Prim, StatementCompiler], Code]"


@dataclass(frozen=True)
class Instruction:
    """`make` compiles one use.

    `shared` and `global_` are the bytes a lane touches at once of either memory (0 for none), the
    granules that races are told apart by; `writes` says that it writes global memory, `polls`
    that a loop around it may wait for another agent's write. One that cannot run in lockstep,
    because warps wait for each other in it, begins its `make` with `compiler.require_agents()`.
    """

    make: Maker
    shared: int = 0
    global_: int = 0
    writes: bool = False
    polls: bool = False


Table = Callable[[str], "Instruction | None"]


def split_size(name: str, sizes: tuple[int, ...]) -> tuple[str, int] | None:
    """`family.B` as (family, B) where B is one of `sizes`."""
    family, _, last = name.rpartition(".")
    return (family, int(last)) if last.isdigit() and int(last) in sizes else None
