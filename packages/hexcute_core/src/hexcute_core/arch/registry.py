"""Tables by name."""

from __future__ import annotations

from hexcute_core.arch.rows import Arch
from hexcute_core.arch.sm80 import SM80, SM86, SM89
from hexcute_core.arch.sm90 import SM90
from hexcute_core.errors import HexcuteError

_TABLES: dict[str, Arch] = {table.name: table for table in (SM80, SM86, SM89, SM90)}


def register(table: Arch) -> None:
    """Adds a table, or replaces the one of the same name."""
    _TABLES[table.name] = table


def names() -> tuple[str, ...]:
    """Names of all tables."""
    return tuple(_TABLES)


def arch(name: str) -> Arch:
    """The table called `name`, e.g. `sm_90`."""
    table = _TABLES.get(name)
    if table is None:
        raise HexcuteError(f"unknown target {name!r}", fix=f"use one of {', '.join(_TABLES)}")
    return table
