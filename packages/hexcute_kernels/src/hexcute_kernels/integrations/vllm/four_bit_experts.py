"""vLLM's experts of a mixture, weights in four bits.

    choice     ours where their extents and format are ours, asked before vLLM's own kinds
    weights    AWQ, GPTQ, compressed-tensors -> our kernels' order, expert by expert
    call       moe

vLLM keeps these three steps in one module, closed over its own kinds of experts. Each is wrapped,
there and in the modules that hold it already; what is not ours goes to the function as it was.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

import torch
import vllm.model_executor.layers.fused_moe.modular_kernel as mk
from vllm.model_executor.layers.fused_moe.all2all_utils import maybe_make_prepare_finalize
from vllm.model_executor.layers.fused_moe.oracle import int_wna16 as oracle
from vllm.scalar_type import scalar_types

from hexcute_core.errors import LaunchError
from hexcute_kernels.integrations.vllm.ahead import ahead
from hexcute_kernels.integrations.vllm.experts import HexcuteExperts
from hexcute_kernels.moe import from_awq, from_compressed_tensors, moe
from hexcute_kernels.moe.packing import GROUP, GROUPS, check_packed

TYPES = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Ours:
    """Our kind of experts, among vLLM's, which are members of an enumeration."""

    name: str = "HEXCUTE"
    value: str = "HEXCUTE"


OURS = Ours()


class HexcuteFourBitExperts(HexcuteExperts):
    """Experts whose weights are packed for our kernels."""

    MULTIPLE = GROUP

    @staticmethod
    def _supports_quant_scheme(weight_key: Any, activation_key: Any) -> bool:
        kinds = ("int4", scalar_types.uint4, scalar_types.uint4b8)
        return activation_key is None and weight_key is not None and weight_key.dtype in kinds

    def moe_problem_size(
        self, a1: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor, topk_ids: torch.Tensor
    ) -> tuple[int, int, int, int, int]:
        """Experts, tokens, rows of the first weights, hidden, choices."""
        n = check_packed("HexcuteFourBitExperts", "w1", w1).n
        return w1.shape[0], a1.shape[0], n, a1.shape[1], topk_ids.shape[1]

    def _computed(
        self,
        x: torch.Tensor,
        w1: torch.Tensor,
        w2: torch.Tensor,
        ids: torch.Tensor,
        gates: torch.Tensor,
    ) -> torch.Tensor:
        made: torch.Tensor = moe(
            x.contiguous(), w1, w2, ids.int().contiguous(), gates.float().contiguous()
        )
        return made


def packed(form: str, q: Any, scale: Any, zero: Any) -> torch.Tensor:
    """A stack of experts in our order, of "awq": [experts, k, n/8] and zero points beside it, or
    of others: [experts, n, k/8], with 8 for all zero points where there are none. Raises
    LaunchError."""
    made: torch.Tensor | None = None
    for expert in range(q.shape[0]):
        nothing = None if zero is None else zero[expert]
        if form == "awq":
            one = from_awq(q[expert], nothing, scale[expert])
        else:
            one, _ = from_compressed_tensors(q[expert], scale[expert], nothing)
        if made is None:
            made = one.new_empty((q.shape[0], *one.shape))
        made[expert].copy_(one)
    if made is None:
        raise LaunchError("hexcute has no experts to pack")
    return made


def _form(config: Any) -> str | None:
    """How a configuration of vLLM's stores experts, None where we do not read it."""
    name = type(config).__name__
    if name == "AutoAWQConfig":
        return "awq" if config.weight_bits == 4 and config.zero_point else None
    if name == "AutoGPTQConfig":
        ours = config.quant_type == scalar_types.uint4b8 and not config.desc_act and config.is_sym
        return "gptq" if ours else None
    if name == "QuantizationArgs":
        ours = config.num_bits == 4 and getattr(config.actorder, "value", None) != "group"
        return "compressed" if ours else None
    return None


def choice(given: Callable[..., Any]) -> Callable[..., Any]:
    """vLLM's choice of a kind of experts, with ours asked first."""

    @wraps(given)
    def select(config: Any, weight_key: Any, quant_config: Any, *rest: Any, **named: Any) -> Any:
        size = getattr(quant_config, "group_size", None)
        standard = mk.FusedMoEActivationFormat.Standard
        ours = (
            config.moe_backend == "auto" and _form(quant_config) is not None
            and config.in_dtype in TYPES and (size in (None, -1) or size in GROUPS)
            and not config.moe_parallel_config.use_batched_activation_format
            and HexcuteFourBitExperts.is_supported_config(
                HexcuteFourBitExperts, config, weight_key, None, standard
            )[0]
        )  # fmt: skip
        if ours:
            return OURS, HexcuteFourBitExperts
        return given(config, weight_key, quant_config, *rest, **named)

    return select


def conversion(given: Callable[..., Any]) -> Callable[..., Any]:
    """vLLM's conversion of weights, with ours for our kind."""

    @wraps(given)
    def convert(
        backend: Any, layer: Any, quant_config: Any, input_dtype: Any, w13: Any, w2: Any,
        w13_scale: Any, w2_scale: Any, w13_qzeros: Any = None, w2_qzeros: Any = None, *rest: Any,
        **named: Any,
    ) -> Any:  # fmt: skip
        if backend != OURS:
            return given(
                backend, layer, quant_config, input_dtype, w13, w2, w13_scale, w2_scale,
                w13_qzeros, w2_qzeros, *rest, **named,
            )  # fmt: skip
        form = _form(quant_config) or ""
        zeros = (None, None) if form == "gptq" else (w13_qzeros, w2_qzeros)
        first, second = (
            packed(form, q.data, s.data, None if z is None else z.data)
            for q, s, z in zip((w13, w2), (w13_scale, w2_scale), zeros)
        )
        one, two = (check_packed("convert", "w", w) for w in (first, second))
        if one.group != two.group:
            raise LaunchError(f"hexcute's experts have one size of groups, not {one} and {two}")
        dtype = str(w13_scale.dtype).removeprefix("torch.")
        ahead(
            "moe", hidden=one.k, width=two.k, experts=int(first.shape[0]),
            top_k=int(layer.top_k), group=one.group, dtype=dtype,
        )  # fmt: skip
        none, kept = w13_scale.data.new_empty(0), [
            None if z is None else z.data.new_empty(0) for z in (w13_qzeros, w2_qzeros)
        ]  # fmt: skip
        return first, second, none, none.clone(), *kept, None, None, None, None

    return convert


def construction(given: Callable[..., Any]) -> Callable[..., Any]:
    """vLLM's making of a layer's kernel, with ours for our kind."""

    @wraps(given)
    def make(
        moe_quant_config: Any, moe_config: Any, experts_cls: Any, *rest: Any,
        routing_tables: Any = None, **named: Any,
    ) -> Any:  # fmt: skip
        if experts_cls is not HexcuteFourBitExperts:
            return given(
                moe_quant_config, moe_config, experts_cls, *rest, routing_tables=routing_tables,
                **named,
            )  # fmt: skip
        around = maybe_make_prepare_finalize(
            moe=moe_config, quant_config=moe_quant_config, routing_tables=routing_tables,
            allow_new_interface=True, use_monolithic=False,
        )  # fmt: skip
        return mk.FusedMoEKernel(around, experts_cls(moe_config, moe_quant_config))

    return make


def register() -> None:
    """Wraps the three steps, once."""
    for name, wrapped in (
        ("select_wna16_moe_backend", choice),
        ("convert_to_wna16_moe_kernel_format", conversion),
        ("make_wna16_moe_kernel", construction),
    ):
        given = getattr(oracle, name)
        if getattr(given, "_hexcute", False):
            continue
        ours = wrapped(given)
        ours._hexcute = True  # type: ignore[attr-defined]
        for module in list(sys.modules.values()):
            if getattr(module, "__dict__", {}).get(name) is given:
                setattr(module, name, ours)
