"""GEMM peers that share the process: ours, cuBLAS through torch, and two Triton kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hexcute_bench.cases.gemm import GemmCase
from hexcute_bench.interface import Candidate, CasePeer, Run
from hexcute_bench.peers.common import module
from hexcute_bench.peers.ours import Hexcute, TunedHexcute, hexcute


class Cublas(CasePeer):
    """cuBLAS by torch.mm, which chooses the algorithm by cuBLAS's own heuristic."""

    name = "cublas"

    def prepare(self, case: GemmCase) -> Sequence[Candidate]:
        torch = module("torch")

        def build() -> Run:
            transposed = [b.t() for b in case.b]

            def run(index: int) -> None:
                torch.mm(case.a[index], transposed[index], out=case.c[index])

            return run

        return [Candidate("heuristic", build)]


def _operands(case: GemmCase, index: int) -> Sequence[Any]:
    return case.a[index], case.b[index]


def hexcute_gemm(variant: str | None = None) -> tuple[Hexcute, TunedHexcute]:
    """Our `matmul`, by one variant or the one it chooses."""
    return hexcute("matmul", _operands, variant=variant)


def hexcute_untuned() -> Hexcute:
    """The warp-specialized GEMM by a configuration that nothing chose but what fits: as many stages
    as there is room for beside a whole tile of c."""
    config = {"BM": 128, "BN": 256, "BK": 64, "STAGES": 3, "CONSUMERS": 2, "SCHEDULE": "persistent"}
    return Hexcute("hexcute", "matmul", _operands, variant="wgmma", config=config)
