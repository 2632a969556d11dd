"""Operators as the tuner sees them: sizes -> the configurations of the variant that a call of these
sizes takes, each timed against rotating inputs and compared with what the plain call gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from hexcute_core.driver.estimate import launch_clocks
from hexcute_core.errors import LaunchError, TunerError
from hexcute_core.runtime import device_count, multiprocessors
from hexcute_core.runtime.replay import Replay, gpu_alive
from hexcute_core.tuner import Report, Task, tune
from hexcute_core.version import VERSION, contents
from hexcute_kernels import __version__, operator_named
from hexcute_kernels.buckets import Bucket, bucket_of
from hexcute_kernels.gpus import Gpu, gpu_here
from hexcute_kernels.operator import Operator
from hexcute_kernels.prepared import Plan, described
from hexcute_kernels.samples import Sizes, parse, sample, text_of
from hexcute_kernels.variant import Variant

CACHED_BYTES = 4 * 50 * 2**20
"""Inputs in turn take as much: four times the L2 of an H200."""
MOST_SETS = 16
CLOCKS = 1750.0
"""A microsecond, where a table's cost model speaks of time."""
TOLERANCE = 2.0**-6
"""Of the largest result: sums in another order, rounded to 16 bits on the way and at the end."""


@cache
def kernels_version() -> str:
    """Versions and content of the compiler's sources and the operators', without the tables that
    tuning itself writes: a run that was stopped goes on with what it has found."""
    return f"{VERSION} {__version__} {contents(Path(__file__).parent, apart='tuned')}"


@dataclass(frozen=True)
class OperatorBench:
    """An operator's variant on calls of these sizes, given as text. With `exact`, results are of
    these sizes alone, else of their bucket."""

    operator: str
    sizes: str
    variant: str
    gpu: Gpu
    exact: bool = False

    @property
    def task(self) -> Task:
        name = f"{self.operator}-{self.variant}"
        bucket = self.sizes if self.exact else self.bucket.text
        return Task(name, self.gpu.name, bucket, kernels_version())

    @property
    def bucket(self) -> Bucket:
        """The problems that a row of these results is for."""
        return bucket_of(self._problem, fine=self.configs.cost is not None)

    @property
    def _problem(self) -> Any:
        return self._of.describe(*self._args("meta"))

    @property
    def configs(self) -> Any:
        """The table that the variant chooses from."""
        return _variant(self._of, self.variant).configs

    @property
    def _of(self) -> Operator[Any]:
        return operator_named(self.operator)

    def _args(self, device: str, seed: int = 0) -> tuple[Any, ...]:
        (sizes,) = parse(self.sizes)
        return sample(self.operator, sizes, device, seed)

    def _kernels(self, config: Any) -> list[tuple[Any, list[Any]]]:
        args = self._args("meta")
        plan: Plan = self._of.plan_on(self.gpu, args, variant=self.variant, config=config)
        found = described(self._of.schema, plan, args, self.gpu.target)
        if not found:
            raise TunerError(f"{self.operator} of {self.sizes} launches nothing")
        return found

    def clocks(self, config: Any) -> float:
        if self.configs.cost is not None:
            return float(self.configs.cost(config, self._problem, self.gpu.name)) * CLOCKS
        count = multiprocessors(0) if device_count() else self.gpu.multiprocessors
        pairs = self._kernels(config)
        return sum(launch_clocks(kernel, given, count) for kernel, given in pairs)

    def build(self, config: Any) -> int:
        return sum(len(kernel.built.cubin) for kernel, _ in self._kernels(config))

    @cached_property
    def _sets(self) -> list[tuple[tuple[Any, ...], Any]]:
        """Arguments with their outputs, as many as do not fit a cache together."""
        made = [self._set(0)]
        args, outs = made[0]
        tensors = [t for t in (*args, *outs) if hasattr(t, "nbytes")]
        size = max(sum(t.nbytes for t in tensors), 1)
        count = max(1, min(MOST_SETS, -(-CACHED_BYTES // size)))
        return made + [self._set(seed) for seed in range(1, count)]

    def _set(self, seed: int) -> tuple[tuple[Any, ...], Any]:
        args = self._args("cuda", seed)
        found = self._of(*args)
        return args, found if isinstance(found, tuple) else (found,)

    @cached_property
    def _want(self) -> list[Any]:
        """What the plain call gives of the first set, by the configuration that the table has."""
        return [t.clone() for t in self._sets[0][1]]

    @cached_property
    def _replays(self) -> dict[Any, Replay]:
        return {}

    def prepare(self, config: Any) -> None:
        call, sets, want = self._of, self._sets, self._want

        def run(index: int) -> None:
            args, outs = sets[index]
            call(*args, out=outs, variant=self.variant, config=config)

        for made in sets[0][1]:
            made.fill_(float("nan"))
        run(0)
        for got, expected in zip(sets[0][1], want):
            _check_close(got, expected)
        self._replays[config] = Replay(run, len(sets))

    def sample(self, config: Any) -> float:
        return self._replays[config].sample()

    def alive(self) -> bool:
        return gpu_alive()


def _check_close(got: Any, want: Any) -> None:
    """Raises TunerError where a result is another than that of the plain call."""
    finite = want.float()[want.float().isfinite()].abs()
    limit = TOLERANCE * (float(finite.max()) if finite.numel() else 0.0)
    same = (got == want) | (got.isnan() & want.isnan())
    apart = (got.float() - want.float())[~same].abs()
    off = float(apart.max()) if apart.numel() else 0.0
    if not off <= limit:
        raise TunerError(f"its results differ by {off:.3g} from the plain call's, {limit:.3g} may")


def _variant(operator: Operator[Any], name: str) -> Variant[Any, Any]:
    return next(variant for variant in operator.variants if variant.name == name)


def bench_of(
    operator: str,
    sizes: Sizes,
    gpu: Gpu | None = None,
    variant: str | None = None,
    exact: bool = False,
) -> OperatorBench:
    """The bench of calls of these sizes: of the variant that they take, or of the one that is
    named. Raises LaunchError where no variant takes them."""
    where = gpu or gpu_here()
    plan = operator_named(operator).plan_on(where, sample(operator, sizes, "meta"), variant=variant)
    return OperatorBench(operator, text_of(sizes), plan.variant, where, exact)


def tune_operator(
    operator: str,
    sizes: Sizes,
    *,
    variant: str | None = None,
    exact: bool = False,
    whole_space: bool = False,
    tuner: Callable[..., Report] = tune,
    **how: Any,
) -> tuple[OperatorBench, Report]:
    """Tunes an operator for calls of these sizes on the GPU of this machine.

    Tried are the configurations of the variant's table, with `whole_space` those of its space too.
    `how` are options of `hexcute_core.tuner.tune`. Raises LaunchError and TunerError.
    """
    bench = bench_of(operator, sizes, variant=variant, exact=exact)
    configs: Sequence[Any] = bench.configs.whole_space if whole_space else list(bench.configs)
    if not configs:
        raise LaunchError(f"{operator}: the variant {bench.variant} has no configurations")
    return bench, tuner(bench, configs, **how)
