"""Peers of the FP8 quantizer: vLLM's kernel, torch.compile, and a copy, the bandwidth to be had."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hexcute_bench.cases.fp8 import BLOCK
from hexcute_bench.cases.fp8_quantize import Fp8QuantizeCase
from hexcute_bench.interface import Candidate, CasePeer, Run
from hexcute_bench.peers.common import module
from hexcute_bench.peers.folder import vllm_operators
from hexcute_bench.peers.ours import Hexcute, TunedHexcute, hexcute

LARGEST, LEAST = 448.0, 1e-10


class VllmQuantize(CasePeer):
    """per_token_group_fp8_quant of vLLM."""

    name = "vllm"

    def prepare(self, case: Fp8QuantizeCase) -> Sequence[Candidate]:
        quantize = vllm_operators("vllm._C", "_C", "per_token_group_fp8_quant")
        how = (BLOCK, LEAST, -LARGEST, LARGEST, False, True, False)

        def run(index: int) -> None:
            quantize(case.x[index], case.q[index], case.s[index], *how)

        return [Candidate("default", lambda: run)]


class TorchQuantize(CasePeer):
    """The same in torch, compiled for this shape."""

    name = "torch_compile"

    def prepare(self, case: Fp8QuantizeCase) -> Sequence[Candidate]:
        torch = module("torch")

        def quantize(x: Any, q: Any, s: Any) -> None:
            wide = x.float().unflatten(-1, (-1, BLOCK))
            scales = wide.abs().amax(-1).clamp(min=LEAST) / LARGEST
            s.copy_(scales)
            q.copy_((wide / scales.unsqueeze(-1)).flatten(-2).to(q.dtype))

        def build() -> Run:
            torch._dynamo.reset()
            compiled = torch.compile(quantize, dynamic=False)
            return lambda index: compiled(case.x[index], case.q[index], case.s[index])

        return [Candidate("dynamic=False", build)]


class Copy(CasePeer):
    """torch's copy of as many bytes as the quantizer moves: three quarters of x, read and
    written."""

    name = "copy"

    def prepare(self, case: Fp8QuantizeCase) -> Sequence[Candidate]:
        torch = module("torch")

        def build() -> Run:
            parts = [x.flatten()[: x.numel() * 3 // 4] for x in case.x]
            made = [torch.empty_like(part) for part in parts]

            def run(index: int) -> Any:
                return made[index].copy_(parts[index])

            return run

        return [Candidate("copy_", build)]

    def check(self, case: Fp8QuantizeCase, output: Any, index: int) -> float:
        return float((output != case.x[index].flatten()[: output.numel()]).sum())


def hexcute_fp8_quantize() -> tuple[Hexcute, TunedHexcute]:
    """Our `quantize_blockwise(x)`."""

    def output(case: Fp8QuantizeCase, index: int) -> tuple[Any, Any]:
        return case.q[index], case.s[index]

    return hexcute("quantize_blockwise", lambda case, i: (case.x[i],), output=output)
