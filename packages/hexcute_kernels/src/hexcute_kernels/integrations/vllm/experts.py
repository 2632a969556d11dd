"""vLLM's experts of a mixture, weights in e4m3 with blocks of 128 x 128.

    rows sorted by expert, then quantize_blockwise, fp8_grouped_matmul, silu, and the same again

vLLM chooses a kind of experts, and among its classes the first that takes the layer. Ours stands
before Triton's, whose weights lie as in the checkpoint, which is how ours read them.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import wraps
from typing import Any

import torch
import vllm.model_executor.layers.fused_moe.modular_kernel as mk
from vllm.model_executor.layers.fused_moe.activation import MoEActivation
from vllm.model_executor.layers.fused_moe.oracle import fp8 as oracle
from vllm.model_executor.layers.fused_moe.topk_weight_and_reduce import TopKWeightAndReduceNoOP
from vllm.model_executor.layers.quantization.utils.quant_utils import (
    kFp8Dynamic128Sym,
    kFp8Static128BlockSym,
)

from hexcute_core.errors import LaunchError
from hexcute_kernels.fp8 import fp8_grouped_matmul, quantize_blockwise
from hexcute_kernels.integrations.routed import Product, routed
from hexcute_kernels.integrations.vllm.ahead import ahead, most_rows
from hexcute_kernels.integrations.vllm.linear import BLOCK, MULTIPLE, on_hopper

NOT_TAKEN = "hexcute's experts are all here, and take rows as they come"


class HexcuteExperts(mk.FusedMoEExpertsModular):  # type: ignore[misc]
    """What our experts of all kinds take: one rank's tokens, gate and up joined by silu."""

    MULTIPLE = MULTIPLE
    """Of which hidden is a multiple; the width is one of 128."""

    @staticmethod
    def activation_format() -> mk.FusedMoEActivationFormat:
        """Tokens one below the other, each with its experts' numbers."""
        return mk.FusedMoEActivationFormat.Standard

    @property
    def expects_unquantized_inputs(self) -> bool:
        """Rows are quantized after they were sorted."""
        return True

    @staticmethod
    def is_supported_config(
        cls: type[HexcuteExperts],
        moe_config: Any,
        weight_key: Any,
        activation_key: Any,
        activation_format: Any,
    ) -> tuple[bool, str | None]:
        """Whether a layer is ours: what vLLM asks of all, and its extents."""
        allowed, why = mk.FusedMoEExperts.is_supported_config(
            cls, moe_config, weight_key, activation_key, activation_format
        )
        width = moe_config.intermediate_size_per_partition
        if allowed and (width % BLOCK or moe_config.hidden_dim % cls.MULTIPLE):
            return False, f"kernel does not support width {width} of {moe_config.hidden_dim}"
        gates = ("has_bias", "swiglu_limit", "swiglu_alpha", "swiglu_beta")
        unknown = [name for name in gates if getattr(moe_config, name, None)]
        if allowed and unknown:
            return False, f"kernel does not support {unknown[0]}"
        return allowed, why

    @staticmethod
    def _supports_current_device() -> bool:
        return on_hopper()

    @staticmethod
    def _supports_no_act_and_mul() -> bool:
        return False

    @staticmethod
    def _supports_activation(activation: MoEActivation) -> bool:
        return bool(activation == MoEActivation.SILU)

    @staticmethod
    def _supports_parallel_config(moe_parallel_config: Any) -> bool:
        return not (moe_parallel_config.use_ep or moe_parallel_config.use_all2all_kernels)

    def finalize_weight_and_reduce_impl(self) -> mk.TopKWeightAndReduce:
        """Rows are weighted and added up already."""
        return TopKWeightAndReduceNoOP()

    def workspace_shapes(
        self, M: int, N: int, K: int, topk: int, *rest: Any
    ) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """No workspace; the output."""
        return (0,), (0,), (M, K)

    def apply(
        self,
        output: torch.Tensor,
        hidden_states: torch.Tensor,
        w1: torch.Tensor,
        w2: torch.Tensor,
        topk_weights: torch.Tensor,
        topk_ids: torch.Tensor,
        activation: MoEActivation,
        global_num_experts: int,
        expert_map: torch.Tensor | None,
        a1q_scale: torch.Tensor | None,
        a2_scale: torch.Tensor | None,
        workspace13: torch.Tensor,
        workspace2: torch.Tensor,
        expert_tokens_meta: Any,
        apply_router_weight_on_input: bool,
    ) -> None:
        """Writes (tokens, hidden) to `output`. Raises LaunchError where experts are mapped or the
        rows are quantized, which vLLM was told that we do not take."""
        if expert_map is not None or a1q_scale is not None:
            raise LaunchError(NOT_TAKEN)
        x, gates = hidden_states, topk_weights
        if apply_router_weight_on_input:
            x, gates = x * gates.to(x.dtype), torch.ones_like(gates)
        output.copy_(self._computed(x, w1, w2, topk_ids, gates))

    @abstractmethod
    def _computed(
        self,
        x: torch.Tensor,
        w1: torch.Tensor,
        w2: torch.Tensor,
        ids: torch.Tensor,
        gates: torch.Tensor,
    ) -> torch.Tensor:
        """The weighted sums (tokens, hidden) of the experts' results."""


class HexcuteBlockExperts(HexcuteExperts):
    """Experts in e4m3 with a scale for 128 x 128."""

    @staticmethod
    def _supports_quant_scheme(weight_key: Any, activation_key: Any) -> bool:
        return (weight_key, activation_key) == (kFp8Static128BlockSym, kFp8Dynamic128Sym)

    def __init__(self, moe_config: Any, quant_config: Any, *rest: Any, **named: Any) -> None:
        super().__init__(moe_config, quant_config, *rest, **named)
        self.compile_ahead()

    def compile_ahead(self) -> None:
        """What such a layer may launch is compiled; weights stay as they are."""
        config = self.moe_config
        dtype = str(config.in_dtype).removeprefix("torch.")
        width, hidden = config.intermediate_size_per_partition, config.hidden_dim
        rows = most_rows() * config.experts_per_token
        for n, k in ((2 * width, hidden), (hidden, width)):
            ahead("quantize_blockwise", rows, k=k, dtype=dtype)
            ahead(
                "fp8_grouped_matmul", rows, n=n, k=k, experts=config.num_local_experts, out=dtype
            )

    def _computed(
        self,
        x: torch.Tensor,
        w1: torch.Tensor,
        w2: torch.Tensor,
        ids: torch.Tensor,
        gates: torch.Tensor,
    ) -> torch.Tensor:
        if self.w1_scale is None:
            raise LaunchError(NOT_TAKEN)
        first, second = _product(w1, self.w1_scale), _product(w2, self.w2_scale)
        return routed(x, ids, gates, w1.shape[0], first, second)


def _product(w: torch.Tensor, scale: torch.Tensor) -> Product:
    def product(rows: torch.Tensor, bounds: torch.Tensor) -> torch.Tensor:
        numbers, scales = quantize_blockwise(rows)
        out = str(rows.dtype).removeprefix("torch.")
        made: torch.Tensor = fp8_grouped_matmul(numbers, w, scales, scale, bounds, out_dtype=out)
        return made

    return product


def register() -> None:
    """Puts ours before Triton's among the classes that vLLM asks for that kind."""
    given = oracle.backend_to_kernel_cls
    if getattr(given, "_hexcute", False):
        return

    @wraps(given)
    def with_ours(backend: oracle.Fp8MoeBackend) -> list[type[mk.FusedMoEExperts]]:
        found: list[type[mk.FusedMoEExperts]] = given(backend)
        return [HexcuteBlockExperts, *found] if backend == oracle.Fp8MoeBackend.TRITON else found

    with_ours._hexcute = True  # type: ignore[attr-defined]
    oracle.backend_to_kernel_cls = with_ours
