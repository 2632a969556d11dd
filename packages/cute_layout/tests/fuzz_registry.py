"""The registry of fuzzed operations, and what a run of one counts."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class Tally:
    """What a run of one operation saw."""

    cases: int = 0
    rejected: int = 0
    unproven: int = 0


class Wrong(AssertionError):
    """A result that is not the function it must be, or a refusal of something that exists."""


def check(holds: bool, *what: object) -> None:
    if not holds:
        raise Wrong(" ".join(map(str, what)))


CASES: dict[str, Callable[[random.Random, Tally], None]] = {}


def operation(
    run: Callable[[random.Random, Tally], None],
) -> Callable[[random.Random, Tally], None]:
    CASES[run.__name__] = run
    return run


def run(name: str, count: int, seed: int) -> Tally:
    """Run `count` cases of an operation; raises `Wrong` at the first wrong one."""
    tally = Tally()
    case = CASES[name]
    for k in range(count):
        case(random.Random(f"{name} {seed} {k}"), tally)
        tally.cases += 1
    return tally
