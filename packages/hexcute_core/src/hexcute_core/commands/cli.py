"""`run_line`: what all command lines share, and the one place of them that prints."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from hexcute_core.commands.command import Command
from hexcute_core.errors import HexcuteError

INTERRUPTED = 130
UNREAD = 141
"""What shells give for a program whose output is not read any more, as by `head`."""


def run_line(
    prog: str, about: str, commands: Sequence[Command], words: Sequence[str] | None
) -> int:
    """Runs the command that `words` (else the process's arguments) begin with.

    Errors of the user's go to stderr with exit status 1; a command that is stopped by Ctrl-C ends
    with 130, as shells expect, and with what it has to say of that; one whose output nobody reads
    any more with 141, without a word.
    """
    parser = argparse.ArgumentParser(prog=prog, description=about)
    rooms = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in commands:
        room = rooms.add_parser(command.name, help=command.help, description=command.help)
        command.options(room)
    options = parser.parse_args(words)
    (chosen,) = (command for command in commands if command.name == options.command)
    try:
        status = chosen.run(options, print)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        return unread()
    except HexcuteError as error:
        return refused(error)
    except KeyboardInterrupt as stop:
        print("; ".join(("stopped", *map(str, stop.args))), file=sys.stderr)
        return INTERRUPTED


def refused(error: HexcuteError) -> int:
    """Tells the user of an error; the exit status for it."""
    print(f"error: {error}", file=sys.stderr)
    return 1


def unread() -> int:
    """The exit status where nobody reads the output any more, and silence from there on: what is
    left unwritten would be tried again at the end of the process."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return UNREAD
