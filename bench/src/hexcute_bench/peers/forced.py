"""Layouts the cost model did not choose, forced by taking instructions out of the table.

The compiler sees a GPU without some copy instructions, solves the same kernel for it, and the
result runs on the real one: each is a correct program that the search could have chosen.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hexcute_bench.cases.gemm import GemmCase
from hexcute_bench.interface import Candidate, CasePeer, Run
from hexcute_bench.peers.common import config_name, module

TABLE = "sm_80"


@dataclass(frozen=True)
class Without:
    """A name, and which rows of the table's copies are taken out."""

    name: str
    removed: Callable[[Any], bool]


def _matrix(row: Any) -> bool:
    return bool(row.name.startswith("ldmatrix"))


def _wide(row: Any, source: str, most: int, *targets: str) -> bool:
    return row.src == source and row.dst in targets and row.bytes > most


CHOSEN = Without("chosen", lambda row: False)
FORCED = (
    Without("ldmatrix_x2", lambda row: row.name.startswith("ldmatrix.x4")),
    Without("no_ldmatrix", _matrix),
    Without("shared_4_bytes", lambda row: _matrix(row) or _wide(row, "shared", 4, "register")),
    Without("staged_loads", lambda row: _wide(row, "global", 0, "shared")),
    Without("global_8_bytes", lambda row: _wide(row, "global", 8, "shared", "register")),
    Without("stores_4_bytes", lambda row: _wide(row, "register", 4, "global")),
)


class ForcedLayout(CasePeer):
    """The pipelined GEMM solved without some instructions; the row's configuration ends in the
    clocks the model predicts."""

    def __init__(self, without: Without) -> None:
        self.name = without.name
        self._without = without

    def prepare(self, case: GemmCase) -> Sequence[Candidate]:
        core = module("hexcute_core")
        arch = module("hexcute_core.arch.registry")
        runtime = module("hexcute_core.runtime")
        gemm = module("hexcute_kernels.gemm")
        pipelined = module("hexcute_kernels.pipelined_gemm")
        table = arch.arch(TABLE)
        name = f"{TABLE}_{self.name}"
        kept = tuple(row for row in table.copies if not self._without.removed(row))
        arch.register(dataclasses.replace(table, name=name, copies=kept))
        kernel = pipelined.pipelined_gemm(core.f16)
        config = gemm.default_config(case.m, case.n)
        compiled = kernel.compile(
            name, code=runtime.device_target(0), constants=dataclasses.asdict(config)
        )
        predicted = compiled.solution.cost

        def build() -> Run:
            loaded, grid = compiled.load()
            bind = runtime.make_binder(kernel.signature, kernel.divisors)

            def run(index: int) -> None:
                _, device, values = bind((case.a[index], case.b[index], case.c[index]))
                loaded.launch_bound(grid(values), device, values)

            return run

        return [Candidate(f"{config_name(config)} predicted={predicted:.0f}", build)]
