"""Blockwise FP8 peers: CUTLASS as vLLM ships it, DeepGEMM, cuBLASLt through torch, Triton."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hexcute_bench.cases.fp8 import Fp8Case
from hexcute_bench.errors import PeerAbsent
from hexcute_bench.interface import Candidate, CasePeer, Run
from hexcute_bench.peers.common import module
from hexcute_bench.peers.folder import python_package, vllm_operators
from hexcute_bench.peers.ours import Hexcute, TunedHexcute, hexcute


def column_major(scales: Any) -> Any:
    """The same matrix with its columns contiguous: stride (1, rows)."""
    return scales.t().contiguous().t()


class CutlassFp8(CasePeer):
    """cutlass_scaled_mm of vLLM."""

    name = "cutlass"

    def prepare(self, case: Fp8Case) -> Sequence[Candidate]:
        multiply = vllm_operators("vllm._C", "_C", "cutlass_scaled_mm")

        def build() -> Run:
            sa = [column_major(scales) for scales in case.sa]

            def run(index: int) -> None:
                multiply(
                    case.c[index], case.a[index], case.w[index].t(), sa[index],
                    case.sw[index].t(), None,
                )  # fmt: skip

            return run

        return [Candidate("default", build)]


def deep_gemm() -> Any:
    """DeepGEMM, which compiles for each shape on first use, or `PeerAbsent`."""
    if "CUDA_HOME" not in os.environ and Path("/usr/local/cuda").is_dir():
        os.environ["CUDA_HOME"] = "/usr/local/cuda"
    return python_package("deep_gemm", "deep_gemm*.txz")


class DeepGemm(CasePeer):
    """fp8_gemm_nt of DeepGEMM."""

    name = "deepgemm"

    def prepare(self, case: Fp8Case) -> Sequence[Candidate]:
        library = deep_gemm()

        def build() -> Run:
            aligned = [library.get_mn_major_tma_aligned_tensor(scales) for scales in case.sa]

            def run(index: int) -> None:
                library.fp8_gemm_nt(
                    (case.a[index], aligned[index]), (case.w[index], case.sw[index]),
                    case.c[index], disable_ue8m0_cast=True,
                )  # fmt: skip

            return run

        return [Candidate("default", build)]


class CublasLtFp8(CasePeer):
    """torch's scaled_mm, which calls cuBLASLt; its weight scales need padding to four rows."""

    name = "cublaslt"

    def prepare(self, case: Fp8Case) -> Sequence[Candidate]:
        torch = module("torch")
        functional = module("torch.nn.functional")
        if not hasattr(functional, "scaled_mm"):
            raise PeerAbsent(f"torch {torch.__version__} has no blockwise scaled_mm")
        scaling = functional.ScalingType

        def build() -> Run:
            sa = [column_major(scales) for scales in case.sa]
            sw = [self._padded(torch, scales) for scales in case.sw]

            def run(index: int) -> Any:
                return functional.scaled_mm(
                    case.a[index], case.w[index].t(), sa[index], scaling.BlockWise1x128,
                    sw[index], scaling.BlockWise128x128, output_dtype=torch.bfloat16,
                )  # fmt: skip

            return run

        return [Candidate("heuristic", build)]

    @staticmethod
    def _padded(torch: Any, scales: Any) -> Any:
        """[k/128, n/128] with the rows padded to a multiple of four, stride (1, rows)."""
        blocks, groups = scales.shape
        rows = -(-groups // 4) * 4
        made = torch.zeros((blocks, rows), dtype=scales.dtype, device=scales.device)
        made[:, :groups] = scales
        return made.t()


def hexcute_fp8() -> tuple[Hexcute, TunedHexcute]:
    """Our `fp8_blockwise_matmul(a, w, sa, sw)`, a's scales column-major as the peers take them."""

    def arguments(case: Fp8Case, i: int) -> tuple[Any, ...]:
        return case.a[i], case.w[i], column_major(case.sa[i]), case.sw[i]

    return hexcute("fp8_blockwise_matmul", arguments)
