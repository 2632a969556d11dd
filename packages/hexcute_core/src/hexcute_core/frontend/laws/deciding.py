"""deciding(program) = the variables on which it depends, by way of others too, what runs and how
often: names in conditions and in bounds of loops, and in whatever those are computed from.
"""

from __future__ import annotations

from hexcute_core.scalar import Scalar, free_vars
from hexcute_core.tile import Assign, For, If, TileProgram, While
from hexcute_core.tile.visit import statements


def deciding(program: TileProgram) -> frozenset[str]:
    """Names of variables and symbols that decide what `program` runs."""
    asked: list[Scalar] = []
    made: dict[str, list[Scalar]] = {}
    for stmt in statements(program.body):
        if isinstance(stmt, (If, While)):
            asked.append(stmt.cond)
        elif isinstance(stmt, For):
            asked += (stmt.start, stmt.stop, stmt.step)
        elif isinstance(stmt, Assign):
            made.setdefault(stmt.var.name, []).append(stmt.value)
    found: set[str] = set()
    while asked:
        new = free_vars(asked.pop()) - found
        found |= new
        asked += (value for name in new for value in made.get(name, ()))
    return frozenset(found)
