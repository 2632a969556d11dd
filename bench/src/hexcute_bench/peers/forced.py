"""Layouts and instructions the cost model did not choose, forced one choice at a time.

Each is the same kernel, solved again with the choice made for it and everything else left to the
search: a correct program that the search could have chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hexcute_bench.cases.gemm import GemmCase
from hexcute_bench.interface import Candidate, CasePeer, Run
from hexcute_bench.peers.common import config_name, module
from hexcute_bench.peers.ours import operator

TABLE = "sm_80"
CHOSEN = "chosen"
LOADS = ("copy view_a -> sa", "copy view_b -> sb")
READS = ("copy sa -> ra", "copy sb -> rb")
STAGE, UNSTAGE, STORE = "copy cast -> sc", "copy sc -> rd", "copy rd -> view_c"


def _both(copies: Sequence[str], instruction: str) -> Mapping[str, str]:
    return dict.fromkeys(copies, instruction)


FORCED: Mapping[str, Mapping[str, str]] = {
    "loads_staged_16": _both(LOADS, "ld.global.16 + st.shared.16"),
    "loads_async_8": _both(LOADS, "cp.async.8"),
    "loads_async_4": _both(LOADS, "cp.async.4"),
    "loads_a_staged_16": {LOADS[0]: "ld.global.16 + st.shared.16"},
    "loads_a_async_8": {LOADS[0]: "cp.async.8"},
    "loads_b_async_8": {LOADS[1]: "cp.async.8"},
    "reads_ldmatrix_x2": _both(READS, "ldmatrix.x2"),
    "reads_ldmatrix_x1": _both(READS, "ldmatrix.x1"),
    "reads_shared_16": _both(READS, "ld.shared.16"),
    "reads_shared_8": _both(READS, "ld.shared.8"),
    "reads_shared_4": _both(READS, "ld.shared.4"),
    "reads_a_ldmatrix_x2": {READS[0]: "ldmatrix.x2"},
    "reads_b_ldmatrix_x2": {READS[1]: "ldmatrix.x2"},
    "reads_b_transposed": {READS[1]: "ldmatrix.x4.trans"},
    "stage_16": {STAGE: "st.shared.16"},
    "stage_2": {STAGE: "st.shared.2"},
    "unstage_ldmatrix_x4": {UNSTAGE: "ldmatrix.x4"},
    "unstage_4": {UNSTAGE: "ld.shared.4"},
    "stores_8": {STORE: "st.global.8"},
    "stores_2": {STORE: "st.global.2"},
    "warps_8x1": {"gemm rc": "8x1"},
    "warps_2x4": {"gemm rc": "2x4"},
    "warps_1x8": {"gemm rc": "1x8"},
}
"""By name: operations of the pipelined GEMM, in the words of `explain()`, to what carries them."""


class ForcedLayout(CasePeer):
    """The pipelined GEMM narrowed to `only`; the row's configuration ends in the clocks that the
    model predicts."""

    def __init__(self, name: str, only: Mapping[str, str]) -> None:
        self.name = name
        self._only = only

    def prepare(self, case: GemmCase) -> Sequence[Candidate]:
        core = module("hexcute_core")
        runtime = module("hexcute_core.runtime")
        kernel = module("hexcute_kernels.gemm.pipelined").pipelined_gemm(core.f16)
        config = operator("matmul").plan((case.a[0], case.b[0]), variant="mma").config
        compiled = kernel.compile(
            TABLE,
            code=runtime.device_target(0),
            constants=vars(config),
            only=self._only,
        )
        predicted = compiled.solution.cost
        bind: Any = runtime.make_binder(kernel.signature, kernel.divisors)

        def build() -> Run:
            loaded, grid = compiled.load()

            def run(index: int) -> None:
                _, device, values = bind((case.a[index], case.b[index], case.c[index]))
                loaded.launch_bound(grid(values), device, values)

            return run

        return [Candidate(f"{config_name(config)} predicted={predicted:.0f}", build)]
