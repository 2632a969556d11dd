"""Fake peers, cases and a clock: the harness without a GPU and without torch."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from hexcute_bench import environment
from hexcute_bench.errors import PeerAbsent
from hexcute_bench.interface import Candidate, Case, KernelSuite, Run, Settings, Work
from hexcute_bench.runner import Order, SuiteRun
from hexcute_bench.shape import Shape

SHAPES = tuple(Shape.of(m=m, n=8) for m in (16, 32, 4096))
# A clock that is told its times needs no rest between samples.
SETTINGS = replace(Settings.of(False, "graph"), pause_s=0.0)


class FakeCase:
    """Doubles its size: the right output of set i is 2 m + i."""

    tolerance = 1e-3

    def __init__(self, shape: Shape, sets: int = 3) -> None:
        self.shape, self.sets = shape, sets
        self.outputs = [0.0] * sets

    def poison(self, index: int) -> None:
        self.outputs[index] = math.nan

    def output(self, index: int) -> float:
        return self.outputs[index]

    def error(self, output: float, index: int) -> float:
        return abs(output - (2.0 * self.shape["m"] + index))


@dataclass
class FakePeer:
    """Takes `micros` for each configuration and adds `wrong` to the right answer, of which `slack`
    tolerances are let through.

    Raises `broken` when prepared, or while building the configurations named in `failing`.
    """

    name: str
    micros: dict[str, float]
    wrong: float = 0.0
    broken: Exception | None = None
    failing: tuple[str, ...] = ()
    lazy: bool = False
    slack: float = 1.0
    prepared: list[str] = field(default_factory=list)

    def prepare(self, case: FakeCase) -> Sequence[Candidate]:
        self.prepared.append(str(case.shape))
        if self.broken is not None:
            raise self.broken
        return [Candidate(name, lambda name=name: self._build(case, name)) for name in self.micros]

    def check(self, case: FakeCase, output: Any, index: int) -> float:
        return case.error(output, index)

    def _build(self, case: FakeCase, name: str) -> Run:
        if name in self.failing:
            raise MemoryError("too much shared memory")

        def run(index: int) -> None:
            if not self.lazy:
                case.outputs[index] = 2.0 * case.shape["m"] + index + self.wrong

        run.micros = self.micros[name]  # type: ignore[attr-defined]
        return run


class FakeReplay:
    method = "fake"

    def __init__(self, run: Any, sets: int, launches: int) -> None:
        self.run, self.sets, self.launches, self.taken = run, sets, launches, 0

    def sample(self) -> float:
        for index in range(self.sets):
            self.run(index)
        self.taken += 1
        # A little noise of known size: the median is the peer's own time.
        return float(self.run.micros + (-1.0, 0.0, 1.0)[self.taken % 3] * 0.01)


class FakeClock:
    def __init__(self, settings: Settings, alive: bool = True) -> None:
        self.settings, self._alive = settings, alive

    def replay(self, run: Run, sets: int, target_us: float) -> FakeReplay:
        return FakeReplay(run, sets, 6)

    def alive(self) -> bool:
        return self._alive


def suite(*peers: Any, case: Callable[[Shape], Case] = FakeCase, **more: Any) -> KernelSuite:
    return KernelSuite(
        name="fake",
        title="a fake suite",
        operator="",
        baseline="base",
        shapes=SHAPES,
        quick=SHAPES[:1],
        peers=peers,
        case=case,
        work=lambda shape: Work(2e6 * shape["m"], 1e6),
        regime=lambda shape: "large" if shape["m"] >= 2048 else "small",
        **more,
    )


def fake_environment(run: str) -> environment.Environment:
    details = {"commit": "abc", "date": "2026-01-01"}
    return environment.Environment(run, "fake GPU", "1.0", "", "abc", "2026-01-01", details)


@dataclass
class Bench:
    """Runs fake suites into one folder, each time as a new run."""

    out: Path
    runs: int = 0

    def run(self, what: KernelSuite, alive: bool = True, **order: Any) -> bool:
        self.runs += 1
        run = SuiteRun(
            Order(self.out, replace(SETTINGS, pause_s=0.0), quiet=True, **order),
            lambda settings: FakeClock(settings, alive),
            lambda: fake_environment(f"run{self.runs}"),
        )
        return run.go(what)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """The harness collects garbage between peers, which takes a second where thousands of tests
    have filled the memory: what they left is not looked at."""
    gc.freeze()
    return Bench(tmp_path)


def base(**micros: float) -> FakePeer:
    return FakePeer("base", micros or {"only": 10.0})


def absent(name: str) -> FakePeer:
    return FakePeer(name, {}, broken=PeerAbsent("no such library"))
