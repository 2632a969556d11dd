"""Verdict = what became of one try; log(verdicts) = how many of each, and every fault."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

PROVED = "proved without effect"
"""How a mistake ends that leaves all in order, as `proof` shows."""
SECONDS = 60
"""A try that computes for longer counts as one that hangs."""
ASLEEP = 10
"""So many times longer may pass on the clock: a machine with other work gives less than a core, and
what waits for ever computes nothing."""


@dataclass(frozen=True)
class Verdict:
    """One try of a `part`: of which kind, how it ended, and whether that is as it should be."""

    part: str
    kind: str
    end: str
    good: bool
    detail: str = ""


class Hangs(BaseException):
    """A try took too long: no Exception, so that nobody takes it for one of theirs."""


@contextmanager
def limited(seconds: float = SECONDS) -> Iterator[None]:
    """Raises Hangs within, once this process has computed for so many seconds, or slept on."""

    def stop(*_: object) -> None:
        raise Hangs

    timers = {
        signal.ITIMER_PROF: (signal.SIGPROF, seconds),
        signal.ITIMER_REAL: (signal.SIGALRM, seconds * ASLEEP),
    }
    before = {sign: signal.signal(sign, stop) for sign, _ in timers.values()}
    for timer, (_, most) in timers.items():
        signal.setitimer(timer, most)
    try:
        yield
    finally:
        for timer in timers:
            signal.setitimer(timer, 0)
        for sign, handler in before.items():
            signal.signal(sign, handler)


def table(verdicts: Iterable[Verdict]) -> list[str]:
    """A line for each kind, with the number of each end."""
    rows: dict[str, Counter[str]] = {}
    for verdict in verdicts:
        rows.setdefault(verdict.kind, Counter())[verdict.end] += 1
    lines = []
    for kind, ends in sorted(rows.items()):
        counts = ", ".join(f"{count} {end}" for end, count in sorted(ends.items()))
        lines.append(f"  {kind:<28} {sum(ends.values()):>5}: {counts}")
    return lines


def log(parts: dict[str, list[Verdict]], explained: Callable[[Verdict], str]) -> str:
    """The summary that is committed; what is not as it should be, and what is proved to have no
    effect, is listed with its explanation."""
    lines = []
    for part, verdicts in parts.items():
        faults = [verdict for verdict in verdicts if not verdict.good]
        lines += [f"{part}: {len(verdicts)} tries, {len(faults)} faults", *table(verdicts)]
        for what, some in (
            ("faults", faults), (PROVED, [verdict for verdict in verdicts if verdict.end == PROVED])
        ):  # fmt: skip
            reasons: dict[str, list[Verdict]] = {}
            for one in some:
                reasons.setdefault(explained(one), []).append(one)
            for reason, alike in reasons.items():
                lines.append(f"  {len(alike)} {what}: {reason}")
                lines += [f"    {one.kind}: {one.detail}" for one in alike]
        lines.append("")
    return "\n".join(lines)
