"""Peers of dense products with weights of four bits: Machete and Marlin, as vLLM ships them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from hexcute_bench.cases.moe import Quantized
from hexcute_bench.cases.w4a16 import W4A16Case
from hexcute_bench.interface import Candidate, CasePeer, Run
from hexcute_bench.peers.common import module
from hexcute_bench.peers.folder import vllm_operators
from hexcute_bench.peers.marlin_format import pack_stack, words
from hexcute_bench.peers.moe import UINT4, processors
from hexcute_bench.peers.ours import TUNED, Hexcute, TunedHexcute, operator


class MarlinDense(CasePeer):
    """Marlin of vLLM 0.33."""

    name = "marlin"

    def prepare(self, case: W4A16Case) -> Sequence[Candidate]:
        torch = module("torch")
        multiply = vllm_operators("vllm._C", "_C", "marlin_gemm")

        def build() -> Run:
            packed, scales, zeros = pack_stack(case.w)
            space = torch.zeros(processors(), dtype=torch.int32, device="cuda")

            def run(index: int) -> None:
                multiply(
                    case.x[index], case.c[index], packed[index], None, scales[index], None, None,
                    zeros[index], space, UINT4, case.m, case.n, case.k, False, True, False,
                )  # fmt: skip

            return run

        return [Candidate("as vLLM chooses", build)]


class Machete(CasePeer):
    """CUTLASS's product of mixed types, by vLLM's choice of a schedule."""

    name = "machete"

    def prepare(self, case: W4A16Case) -> Sequence[Candidate]:
        multiply = vllm_operators("vllm._C", "_C", "machete_mm")

        def build() -> Run:
            weights = case.w
            packed, shifts = _for_machete(weights)
            group = case.k // weights.scale.shape[1]

            def run(index: int) -> Any:
                return multiply(
                    case.x[index], packed[index], UINT4, None, weights.scale[index], shifts[index],
                    group, None, None, None,
                )  # fmt: skip

            return run

        return [Candidate("as vLLM chooses", build)]


@functools.lru_cache(maxsize=1)
def _for_machete(weights: Quantized) -> tuple[list[Any], list[Any]]:
    """Each of a stack in Machete's order, and the products of its scales and zero points."""
    half = module("torch").float16
    arrange = vllm_operators("vllm._C", "_C", "machete_prepack_B")
    packed, shifts = [], []
    for q, scale, zero in zip(weights.q, weights.scale, weights.zero):
        packed.append(arrange(words(q.t().contiguous()).t(), half, UINT4, half))
        shifts.append((-scale * zero.to(half)).contiguous())
    return packed, shifts


@functools.lru_cache(maxsize=1)
def _packed(weights: Quantized) -> Any:
    """A stack in our kernels' order."""
    return module("hexcute_kernels.moe").pack(weights.q, weights.scale, weights.zero)


def _hexcute_dense(case: W4A16Case) -> Hexcute:
    """Our `w4a16_matmul(x, w)`, on weights that its `pack` has brought into their order."""
    operator("w4a16_matmul")
    weights = _packed(case.w)
    return Hexcute("hexcute", "w4a16_matmul", lambda case, i: (case.x[i], weights[i]))


class HexcuteDense(CasePeer):
    """Our product as called."""

    name = "hexcute"

    def prepare(self, case: W4A16Case) -> Sequence[Candidate]:
        return _hexcute_dense(case).prepare(case)


def tuned_dense() -> TunedHexcute:
    """Our product by the best of its configurations."""
    return TunedHexcute(f"hexcute{TUNED}", _hexcute_dense)
