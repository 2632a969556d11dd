"""Command: a subcommand's name, options and work; `run_line` is what all command lines share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hexcute_core.errors import HexcuteError

INTERRUPTED = 130


@dataclass(frozen=True)
class Command:
    """`NAME ...`: `options` declares what it takes, `run` returns the exit status."""

    name: str
    help: str
    options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def run_line(
    prog: str, about: str, commands: Sequence[Command], words: Sequence[str] | None
) -> int:
    """Runs the command that `words` (else the process's arguments) begin with.

    Errors of the user's go to stderr with exit status 1; a command that is stopped by Ctrl-C ends
    with 130, as shells expect.
    """
    parser = argparse.ArgumentParser(prog=prog, description=about)
    rooms = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in commands:
        room = rooms.add_parser(command.name, help=command.help, description=command.help)
        command.options(room)
    options = parser.parse_args(words)
    (chosen,) = (command for command in commands if command.name == options.command)
    try:
        return chosen.run(options)
    except HexcuteError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return INTERRUPTED
