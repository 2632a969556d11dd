"""Report = what a tuning run found of each configuration, the fastest first."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hexcute_core.errors import TunerError
from hexcute_core.tuner.bench import Task
from hexcute_core.tuner.journal import Known
from hexcute_core.tuner.space import text_of

TIMED, RANKED = "timed", "ranked"


@dataclass(frozen=True)
class Outcome:
    """A configuration: by the cost model, by the clock (microseconds, a sample a round), and what
    became of it: "timed", "ranked" (behind those that were timed), "refused" (by the compiler, or
    its results are wrong), "hung" or "died" (with its process), with the reason."""

    config: Any
    status: str
    clocks: float | None = None
    samples: tuple[float, ...] = ()
    reason: str = ""

    @property
    def us(self) -> float | None:
        """The median of the samples."""
        return statistics.median(self.samples) if self.samples else None


@dataclass(frozen=True)
class Report:
    """All outcomes of a task: those that were timed first, the fastest before all."""

    task: Task
    outcomes: tuple[Outcome, ...]

    @property
    def best(self) -> Outcome:
        """The fastest. Raises TunerError where none could be timed, with each one's reason."""
        if not self.outcomes or self.outcomes[0].us is None:
            reasons = [f"  {text_of(o.config)}: {o.reason or o.status}" for o in self.outcomes[:8]]
            raise TunerError(
                "\n".join([f"{self.task.name}: no configuration could be timed", *reasons])
            )
        return self.outcomes[0]

    def text(self, most: int = 10) -> str:
        """A table of the first few."""
        lines = [f"{self.task.name} on {self.task.gpu}, {self.task.bucket}"]
        for outcome in self.outcomes[:most]:
            us = "" if outcome.us is None else f"{outcome.us:.2f} us"
            lines.append(f"{us:>12}  {outcome.status:8} {text_of(outcome.config)}")
            if outcome.reason:
                lines.append(f"{'':24}{outcome.reason[:100]}")
        if len(self.outcomes) > most:
            lines.append(f"{'':12}  and {len(self.outcomes) - most} more")
        return "\n".join(lines)


def report_of(task: Task, configs: Sequence[Any], known: Known) -> Report:
    """What is known of these configurations."""
    outcomes = [_outcome(config, known) for config in configs]
    return Report(task, tuple(sorted(outcomes, key=_order)))


def _outcome(config: Any, known: Known) -> Outcome:
    text = text_of(config)
    clocks = known.clocks.get(text)
    samples = tuple(turn[text] for turn in known.rounds if text in turn)
    if text in known.failed:
        how, reason = known.failed[text]
        return Outcome(config, how, clocks, (), reason)
    return Outcome(config, TIMED if samples else RANKED, clocks, samples)


def _order(outcome: Outcome) -> tuple[int, float]:
    if outcome.us is not None:
        return 0, outcome.us
    if outcome.status == RANKED and outcome.clocks is not None:
        return 1, outcome.clocks
    return 2, 0.0
