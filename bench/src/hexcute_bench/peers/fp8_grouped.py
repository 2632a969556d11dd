"""Grouped blockwise FP8 peers: DeepGEMM's contiguous form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hexcute_bench.cases.fp8_grouped import Fp8GroupedCase
from hexcute_bench.interface import Candidate, CasePeer, Run
from hexcute_bench.peers.common import module
from hexcute_bench.peers.fp8 import column_major, deep_gemm
from hexcute_bench.peers.ours import Hexcute, TunedHexcute, hexcute


class DeepGemmGrouped(CasePeer):
    """m_grouped_fp8_gemm_nt_contiguous of DeepGEMM, told each row's expert."""

    name = "deepgemm"

    def prepare(self, case: Fp8GroupedCase) -> Sequence[Candidate]:
        library, torch = deep_gemm(), module("torch")

        def build() -> Run:
            aligned = [library.get_mn_major_tma_aligned_tensor(scales) for scales in case.sa]
            sizes = torch.tensor(case.sizes, device=case.offsets.device)
            experts = torch.arange(case.experts, device=sizes.device, dtype=torch.int32)
            expert = experts.repeat_interleave(sizes)

            def run(index: int) -> None:
                library.m_grouped_fp8_gemm_nt_contiguous(
                    (case.a[index], aligned[index]), (case.w[index], case.sw[index]),
                    case.c[index], expert, disable_ue8m0_cast=True,
                )  # fmt: skip

            return run

        return [Candidate("default", build)]


def hexcute_fp8_grouped() -> tuple[Hexcute, TunedHexcute]:
    """Our `fp8_grouped_matmul(a, w, sa, sw, offsets)`, a's scales column-major as the peers take
    them."""

    def arguments(case: Fp8GroupedCase, i: int) -> tuple[Any, ...]:
        return case.a[i], case.w[i], column_major(case.sa[i]), case.sw[i], case.offsets

    return hexcute("fp8_grouped_matmul", arguments)
