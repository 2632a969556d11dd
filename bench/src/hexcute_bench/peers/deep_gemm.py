"""DeepGEMM's bf16 product."""

from __future__ import annotations

from collections.abc import Sequence

from hexcute_bench.cases.gemm import GemmCase
from hexcute_bench.interface import Candidate, CasePeer, Run
from hexcute_bench.peers.fp8 import deep_gemm


class DeepGemmBf16(CasePeer):
    """bf16_gemm_nt."""

    name = "deepgemm"

    def prepare(self, case: GemmCase) -> Sequence[Candidate]:
        multiply = deep_gemm().bf16_gemm_nt

        def build() -> Run:
            def run(index: int) -> None:
                multiply(case.a[index], case.b[index], case.c[index])

            return run

        return [Candidate("default", build)]
