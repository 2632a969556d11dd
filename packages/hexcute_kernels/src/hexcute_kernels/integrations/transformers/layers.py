"""Modules that take the place of a model's, and the question whether one may.

    RMSNorm   x / sqrt(mean of x^2 + eps) * w       rms_norm
    Linear    of e4m3 blocks, or of four bits       see `linears`, and `stored` for where they are
    experts   of a mixture                          see `experts`
    Mamba     stays, but for its forward            see `mamba`

A norm is known by what it gives for a few rows, not by its name: some multiply by w, some by 1 + w.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass

import torch

from hexcute_core.errors import LaunchError
from hexcute_kernels.integrations.transformers import experts, mamba, stored
from hexcute_kernels.integrations.transformers.experts import Experts
from hexcute_kernels.integrations.transformers.linears import BlockwiseLinear, FourBitLinear
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


OURS = (RmsNorm, BlockwiseLinear, FourBitLinear, Experts)
"""Modules that take others' places."""


@dataclass(frozen=True)
class Taken:
    """The module to stand in a model, the operators it calls, and the names of modules within it
    whose weights they read."""

    module: torch.nn.Module
    by: str
    within: tuple[str, ...] = ()


def replacement(module: torch.nn.Module) -> Taken | str:
    """What takes this module's place, or why nothing does."""
    if isinstance(module, OURS):
        return Taken(module, module.by)
    hooked = module._forward_hooks or module._forward_pre_hooks or hasattr(module, "_hf_hook")
    if hooked:
        return "it has hooks, which a replacement would lose"
    if any(p.is_meta for p in module.parameters(recurse=False)):
        return "it holds no data here"
    if mamba.is_mamba(module):
        why = mamba.take(module)
        return Taken(module, mamba.BY, (mamba.INSIDE,)) if why is None else why
    if stored.is_stored(module):
        layer = stored.layer_in(module)
        return layer if isinstance(layer, str) else _taken(FourBitLinear(layer))
    if experts.is_experts(module):
        found = experts.taken(module)
        return found if isinstance(found, str) else _taken(found)
    if isinstance(module, torch.nn.Linear):
        why = _not_blockwise(module)
        if why is not None:
            return why
        return _taken(BlockwiseLinear(module.weight, module.weight_scale_inv, module.bias))
    if "RMSNorm" in type(module).__name__:
        norm = _norm(module)
        return norm if isinstance(norm, str) else _taken(norm)
    return "no operator takes its place"


def holds(module: torch.nn.Module) -> bool:
    """Whether a module has weights of its own, rather than in those within it."""
    if isinstance(module, OURS) or stored.is_stored(module):
        return True
    return next(module.parameters(recurse=False), None) is not None


def _taken(module: RmsNorm | BlockwiseLinear | FourBitLinear | Experts) -> Taken:
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
