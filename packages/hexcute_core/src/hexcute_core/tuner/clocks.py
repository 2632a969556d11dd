"""What times: a process for each GPU, which share the configurations of a round.

    time on the first GPU = time on GPU g * (reference on the first / reference on g)

No two GPUs are equally fast. So each of them times the reference too, the first configuration of a
round, and what it found is told as the first GPU would have found it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Generator, Sequence
from multiprocessing.connection import wait
from typing import Any, Protocol, TypeVar

from hexcute_core.tuner.bench import Bench
from hexcute_core.tuner.space import text_of
from hexcute_core.tuner.workers import Answer, Died, Done, Hung, Pool, Refused, Worker

T = TypeVar("T")
Going = Generator[Worker, None, T]
"""Work that gives the process whose answer it waits for, and in the end what came of it."""


class Timed(Protocol):
    """The run that these work for."""

    bench: Bench
    pool: Pool
    seconds: float

    def note(self, config: Any, answer: Answer) -> bool: ...

    def able(self, config: Any) -> bool: ...

    def step(self, config: Any) -> None: ...


def number(answer: Answer, what: str) -> Answer:
    """The answer, if it is a number that can be compared."""
    if not isinstance(answer, Done):
        return answer
    value = answer.value
    if isinstance(value, (int, float)) and math.isfinite(value):
        return Done(float(value))
    return Refused(f"its {what} are {value!r:.60}, expected a number")


def visible(gpus: int) -> list[str | None]:
    """How CUDA_VISIBLE_DEVICES names each of the first `gpus`; one alone needs no name."""
    if gpus == 1:
        return [None]
    named = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    names = named.split(",") if named else [str(place) for place in range(gpus)]
    return [*names[:gpus]]


def at_once(works: Sequence[Going[T]]) -> list[T]:
    """What all of them give; each goes on when the process that it waits for has answered, or has
    no time left."""
    made, waiting = dict[int, T](), dict[int, Worker]()

    def go_on(place: int) -> None:
        try:
            waiting[place] = next(works[place])
        except StopIteration as end:
            waiting.pop(place, None)
            made[place] = end.value

    for place in range(len(works)):
        go_on(place)
    while waiting:
        workers = waiting.values()
        ready = wait([worker.connection for worker in workers], min(w.left for w in workers))
        for place, worker in list(waiting.items()):
            if worker.connection in ready or worker.left <= 0:
                go_on(place)
    return [made[place] for place in range(len(works))]


class Clocks:
    """All GPUs of a run."""

    def __init__(self, run: Timed, gpus: int) -> None:
        self._clocks = [_Clock(run, gpu) for gpu in visible(gpus)]

    def check(self, configs: Sequence[Any]) -> None:
        """Has each configuration ready on the GPU that it will be timed on first."""
        many = len(self._clocks)
        at_once([clock.check(configs[g::many]) for g, clock in enumerate(self._clocks)])

    def round(self, configs: Sequence[Any], backwards: bool) -> dict[str, float]:
        """A sample of each, in microseconds of the first GPU, by their texts; of those that fail
        there is none."""
        if not configs:
            return {}
        works, many = [], len(self._clocks)
        for place, clock in enumerate(self._clocks):
            share = configs[place::many]
            order = share[::-1] if backwards else share
            works.append(clock.samples([*configs[: place > 0], *order] if share else []))
        first, *others = at_once(works)
        reference, samples = text_of(configs[0]), dict(first)
        for other in others:
            # Without the reference on both nothing can be told of the others.
            if reference in first and reference in other:
                faster = first[reference] / other[reference]
                samples |= {text: us * faster for text, us in other.items() if text != reference}
        return samples

    def close(self, well: bool) -> None:
        """Lets the processes go; those that are not `well` may still be at something."""
        for clock in self._clocks:
            clock.close(well)


class _Clock:
    """The one process that has a GPU, replaced where a configuration took it along."""

    def __init__(self, run: Timed, gpu: str | None) -> None:
        self._run, self._gpu = run, gpu
        self._worker: Worker | None = None
        self._ready: set[str] = set()

    def check(self, configs: Sequence[Any]) -> Going[None]:
        """Has these ready, but for what has failed."""
        for config in configs:
            if self._run.able(config):
                yield from self._prepared(config)
            self._run.step(config)

    def _prepared(self, config: Any) -> Going[bool]:
        """Whether a configuration is ready to be timed; one that cannot be is written down."""
        if self._worker is None:
            self._worker = self._run.pool.hire(self._run.bench, self._gpu)
            self._ready = set()
            yield self._worker
            self._worker.started()
        if text_of(config) in self._ready:
            return True
        answer = yield from self._ask("prepare", config)
        if self._run.note(config, answer):
            self._ready.add(text_of(config))
        return isinstance(answer, Done)

    def samples(self, configs: Sequence[Any]) -> Going[dict[str, float]]:
        """Microseconds of each that can be timed still, by their texts."""
        found: dict[str, float] = {}
        for config in configs:
            if not self._run.able(config) or not (yield from self._prepared(config)):
                continue
            answer = number((yield from self._ask("sample", config)), "microseconds")
            if self._run.note(config, answer) and isinstance(answer, Done):
                found[text_of(config)] = float(answer.value)
        return found

    def _ask(self, method: str, config: Any) -> Going[Answer]:
        assert self._worker is not None
        self._worker.ask(method, config, seconds=self._run.seconds)
        yield self._worker
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
