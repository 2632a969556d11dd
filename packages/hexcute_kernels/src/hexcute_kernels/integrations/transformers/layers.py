"""Modules that take the place of a model's, and the question whether one may.

    RMSNorm   x / sqrt(mean of x^2 + eps) * w                     rms_norm
    Linear    (s_x q_x) (s_w q_w)^T + bias, e4m3, blocks of 128   quantize_blockwise, then
                                                                  fp8_blockwise_matmul
    Mamba     stays, but for its forward: see `mamba`

A norm is known by what it gives for a few rows, not by its name: some multiply by w, some by 1 + w.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass

import torch

from hexcute_core.errors import LaunchError
from hexcute_kernels.fp8 import fp8_blockwise_matmul, quantize_blockwise
from hexcute_kernels.integrations.transformers import mamba
from hexcute_kernels.norms import rms_norm

BLOCK = 128
MULTIPLE = 16
"""What the extents of FP8 weights are multiples of."""
ULPS = 4
"""By how many units of its last place a norm may differ from the equation: it rounds twice."""


class RmsNorm(torch.nn.Module):  # type: ignore[misc]
    """x / sqrt(mean of x^2 + eps) * scale of rows (..., columns); `weight` is the replaced
    module's, under its name, and `scale` what it multiplies by."""

    by = "rms_norm"

    def __init__(self, weight: torch.nn.Parameter, scale: torch.Tensor, eps: float) -> None:
        super().__init__()
        self.weight = weight
        self.register_buffer("scale", scale, persistent=False)
        self.eps = eps

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """The same shape and type. Raises LaunchError for another type than the weight's."""
        if hidden_states.dtype != self.weight.dtype:
            raise LaunchError(
                f"rms_norm stands for a norm in {self.weight.dtype}, got {hidden_states.dtype}",
                fix="call use(model) after the model has its type",
            )
        made: torch.Tensor = rms_norm(hidden_states.contiguous(), self.scale, self.eps)
        return made


class BlockwiseLinear(torch.nn.Module):  # type: ignore[misc]
    """x w^T + bias with w in e4m3 and a scale a 128 x 128 block, x (..., k) brought to e4m3 with a
    scale for each row and 128 columns; the parameters are the replaced module's."""

    by = "quantize_blockwise and fp8_blockwise_matmul"

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.weight, self.weight_scale_inv = module.weight, module.weight_scale_inv
        self.register_parameter("bias", module.bias)
        self.out_features, self.in_features = self.weight.shape

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """(..., n), of x's type."""
        rows = input.reshape(-1, self.in_features).contiguous()
        numbers, scales = quantize_blockwise(rows)
        weights = self.weight.detach(), self.weight_scale_inv.detach()
        out = str(input.dtype).removeprefix("torch.")
        made = fp8_blockwise_matmul(numbers, weights[0], scales, weights[1], out_dtype=out)
        made = made.view(*input.shape[:-1], self.out_features)
        return made if self.bias is None else made + self.bias.to(made.dtype)


@dataclass(frozen=True)
class Taken:
    """The module to stand in a model, the operators it calls, and the names of modules within it
    whose weights they read."""

    module: torch.nn.Module
    by: str
    within: tuple[str, ...] = ()


def replacement(module: torch.nn.Module) -> Taken | str:
    """What takes this module's place, or why nothing does."""
    if isinstance(module, (RmsNorm, BlockwiseLinear)):
        return Taken(module, module.by)
    hooked = module._forward_hooks or module._forward_pre_hooks or hasattr(module, "_hf_hook")
    if hooked:
        return "it has hooks, which a replacement would lose"
    if any(p.is_meta for p in module.parameters(recurse=False)):
        return "it holds no data here"
    if mamba.is_mamba(module):
        why = mamba.take(module)
        return Taken(module, mamba.BY, (mamba.INSIDE,)) if why is None else why
    if isinstance(module, torch.nn.Linear):
        why = _not_blockwise(module)
        return _taken(BlockwiseLinear(module)) if why is None else why
    if "RMSNorm" in type(module).__name__:
        norm = _norm(module)
        return norm if isinstance(norm, str) else _taken(norm)
    return "no operator takes its place"


def _taken(module: RmsNorm | BlockwiseLinear) -> Taken:
    return Taken(module, module.by)


def _not_blockwise(module: torch.nn.Linear) -> str | None:
    """Why a linear layer is none of FP8 blocks with scales."""
    weight, scale = module.weight, getattr(module, "weight_scale_inv", None)
    if weight.dtype != torch.float8_e4m3fn or scale is None:
        return f"its weights are {weight.dtype}, not float8_e4m3fn with scales: torch multiplies"
    if type(module).__name__ != "FP8Linear":
        return "it is a kind of FP8 layer of its own"
    if getattr(module, "activation_scale", None) is not None:
        return "its activations have one fixed scale"
    (n, k), blocks = weight.shape, tuple(getattr(module, "block_size", None) or ())
    shape = (-(-n // BLOCK), -(-k // BLOCK))
    got = f"{scale.dtype} of {tuple(scale.shape)} of blocks of {blocks}"
    if blocks != (BLOCK, BLOCK) or tuple(scale.shape) != shape or scale.dtype != torch.float32:
        return f"its scales are {got}, not float32 of {shape} of blocks of {(BLOCK, BLOCK)}"
    if n % MULTIPLE or k % MULTIPLE:
        return f"its weights are {(n, k)}, not multiples of {MULTIPLE}"
    return None


def _norm(module: torch.nn.Module) -> RmsNorm | str:
    """The norm that gives what this one gives, or why none does."""
    weight = getattr(module, "weight", None)
    eps = getattr(module, "variance_epsilon", getattr(module, "eps", None))
    if weight is None or weight.dim() != 1 or not isinstance(eps, float):
        return "it has no weight for each column, or no eps"
    if len(inspect.signature(module.forward).parameters) != 1:
        return "it takes more than rows"
    rows = torch.randn(4, weight.shape[0], generator=torch.Generator().manual_seed(0))
    # In rows as small as this eps counts as much as they do.
    rows[2:] *= eps**0.5
    rows = rows.to(weight.device, weight.dtype)
    with torch.no_grad():
        got, x = module(rows).double(), rows.double()
        normed = x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt()
        for scale in (weight.detach(), 1.0 + weight.detach().float()):
            if _close(got, normed * scale.double(), weight.dtype):
                return RmsNorm(weight, scale, eps)
    return "it gives something else than rows over their root mean square, times w or 1 + w"


def _close(got: torch.Tensor, want: torch.Tensor, dtype: torch.dtype) -> bool:
    info = torch.finfo(dtype)
    return bool(((got - want).abs() <= ULPS * (info.eps * want.abs() + info.tiny)).all())
