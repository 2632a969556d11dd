"""The suites: the paper's shapes exactly, one file an operator."""

from __future__ import annotations

from collections.abc import Iterable

from hexcute_bench.errors import BenchError
from hexcute_bench.interface import Suite
from hexcute_bench.suites.gemm import GEMM_SM80, GEMM_SM90

ALL: tuple[Suite, ...] = (GEMM_SM80, GEMM_SM90)


def find(names: Iterable[str]) -> tuple[Suite, ...]:
    """The suites of these names, in the order given; `all` for all."""
    by_name = {suite.name: suite for suite in ALL}
    chosen: list[Suite] = []
    for name in names:
        if name == "all":
            chosen += [suite for suite in ALL if suite not in chosen]
        elif name in by_name:
            chosen.append(by_name[name])
        else:
            raise BenchError(f"no suite {name!r}; there are {', '.join(by_name)}")
    return tuple(chosen)
