"""Linear layers of quantized weights.

    BlockwiseLinear   (s_x q_x) (s_w q_w)^T + bias, e4m3, blocks of 128   quantize_blockwise, then
                                                                          fp8_blockwise_matmul
    FourBitLinear     x ((q - zero) scale)^T + bias                       w4a16_matmul
"""

from __future__ import annotations

import torch

from hexcute_kernels.checkpoints import Layer
from hexcute_kernels.fp8 import fp8_blockwise_matmul, quantize_blockwise
from hexcute_kernels.moe import w4a16_matmul
from hexcute_kernels.moe.packing import check_packed


def named(dtype: torch.dtype) -> str:
    """What the operators call a type of results."""
    return str(dtype).removeprefix("torch.")


class BlockwiseLinear(torch.nn.Module):  # type: ignore[misc]
    """x w^T + bias with w in e4m3 and a scale a 128 x 128 block, x (..., k) brought to e4m3 with a
    scale for each row and 128 columns; weight [n, k], weight_scale_inv [n/128, k/128]."""

    by = "quantize_blockwise and fp8_blockwise_matmul"

    def __init__(
        self,
        weight: torch.nn.Parameter,
        weight_scale_inv: torch.nn.Parameter,
        bias: torch.nn.Parameter | None,
    ) -> None:
        super().__init__()
        self.weight, self.weight_scale_inv = weight, weight_scale_inv
        self.register_parameter("bias", bias)
        self.out_features, self.in_features = self.weight.shape

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """(..., n), of x's type."""
        rows = input.reshape(-1, self.in_features).contiguous()
        numbers, scales = quantize_blockwise(rows)
        weights = self.weight.detach(), self.weight_scale_inv.detach()
        made = fp8_blockwise_matmul(
            numbers, weights[0], scales, weights[1], out_dtype=named(input.dtype)
        )
        made = made.view(*input.shape[:-1], self.out_features)
        return made if self.bias is None else made + self.bias.to(made.dtype)


class FourBitLinear(torch.nn.Module):  # type: ignore[misc]
    """x w^T + bias with w in four bits, `packed` for the kernels; x (..., k) in float16 or
    bfloat16, its columns taken in `order` where there is one."""

    by = "w4a16_matmul"

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        packed = layer.weight.w
        found = check_packed("FourBitLinear", "w", packed)
        self.out_features, self.in_features = found.n, found.k
        for name, tensor in (("packed", packed), ("order", layer.order), ("bias", layer.bias)):
            self.register_buffer(name, tensor)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """(..., n), of x's type."""
        rows = input.reshape(-1, self.in_features)
        rows = rows.contiguous() if self.order is None else rows[:, self.order]
        made = w4a16_matmul(rows, self.packed).view(*input.shape[:-1], self.out_features)
        return made if self.bias is None else made + self.bias.to(made.dtype)
