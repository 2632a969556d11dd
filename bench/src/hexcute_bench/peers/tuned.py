"""A case of a suite as the project's tuner sees it: each of its processes makes the case anew.

Results are kept with the tuner's, by GPU, suite, shape and version of all sources.
"""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from hexcute_bench.interface import Case, KernelSuite
from hexcute_bench.measure import within, worst_error
from hexcute_bench.peers.ours import Hexcute
from hexcute_bench.shape import Shape
from hexcute_bench.suites import find
from hexcute_core.errors import TunerError
from hexcute_core.runtime.replay import Replay
from hexcute_core.tuner import Pool, Task, tune
from hexcute_kernels import operator_named
from hexcute_kernels.gpus import gpu_here
from hexcute_kernels.tuning import OperatorBench, kernels_version

ROUNDS = 5


@dataclass(frozen=True)
class Described:
    """A tensor without its data."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str

    @classmethod
    def of(cls, value: Any) -> Any:
        """A tensor described; anything else as it is."""
        if not hasattr(value, "stride"):
            return value
        name = str(value.dtype).removeprefix("torch.")
        return cls(tuple(value.shape), tuple(value.stride()), name)

    def meta(self) -> Any:
        """A tensor of torch's "meta" device."""
        import torch

        dtype = getattr(torch, self.dtype)
        return torch.empty_strided(self.shape, self.strides, dtype=dtype, device="meta")


@dataclass(frozen=True, kw_only=True)
class CaseBench(OperatorBench):
    """The system of a suite on a shape; `described` are the arguments of a call."""

    suite: str
    system: str
    described: tuple[Any, ...]

    @property
    def task(self) -> Task:
        return Task(f"{self.suite}-{self.system}", self.gpu.name, self.sizes, kernels_version())

    def _args(self, device: str, seed: int = 0) -> tuple[Any, ...]:
        return tuple(a.meta() if isinstance(a, Described) else a for a in self.described)

    @cached_property
    def _suite(self) -> KernelSuite:
        (found,) = find([self.suite])
        assert isinstance(found, KernelSuite)
        return found

    @cached_property
    def _peer(self) -> Any:
        return next(peer for peer in self._suite.peers if peer.name == self.system)

    @cached_property
    def _case(self) -> Any:
        return self._suite.case(Shape.parse(self.sizes))

    @cached_property
    def _ours(self) -> Hexcute:
        ours: Hexcute = self._peer.of(self._case)
        return ours

    def prepare(self, config: Any) -> None:
        case = self._case
        run = self._ours.run(case, config)
        error = worst_error(self._peer, case, run)
        if not within(error, case.tolerance):
            raise TunerError(f"its results are off by {error:.3g}, at most {case.tolerance:.3g}")
        self._replays[config] = Replay(run, case.sets)


@cache
def _pool() -> Pool:
    """The processes that all shapes of this run are tuned in."""
    pool = Pool()
    atexit.register(pool.close)
    return pool


def bench_of(ours: Hexcute, case: Case, suite: str, system: str) -> CaseBench:
    """The bench of the variant that a call of the case takes, or of the one that `ours` names."""
    gpu, described = gpu_here(), tuple(map(Described.of, ours.arguments(case)))
    args = tuple(a.meta() if isinstance(a, Described) else a for a in described)
    plan = operator_named(ours.called).plan_on(gpu, args, variant=ours.variant)
    return CaseBench(
        operator=ours.called, sizes=str(case.shape), variant=plan.variant, gpu=gpu, suite=suite,
        system=system, described=described,
    )  # fmt: skip


def tune_case(ours: Hexcute, case: Case, suite: str, system: str) -> tuple[Any, str]:
    """The fastest configuration, and a note on how many it was chosen of."""
    bench = bench_of(ours, case, suite, system)
    configs: Sequence[Any] = list(bench.configs)
    report = tune(bench, configs, rounds=ROUNDS, pool=_pool())
    timed = sum(outcome.us is not None for outcome in report.outcomes)
    return report.best.config, f"best of {timed}"
