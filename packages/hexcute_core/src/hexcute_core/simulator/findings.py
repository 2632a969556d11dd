"""Finding = one thing the machine does not define, with both places in the source.

A run collects its findings, each (kind, place, other place) once; one that checks raises the
first instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hexcute_core.errors import SimulationError, SourceSpan
from hexcute_core.simulator.lanes.state import Block

Kind = Literal[
    "race", "deadlock", "out of bounds", "uninitialised read", "misaligned access",
    "divergent barrier", "divergent instruction", "transaction bytes", "use before wait",
    "barrier misuse", "missing fence", "assertion", "undefined",
]  # fmt: skip

LIMIT = 100
"""Findings a run keeps before it ends."""


@dataclass(frozen=True)
class Finding:
    """What happened at `span`, and `other`, the place it has to do with (None where there is
    none). `seed` replays the schedule: `simulate(..., seed=finding.seed)`."""

    kind: Kind
    message: str
    span: SourceSpan | None
    other: SourceSpan | None = None
    fix: str | None = None
    block: Block | None = None
    thread: int | None = None
    seed: int = 0

    @property
    def headline(self) -> str:
        """The kind and the message."""
        said = self.message.startswith(self.kind)
        return self.message if said else f"{self.kind}: {self.message}"

    def __str__(self) -> str:
        head = self.headline
        head = head if self.span is None else f"{self.span}: {head}"
        return head if self.fix is None else f"{head}\n  fix: {self.fix}"


class FoundError(SimulationError):
    """A finding of a run that checks; `finding` has its parts."""

    def __init__(self, finding: Finding) -> None:
        seed = f" (seed {finding.seed})" if finding.seed else ""
        super().__init__(f"{finding.headline}{seed}", finding.span, finding.fix)
        self.finding = finding


class RunEnds(Exception):
    """The run cannot go on after a finding that was kept."""


class Findings:
    """What the runs of one call found, in order."""

    def __init__(self, check: bool) -> None:
        self.check = check
        self._found: dict[tuple[object, ...], Finding] = {}

    def add(self, finding: Finding) -> None:
        """Keeps a finding, or raises it where the run checks."""
        if self.check:
            raise FoundError(finding)
        self._found.setdefault((finding.kind, finding.span, finding.other), finding)
        if len(self._found) >= LIMIT:
            raise RunEnds

    def all(self) -> tuple[Finding, ...]:
        """Everything kept so far."""
        return tuple(self._found.values())
