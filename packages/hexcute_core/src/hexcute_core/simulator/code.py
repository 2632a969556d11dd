"""Step | Routine: what a statement is compiled to.

A step runs through and comes back. A routine may have to wait for other agents: it yields what it
waits for, and goes on when that is ready.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, Union

from hexcute_core.errors import SourceSpan

if TYPE_CHECKING:
    from hexcute_core.simulator.machine import Machine


class Wait(Protocol):
    """What an agent waits for."""

    @property
    def span(self) -> SourceSpan | None:
        """Where the agent stands."""

    def ready(self) -> bool:
        """Whether the agent may go on."""

    def describe(self) -> str:
        """What is waited for and who is missing: `waits at barrier 1 (phase 3) for ...`."""


@dataclass(frozen=True)
class Pause:
    """A place where another agent may come first, and nothing is waited for."""

    span: SourceSpan | None = None

    def ready(self) -> bool:
        """Always."""
        return True

    def describe(self) -> str:
        """It can go on."""
        return "is ready to go on"


PAUSE = Pause()


class NeedsAgents(Exception):
    """The program makes warps wait for each other in a way that lockstep cannot run."""


Step = Callable[["Machine"], None]
Waits = Iterator[Wait]


@dataclass(frozen=True)
class Routine:
    """`start(m)` yields each thing it must wait for."""

    start: Callable[[Machine], Waits]


Code: TypeAlias = Union[Step, Routine]


def then_pause(step: Step) -> Routine:
    """`step`, after which other agents may come first."""

    def start(m: Machine) -> Waits:
        step(m)
        yield PAUSE

    return Routine(start)
