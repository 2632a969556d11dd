"""vLLM's linear layers of quantized weights.

    Hexcute4BitLinearKernel    x ((q - zero) scale)^T    w4a16_matmul
    HexcuteBlockLinearKernel   e4m3 in blocks of 128     quantize_blockwise, fp8_blockwise_matmul

Of vLLM's orders of four bits they take the one that its own kernels for Hopper ask for: words of
eight along k, zero points along n.
"""

from __future__ import annotations

from typing import Any

import torch
from vllm.model_executor.kernels import linear as registry
from vllm.model_executor.kernels.linear.mixed_precision.MPLinearKernel import (
    MPLinearKernel,
    MPLinearLayerConfig,
)
from vllm.model_executor.kernels.linear.scaled_mm.BlockScaledMMLinearKernel import (
    Fp8BlockScaledMMLinearKernel,
)
from vllm.model_executor.kernels.linear.scaled_mm.ScaledMMLinearKernel import (
    FP8ScaledMMLinearLayerConfig,
)
from vllm.model_executor.layers.quantization.utils import replace_parameter
from vllm.platforms import PlatformEnum
from vllm.scalar_type import scalar_types

from hexcute_core.errors import LaunchError
from hexcute_kernels.fp8 import fp8_blockwise_matmul, quantize_blockwise
from hexcute_kernels.integrations.vllm.ahead import ahead
from hexcute_kernels.moe import from_compressed_tensors, w4a16_matmul
from hexcute_kernels.moe.packing import GROUP, GROUPS, ROWS

HOPPER = 90
TYPES = (torch.float16, torch.bfloat16)
BLOCK, MULTIPLE = 128, 16


class Hexcute4BitLinearKernel(MPLinearKernel):  # type: ignore[misc]
    """Weights of four bits, with zero points or 8 for all, in groups of 32, 64, 128 or all of k."""

    @classmethod
    def get_min_capability(cls) -> int:
        """Hopper's, the only one: see `can_implement`."""
        return HOPPER

    @classmethod
    def can_implement(cls, c: MPLinearLayerConfig) -> tuple[bool, str | None]:
        """Whether a layer's weights are ours, and why not."""
        k, n = c.partition_weight_shape
        wanted = scalar_types.uint4 if c.zero_points else scalar_types.uint4b8
        group = k if c.group_size == -1 else c.group_size
        if not on_hopper():
            return False, "hexcute's kernels of four bits are for Hopper"
        if c.weight_type != wanted or c.act_type not in TYPES:
            return False, f"hexcute has no {c.weight_type} with {c.act_type}"
        if k % GROUP or n % ROWS or (group not in GROUPS and group % GROUP):
            return False, (
                f"hexcute takes k a multiple of {GROUP}, n of {ROWS}, groups of 32, 64 or 128; got "
                f"{k}, {n} and {c.group_size}"
            )
        return True, None

    def process_weights_after_loading(self, layer: torch.nn.Module) -> None:
        """The weights in our kernels' order, once; scales and zero points are among them."""
        q, scale = (_k_first(getattr(layer, name)) for name in (self.w_q_name, self.w_s_name))
        zero = None
        if self.config.zero_points:
            zero = _k_first(getattr(layer, self.w_zp_name or "")).t()
        try:
            packed, _ = from_compressed_tensors(q.t(), scale.t(), zero)
        except LaunchError as error:
            raise LaunchError(
                error.message, fix=f"VLLM_DISABLED_KERNELS={type(self).__name__} leaves it to vLLM"
            ) from error
        nothing = packed.new_empty(0)
        replace_parameter(layer, self.w_q_name, torch.nn.Parameter(packed, requires_grad=False))
        for name in (self.w_s_name, self.w_zp_name):
            if name is not None and getattr(layer, name, None) is not None:
                replace_parameter(layer, name, torch.nn.Parameter(nothing, requires_grad=False))
        k, n = self.config.partition_weight_shape
        group = min(GROUP, k if self.config.group_size == -1 else self.config.group_size)
        dtype = str(self.config.act_type).removeprefix("torch.")
        ahead("w4a16_matmul", n=n, k=k, group=group, dtype=dtype)

    def apply_weights(
        self, layer: torch.nn.Module, x: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        """x (..., k) -> (..., n)."""
        k, n = self.config.partition_weight_shape
        made = w4a16_matmul(x.reshape(-1, k).contiguous(), getattr(layer, self.w_q_name))
        if bias is not None:
            made = made + bias
        return made.view(*x.shape[:-1], n)


class HexcuteBlockLinearKernel(Fp8BlockScaledMMLinearKernel):  # type: ignore[misc]
    """Weights in e4m3 with a scale for 128 x 128; activations are quantized here, with the scales
    side by side that the product reads quickest."""

    apply_input_quant = False

    @classmethod
    def is_supported(cls, compute_capability: int | None = None) -> tuple[bool, str | None]:
        """Whether this is Hopper."""
        on = on_hopper() if compute_capability is None else compute_capability == HOPPER
        return on, None if on else "hexcute's kernels of eight bits are for Hopper"

    @classmethod
    def can_implement(cls, config: FP8ScaledMMLinearLayerConfig) -> tuple[bool, str | None]:
        """Whether a layer's blocks are ours, and why not."""
        allowed, why = super().can_implement(config)
        if not allowed:
            return allowed, why
        given = config.activation_quant_key.scale.group_shape
        blocks = config.weight_quant_key.scale.group_shape
        shapes = (given.row, given.col), (blocks.row, blocks.col)
        if shapes != ((1, BLOCK), (BLOCK, BLOCK)):
            return False, f"hexcute takes scales for 1 x 128 and 128 x 128, not {shapes}"
        if config.out_dtype not in TYPES or config.input_dtype not in TYPES:
            return False, f"hexcute has no {config.input_dtype} to {config.out_dtype}"
        if any(extent % MULTIPLE for extent in config.weight_shape):
            return False, f"hexcute takes multiples of {MULTIPLE}, not {config.weight_shape}"
        return True, None

    def process_weights_after_loading(self, layer: torch.nn.Module) -> None:
        """Weights stay as they are; what they may launch is compiled."""
        super().process_weights_after_loading(layer)
        n, k = self._get_layer_params(layer).weight.shape
        given, out = (
            str(t).removeprefix("torch.") for t in (self.config.input_dtype, self.config.out_dtype)
        )
        ahead("quantize_blockwise", k=k, dtype=given)
        ahead("fp8_blockwise_matmul", n=n, k=k, out=out)

    def apply_block_scaled_mm(
        self, A: torch.Tensor, B: torch.Tensor, As: torch.Tensor, Bs: torch.Tensor
    ) -> torch.Tensor:
        """A (m, k) not quantized yet, B (n, k) and its scales -> (m, n)."""
        numbers, scales = quantize_blockwise(A.contiguous())
        out = str(self.config.out_dtype).removeprefix("torch.")
        made: torch.Tensor = fp8_blockwise_matmul(numbers, B, scales, Bs, out_dtype=out)
        return made


def _k_first(parameter: torch.Tensor) -> torch.Tensor:
    """A parameter's elements with k first, which vLLM's parameters say of themselves."""
    return parameter.data if getattr(parameter, "output_dim", 1) == 1 else parameter.data.t()


def register() -> None:
    """Puts both where vLLM looks for kernels, before its own."""
    for kind, kernel, kernels in (
        ("mp", Hexcute4BitLinearKernel, registry._POSSIBLE_KERNELS),
        ("fp8_block", HexcuteBlockLinearKernel, registry._POSSIBLE_FP8_BLOCK_KERNELS),
    ):
        known: list[Any] = kernels.get(PlatformEnum.CUDA, [])
        if kernel not in known:
            registry.register_linear_kernel(kernel, PlatformEnum.CUDA, kind)
            first = kernels[PlatformEnum.CUDA]
            first.insert(0, first.pop(first.index(kernel)))


def on_hopper() -> bool:
    """Whether vLLM's GPU is one that our kernels are for."""
    from vllm.platforms import current_platform

    return bool(current_platform.is_cuda() and current_platform.is_device_capability(HOPPER))
