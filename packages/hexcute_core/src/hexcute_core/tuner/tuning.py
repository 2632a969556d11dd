"""tuning : (bench, configurations) -> Report, in three steps that go on where a run before ended.

    rank    all by the cost model, in parallel
    build   the best few, in parallel; one that cannot be built makes room for the next
    time    those, in turns: a sample of each in every round, every other round backwards

Whatever a configuration does to the process that tries it, the run goes on without it. Several GPUs
of one host share what is to be timed.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from hexcute_core.errors import TunerError
from hexcute_core.runtime import device_count
from hexcute_core.tuner.bench import Bench
from hexcute_core.tuner.clocks import Clocks, number
from hexcute_core.tuner.journal import Journal, path_of
from hexcute_core.tuner.progress import Progress
from hexcute_core.tuner.report import Report, report_of
from hexcute_core.tuner.space import text_of
from hexcute_core.tuner.workers import Answer, Died, Done, Hung, Pool, Refused, each
from hexcute_core.unions import assert_never

TOP, ROUNDS, SECONDS = 16, 9, 120.0


def tune(
    bench: Bench,
    configs: Iterable[Any],
    *,
    top: int = TOP,
    rounds: int = ROUNDS,
    processes: int | None = None,
    gpus: int | None = None,
    seconds: float = SECONDS,
    root: Path | None = None,
    progress: Progress | None = None,
    pool: Pool | None = None,
) -> Report:
    """Times the `top` configurations, by the cost model, of all that are given.

    Each gets `rounds` samples; no answer within `seconds` is a hang. `processes` compile at once, a
    core each by default, and so many `gpus` time, by default all that are visible, which are to be
    alike. Results are kept under `root`, the folder of the kernel cache by default: a run that was
    stopped goes on where it was, and one that was finished is only read. The processes end with the
    run, or where a `pool` is given, with that. Raises TunerError for no configurations, for more
    GPUs than there are, or where the processes do not come up.
    """
    wanted = list({text_of(config): config for config in configs}.values())
    if not wanted:
        raise TunerError(f"{bench.task.name}: there are no configurations to tune")
    counts = {"top": top, "rounds": rounds, "processes": processes, "gpus": gpus}
    for name, given in counts.items():
        if given is not None and (type(given) is not int or given < 1):
            raise TunerError(f"{name} is {given!r}, expected a number from 1 on")
    there = max(1, device_count())
    if gpus is not None and gpus > there:
        raise TunerError(f"gpus is {gpus}, there are {there}", fix=f"pass gpus={there} or less")
    shown, count = progress or Progress(), processes or len(os.sched_getaffinity(0))
    workers = pool or Pool()
    try:
        with Journal(bench.task, path_of(bench.task, root)) as journal:
            run = _Run(bench, journal, shown, workers, count, seconds, gpus or there)
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
        seconds: float, gpus: int,
    ) -> None:  # fmt: skip
        self.bench, self.journal, self.progress = bench, journal, progress
        self.pool, self.processes, self.seconds, self.gpus = pool, processes, seconds, gpus
        self.known = journal.known

    def able(self, config: Any) -> bool:
        """Whether nothing is known against a configuration."""
        return text_of(config) not in self.known.failed

    def step(self, config: Any) -> None:
        """One more is checked."""
        self.progress.step(text_of(config))

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
            for place, answer in answers:
                answer = number(answer, "clocks")
                clocks = answer.value if isinstance(answer, Done) else 0.0
                self.note(left[place], answer, clocks=clocks)
                self.progress.step(text_of(left[place]))

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
        clocks, well = Clocks(self, self.gpus), False
        try:
            # Whatever cannot be timed is met before any sample is taken.
            self.progress.phase("checking", len(configs))
            clocks.check(configs)
            self.progress.phase("timing", rounds, done)
            for turn in range(done, rounds):
                left = [config for config in configs if self.able(config)]
                samples = clocks.round(left, backwards=turn % 2 == 1)
                if not samples:
                    break
                self.journal.note(round=samples)
                self.progress.step("")
            well = True
        finally:
            clocks.close(well)
