"""Humming's products with weights of four bits, dense and by experts: compiled on first use.

Its kernels find an expert's rows by a table, and apply no gates: whoever sums a token's rows does.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hexcute_bench.cases.moe import ROUNDED_WEIGHTS, MoeCase, Quantized, align
from hexcute_bench.cases.w4a16 import W4A16Case
from hexcute_bench.errors import PeerAbsent
from hexcute_bench.interface import Candidate, CasePeer, Run
from hexcute_bench.peers.common import module
from hexcute_bench.peers.folder import loader, vllm_operators
from hexcute_bench.peers.marlin_format import words

# What vLLM's lists of configurations reach: rows of a dense product, and pairs.
_MOST_ROWS, _MOST_PAIRS = 8128, 65408
_SILU = {"activation_type": "binary_split", "activation_impl": "(a / (1.f + expf(-a))) * b"}


@functools.cache
def _humming(name: str) -> Any:
    """A module of the package: installed, or loaded by the folder of compiled peers."""
    try:
        importlib.import_module("humming")
    except ImportError as error:
        load = getattr(loader(), "load_humming", None)
        if load is None:
            raise PeerAbsent(f"humming cannot be imported: {error}") from error
        load()
    return importlib.import_module(f"humming.{name}")


@dataclass(frozen=True)
class _Weights:
    """The layer's configuration, its tensors in Humming's order, and the locks of its kernels."""

    config: Any
    tensors: Any
    locks: Any

    def tuned(self, rows: int, kind: str) -> Any:
        """The configuration that vLLM's list has for so many rows."""
        most = _MOST_PAIRS if kind == "indexed" else _MOST_ROWS
        choose = _humming("tune").get_heuristics_config
        return choose(self.config, shape_m=min(rows, most), gemm_type=kind)

    def product(self, x: Any, out: Any, config: Any, kind: str, **routing: Any) -> None:
        """out = x W^T."""
        _humming("forward").humming_forward(
            self.config, inputs=x, outputs=out, weight=self.tensors["weight"],
            weight_scale=self.tensors["weight_scale"], zero_point=self.tensors["zero_point"],
            locks=self.locks, compute_config={"gemm_type": kind}, tuning_config=config, **routing,
        )  # fmt: skip


@functools.lru_cache(maxsize=2)
def _stacked(stack: Quantized) -> _Weights:
    """A stack of experts, kept for the other cases of it."""
    return _weights(stack)


@functools.lru_cache(maxsize=1)
def _apart(stack: Quantized) -> list[_Weights]:
    """Each of a stack by itself, kept in the same way."""
    return [_weights(stack, index) for index in range(len(stack.q))]


def _weights(stack: Quantized, expert: int | None = None) -> _Weights:
    """A stack of weights, or one of them, in Humming's order."""
    import torch

    count, k, n = stack.q.shape
    experts = range(count) if expert is None else [expert]
    tensors = {
        "weight": torch.stack([words(stack.q[e].t().contiguous()) for e in experts]),
        "weight_scale": torch.stack([stack.scale[e].t().contiguous() for e in experts]),
        "zero_point": torch.stack([words(stack.zero[e]).t().contiguous() for e in experts]),
    }
    if expert is not None:
        tensors = {name: tensor[0] for name, tensor in tensors.items()}
    types = _humming("dtypes").DataType
    schema = _humming("schema").HummingWeightSchema(
        b_dtype=types.from_str("uint4"), bs_dtype=types.from_torch_dtype(torch.float16),
        weight_scale_group_size=k // stack.scale.shape[1], has_zero_point=True,
    )  # fmt: skip
    config, made = _humming("transform").prepare_and_transform_humming_tensors(
        tensors, n, k, schema, num_experts=count if expert is None else None,
        torch_dtype=torch.float16, device=stack.q.device,
    )  # fmt: skip
    locks = torch.zeros(2048, dtype=torch.int32, device=stack.q.device)
    return _Weights(config, made, locks)


class HummingMoe(CasePeer):
    """Both products by its indexed kernels. A layer adds vLLM's alignment and a sum in Triton."""

    name = "humming"
    slack = ROUNDED_WEIGHTS

    def prepare(self, case: MoeCase) -> Sequence[Candidate]:
        _humming("forward")
        summed = None
        if case.scope == "layer":
            order = vllm_operators("vllm._moe_C", "_moe_C", "moe_align_block_size")
            add = module("hexcute_bench.triton_kernels.weighted_sum").weighted_sum
            summed = order, add
        return [Candidate("as vLLM chooses", lambda: _layer(case, summed))]

    def check(self, case: MoeCase, output: Any, index: int) -> float:
        if case.scope == "gemms":
            output = output * case.gates[index].reshape(-1, 1)
        return case.error(output, index)


def _layer(case: MoeCase, summed: tuple[Any, Any] | None) -> Run:
    """A run of a case's sets, to the end of the layer where `summed` has what that takes."""
    import torch

    activate = _humming("forward").may_process_input
    size, pairs = case.sizes, case.tokens * case.sizes.top_k
    first, second = _stacked(case.w13), _stacked(case.w2)
    half = {"dtype": torch.float16, "device": case.x[0].device}
    c1, h = (torch.empty((pairs, wide * size.width), **half) for wide in (2, 1))
    c2 = torch.empty((pairs, size.hidden), **half) if summed else None
    configs = [each.tuned(pairs, "indexed") for each in (first, second)]
    blocks = [config["block_shape"][0] for config in configs]
    routes = [
        {block: align(ids, size.experts, block) for block in set(blocks)} for ids in case.ids
    ]

    def product(which: int, x: Any, out: Any, index: int, top_k: int) -> None:
        route = routes[index][blocks[which]]
        (first, second)[which].product(
            x, out, configs[which], "indexed", top_k=top_k, sorted_ids=route.rows,
            expert_ids=route.experts, num_tokens_padded=route.padded, valid_shape_m=pairs,
        )  # fmt: skip

    def run(index: int) -> None:
        if summed:
            for block, route in routes[index].items():
                summed[0](
                    case.ids[index], size.experts, block, route.rows, route.experts, route.padded,
                    None,
                )  # fmt: skip
        product(0, case.x[index], c1, index, size.top_k)
        activate(second.config, c1, outputs=h, **_SILU)
        product(1, h, case.out[index] if c2 is None else c2, index, 1)
        if summed:
            summed[1](c2, case.gates[index], case.out[index])

    return run


class HummingDense(CasePeer):
    """A dense product by the configuration that vLLM's list has for it."""

    name = "humming"

    def prepare(self, case: W4A16Case) -> Sequence[Candidate]:
        _humming("forward")

        def build() -> Run:
            weights = _apart(case.w)
            config = weights[0].tuned(case.m, "dense")

            def run(index: int) -> None:
                weights[index].product(case.x[index], case.c[index], config, "dense")

            return run

        return [Candidate("as vLLM chooses", build)]
