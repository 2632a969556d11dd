"""`main`: the commands of this package and those that other packages add, by name."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import entry_points

from hexcute_core.commands.cli import refused, run_line
from hexcute_core.commands.command import Command
from hexcute_core.commands.doctor import DOCTOR
from hexcute_core.errors import MissingDependency

GROUP = "hexcute.commands"
"""Entry points of this group are Commands of other packages."""


def _added() -> list[Command]:
    found = sorted(entry_points(group=GROUP), key=lambda point: point.name)
    return [command for point in found if isinstance(command := point.load(), Command)]


def _all() -> tuple[Command, ...]:
    """Raises MissingDependency where what the compiler needs is missing: the doctor alone does
    without."""
    from hexcute_core.commands.caching import CACHE
    from hexcute_core.commands.running import RUNNING
    from hexcute_core.commands.showing import SHOWING

    return (*SHOWING, *RUNNING, CACHE, DOCTOR, *_added())


def main(words: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit status; `words` are the process's arguments where
    they are not given."""
    given = sys.argv[1:] if words is None else words
    try:
        commands = _all()
    except MissingDependency as missing:
        if list(given[:1]) != [DOCTOR.name]:
            return refused(missing)
        commands = (DOCTOR,)
    return run_line("hexcute", "Compile kernels, and show what came of them.", commands, given)
