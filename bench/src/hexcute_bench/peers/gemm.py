"""GEMM peers that share the process: ours, cuBLAS through torch, and two Triton kernels."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from hexcute_bench.cases.gemm import GemmCase
from hexcute_bench.interface import Candidate, CasePeer, Run
from hexcute_bench.peers.common import config_name, module


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


class HexcuteGemm(CasePeer):
    """`matmul` of a module of hexcute_kernels, the fastest of its configurations on this shape."""

    name = "hexcute"

    def __init__(self, kernels: str, target: str) -> None:
        self._kernels, self._target = kernels, target

    def prepare(self, case: GemmCase) -> Sequence[Candidate]:
        gemm = module(self._kernels)
        return [
            Candidate(config_name(config), lambda config=config: self._build(gemm, case, config))
            for config in configurations(gemm, self._target)
        ]

    def _build(self, gemm: Any, case: GemmCase, config: Any) -> Run:
        options: dict[str, Any] = {"config": config}
        # A kernel module for one generation of instructions has no choice of target.
        if "target" in inspect.signature(gemm.matmul).parameters:
            options["target"] = self._target

        def run(index: int) -> None:
            gemm.matmul(case.a[index], case.b[index], out=case.c[index], **options)

        return run


def configurations(kernels: Any, target: str) -> Sequence[Any]:
    """CONFIGS of a kernel module: a sequence for all targets, or one for each target."""
    configs = kernels.CONFIGS
    return list(configs[target] if isinstance(configs, Mapping) else configs)


class TritonGemm(CasePeer):
    """Triton over plain pointers, the fastest of its configurations on this shape."""

    name = "triton"

    def prepare(self, case: GemmCase) -> Sequence[Candidate]:
        module("triton")
        kernels = module("hexcute_bench.triton_kernels.gemm")
        return [
            Candidate(config.name, lambda config=config: kernels.pointer_gemm(case, config))
            for config in kernels.pointer_configs(case.m)
        ]


class TritonTmaGemm(CasePeer):
    """Triton over TMA descriptors, persistent; the fastest of its configurations."""

    name = "triton_tma"

    def prepare(self, case: GemmCase) -> Sequence[Candidate]:
        module("triton.tools.tensor_descriptor", "Triton 3.4 or newer has TMA descriptors")
        kernels = module("hexcute_bench.triton_kernels.gemm_tma")
        return [
            Candidate(config.name, lambda config=config: kernels.tma_gemm(case, config))
            for config in kernels.tma_configs(case.m)
        ]
