"""Command: a subcommand's name, options and work, whose words go to whoever ran it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

Tell: TypeAlias = Callable[[str], None]
"""Shows a text, and ends its last line."""


@dataclass(frozen=True)
class Command:
    """`NAME ...`: `options` declares what it takes; `run` tells what came of it as it comes, and
    returns the exit status."""

    name: str
    help: str
    options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace, Tell], int]
