"""tuning : (bench, configurations) -> Report, in three steps that go on where a run before ended.

    rank    all by the cost model, in parallel
    build   the best few, in parallel; one that cannot be built makes room for the next
    time    those, in turns: a sample of each in every round, every other round backwards

Whatever a configuration does to the process that tries it, the run goes on without it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from hexcute_core.errors import TunerError
from hexcute_core.tuner.bench import Bench
from hexcute_core.tuner.journal import Journal, path_of
from hexcute_core.tuner.progress import Progress
from hexcute_core.tuner.report import Report, report_of
from hexcute_core.tuner.space import text_of
from hexcute_core.tuner.workers import Answer, Died, Done, Hung, Pool, Refused, Worker, each
from hexcute_core.unions import assert_never

TOP, ROUNDS, SECONDS = 16, 9, 120.0


def tune(
    bench: Bench,
    configs: Iterable[Any],
    *,
    top: int = TOP,
    rounds: int = ROUNDS,
    processes: int | None = None,
    seconds: float = SECONDS,
    root: Path | None = None,
    progress: Progress | None = None,
    pool: Pool | None = None,
) -> Report:
    """Times the `top` configurations, by the cost model, of all that are given.

    Each gets `rounds` samples; no answer within `seconds` is a hang. `processes` compile at once, a
    core each by default. Results are kept under `root`, the folder of the kernel cache by default:
    a run that was stopped goes on where it was, and one that was finished is only read. The
    processes end with the run, or where a `pool` is given, with that. Raises TunerError for no
    configurations, or where the processes do not come up.
    """
    wanted = list({text_of(config): config for config in configs}.values())
    if not wanted:
        raise TunerError(f"{bench.task.name}: there are no configurations to tune")
    for name, number in (("top", top), ("rounds", rounds), ("processes", processes)):
        if number is not None and (type(number) is not int or number < 1):
            raise TunerError(f"{name} is {number!r}, expected a number from 1 on")
    shown, count = progress or Progress(), processes or len(os.sched_getaffinity(0))
    workers = pool or Pool()
    try:
        with Journal(bench.task, path_of(bench.task, root)) as journal:
            run = _Run(bench, journal, shown, workers, count, seconds)
            run.rank(wanted)
            chosen = run.build(wanted, top)
            run.time(chosen, rounds)
            return report_of(bench.task, wanted, journal.known)
    finally:
        shown.close()
        if pool is None:
            workers.close()


class _Run:
    def __init__(
        self, bench: Bench, journal: Journal, progress: Progress, pool: Pool, processes: int,
        seconds: float,
    ) -> None:  # fmt: skip
        self.bench, self.journal, self.progress = bench, journal, progress
        self.pool, self.processes, self.seconds = pool, processes, seconds
        self.known = journal.known

    def note(self, config: Any, answer: Answer, **found: object) -> bool:
        """Writes down what came of a configuration; whether it is still one."""
        text = text_of(config)
        match answer:
            case Done():
                if found:
                    self.journal.note(config=text, **found)
                return True
            case Refused(reason):
                self.journal.note(config=text, failed=reason, how="refused")
            case Hung(reason):
                self.journal.note(config=text, failed=reason, how="hung")
            case Died(reason):
                self.journal.note(config=text, failed=reason, how="died")
            case _:
                assert_never(answer)
        return False

    def each(
        self, method: str, configs: Sequence[Any]
    ) -> Generator[tuple[int, Answer], None, None]:
        return each(self.pool, self.bench, method, configs, self.processes, self.seconds)

    def rank(self, configs: Sequence[Any]) -> None:
        known = {*self.known.clocks, *self.known.failed}
        left = [config for config in configs if text_of(config) not in known]
        self.progress.phase("ranking", len(configs), len(configs) - len(left))
        with closing(self.each("clocks", left)) as answers:
            for number, answer in answers:
                answer = _number(answer, "clocks")
                clocks = answer.value if isinstance(answer, Done) else 0.0
                self.note(left[number], answer, clocks=clocks)
                self.progress.step(text_of(left[number]))

    def build(self, configs: Sequence[Any], top: int) -> list[Any]:
        """The best `top` that can be built, in the order of the cost model. What failed once it was
        built keeps its place, so that a run that goes on chooses the same."""
        while True:
            lost = {*self.known.failed} - self.known.built
            able = (c for c in configs if text_of(c) not in lost)
            ranked = sorted(able, key=lambda c: self.known.clocks[text_of(c)])[:top]
            left = [c for c in ranked if text_of(c) not in self.known.built]
            if not left:
                return ranked
            self.progress.phase("building", len(ranked), len(ranked) - len(left))
            with closing(self.each("build", left)) as answers:
                for number, answer in answers:
                    self.note(left[number], answer, built=True)
                    self.progress.step(text_of(left[number]))

    def time(self, configs: Sequence[Any], rounds: int) -> None:
        texts = {text_of(config) for config in configs}
        # Rounds in which not all of them took part say nothing about who is faster.
        done = sum(texts <= {*turn, *self.known.failed} for turn in self.known.rounds)
        if done < len(self.known.rounds):
            self.journal.note(again=True)
            done = 0
        if done >= rounds:
            return
        clock, well = _Clock(self), False
        try:
            # Whatever cannot be timed is met before any sample is taken.
            self.progress.phase("checking", len(configs))
            for config in configs:
                if text_of(config) not in self.known.failed:
                    clock.prepared(config)
                self.progress.step(text_of(config))
            self.progress.phase("timing", rounds, done)
            for turn in range(done, rounds):
                left = [c for c in configs if text_of(c) not in self.known.failed]
                order = left if turn % 2 == 0 else left[::-1]
                samples = {text_of(c): us for c in order if (us := clock.sample(c)) is not None}
                if not samples:
                    break
                self.journal.note(round=samples)
                self.progress.step("")
            well = True
        finally:
            clock.close(well)


def _number(answer: Answer, what: str) -> Answer:
    """The answer, if it is a number that can be compared."""
    if not isinstance(answer, Done):
        return answer
    value = answer.value
    if isinstance(value, (int, float)) and math.isfinite(value):
        return Done(float(value))
    return Refused(f"its {what} are {value!r:.60}, expected a number")


class _Clock:
    """The one process that has the GPU, replaced where a configuration took it along."""

    def __init__(self, run: _Run) -> None:
        self._run = run
        self._worker: Worker | None = None
        self._ready: set[str] = set()

    def prepared(self, config: Any) -> bool:
        """Whether a configuration is ready to be timed; one that cannot be is written down."""
        if self._worker is None:
            self._worker = self._run.pool.hire(self._run.bench).started()
            self._ready = set()
        if text_of(config) in self._ready:
            return True
        answer = self._ask("prepare", config)
        if self._run.note(config, answer):
            self._ready.add(text_of(config))
        return isinstance(answer, Done)

    def sample(self, config: Any) -> float | None:
        """Microseconds, or None for one that cannot be timed any more."""
        if not self.prepared(config):
            return None
        answer = _number(self._ask("sample", config), "microseconds")
        if self._run.note(config, answer) and isinstance(answer, Done):
            return float(answer.value)
        return None

    def _ask(self, method: str, config: Any) -> Answer:
        assert self._worker is not None
        self._worker.ask(method, config, seconds=self._run.seconds)
        answer = self._worker.answer()
        if isinstance(answer, (Hung, Died)):
            self._worker = None
        return answer

    def close(self, well: bool) -> None:
        """Lets the process go; one that is not `well` may still be at something."""
        if self._worker is not None and well:
            self._run.pool.dismiss(self._worker)
        elif self._worker is not None:
            self._worker.kill()
