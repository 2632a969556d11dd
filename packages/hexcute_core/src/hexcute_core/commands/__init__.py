"""`hexcute explain FILE:KERNEL`: the command line, one or two files per subcommand.

Each is a `Command`; `main` finds the one that was asked for, and runs it. Other packages add theirs
as entry points of the group `hexcute.commands`.
"""

from hexcute_core.commands.cli import run_line, unread
from hexcute_core.commands.command import Command, Tell
from hexcute_core.commands.main import main

__all__ = ["Command", "Tell", "main", "run_line", "unread"]
