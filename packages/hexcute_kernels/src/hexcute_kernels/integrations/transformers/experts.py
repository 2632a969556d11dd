"""Experts of a mixture, as a model's router calls them.

    out[t] = sum over j of gates[t, j] (silu(x[t] G[e]^T) * (x[t] U[e]^T)) D[e]^T,  e = ids[t, j]

    four bits       moe
    e4m3 blocks     quantize_blockwise, fp8_grouped_matmul, silu, and the same again
    f16, bf16       grouped_matmul, silu, grouped_matmul

The router is the model's own. Nothing here waits for the GPU.
"""

from __future__ import annotations

import torch
from torch.nn.functional import silu

from hexcute_core.errors import LaunchError
from hexcute_core.unions import assert_never
from hexcute_kernels.fp8 import fp8_grouped_matmul, quantize_blockwise
from hexcute_kernels.gemm import grouped_matmul
from hexcute_kernels.integrations.routed import Product, routed
from hexcute_kernels.integrations.transformers.linears import named
from hexcute_kernels.moe import moe
from hexcute_kernels.parallel.weights import Blockwise, Dense, FourBits, Weight

BY = {
    Dense: "grouped_matmul",
    Blockwise: "quantize_blockwise and fp8_grouped_matmul",
    FourBits: "moe",
}
NAMES = ("gate_up_proj", "down_proj")


class Experts(torch.nn.Module):  # type: ignore[misc]
    """Experts whose weights are stacks: `first` of gate and up, one behind the other along n, and
    `second`, [experts, n, k] as the operators take them. Their tensors are parameters under the
    names that such modules give them, with `_scale_inv` behind those of scales."""

    def __init__(self, first: Weight, second: Weight) -> None:
        super().__init__()
        if type(first) is not type(second):
            raise LaunchError(f"experts in {type(first).__name__} and {type(second).__name__}")
        self.kind = type(first)
        self.by = BY[self.kind]
        for name, weight in zip(NAMES, (first, second)):
            self.register_parameter(name, _parameter(weight.w))
            if isinstance(weight, Blockwise):
                self.register_parameter(f"{name}_scale_inv", _parameter(weight.scale))

    @property
    def num_experts(self) -> int:
        """How many there are."""
        return int(self.gate_up_proj.shape[0])

    def forward(
        self, hidden_states: torch.Tensor, top_k_index: torch.Tensor, top_k_weights: torch.Tensor
    ) -> torch.Tensor:
        """x (tokens, hidden), ids and gates (tokens, top_k) -> (tokens, hidden) of x's type."""
        x = hidden_states.contiguous()
        if self.kind is FourBits:
            ids, gates = top_k_index.int().contiguous(), top_k_weights.float().contiguous()
            made: torch.Tensor = moe(x, *self._tensors(), ids, gates)
            return made
        return routed(x, top_k_index, top_k_weights, self.num_experts, *self._products())

    def _tensors(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self.gate_up_proj.detach(), self.down_proj.detach()

    def _products(self) -> tuple[Product, Product]:
        first, second = self._tensors()
        if self.kind is Dense:
            return _product(Dense(first)), _product(Dense(second))
        scales = self.gate_up_proj_scale_inv.detach(), self.down_proj_scale_inv.detach()
        return _product(Blockwise(first, scales[0])), _product(Blockwise(second, scales[1]))


def _product(weight: Weight) -> Product:
    match weight:
        case Dense(w):
            return lambda rows, bounds: grouped_matmul(rows, w, bounds)
        case Blockwise(w, scale):

            def eight_bits(rows: torch.Tensor, bounds: torch.Tensor) -> torch.Tensor:
                numbers, scales = quantize_blockwise(rows)
                made: torch.Tensor = fp8_grouped_matmul(
                    numbers, w, scales, scale, bounds, out_dtype=named(rows.dtype)
                )
                return made

            return eight_bits
        case FourBits():
            raise LaunchError("experts of four bits are one operator, not two products")
        case _:
            assert_never(weight)


def _parameter(tensor: torch.Tensor) -> torch.nn.Parameter:
    """The tensor itself where it is a parameter, else one of the same memory."""
    if isinstance(tensor, torch.nn.Parameter):
        return tensor
    return torch.nn.Parameter(tensor, requires_grad=False)


def is_experts(module: torch.nn.Module) -> bool:
    """Whether a module holds stacks of experts under the names that transformers gives them."""
    found = [getattr(module, name, None) for name in NAMES]
    return all(isinstance(p, torch.Tensor) and p.dim() == 3 for p in found)


def taken(module: torch.nn.Module) -> Experts | str:
    """The experts that stand for a module's, sharing its parameters, or why none do."""
    first, second = (getattr(module, name) for name in NAMES)
    why = unlike(module)
    if why is not None:
        return why
    if first.dtype in (torch.float16, torch.bfloat16):
        if any(n % 8 for n in (*first.shape[1:], *second.shape[1:])):
            return "its extents are no multiples of 8"
        return Experts(Dense(first), Dense(second))
    if first.dtype != torch.float8_e4m3fn or tuple(getattr(module, "block_size", None) or ()) != (
        128, 128,
    ):  # fmt: skip
        return f"its weights are {first.dtype}, not float16, bfloat16 or e4m3 in blocks of 128"
    scales = [getattr(module, f"{name}_scale_inv", None) for name in NAMES]
    if any(s is None or s.dtype != torch.float32 for s in scales):
        return "its scales are not float32"
    if getattr(module, "activation_scheme", "dynamic") != "dynamic":
        return "its activations have fixed scales"
    if second.shape[2] % 128:
        return f"it is {second.shape[2]} wide, no multiple of 128: a block of gate reaches into up"
    if first.shape[2] % 16:
        return f"its rows are {first.shape[2]} long, no multiple of 16"
    return Experts(Blockwise(first, scales[0]), Blockwise(second, scales[1]))


def unlike(module: torch.nn.Module) -> str | None:
    """How a module's experts differ from the equation, None where they do not. Its parameters need
    not hold data."""
    first, second = (getattr(module, name) for name in NAMES)
    (experts, double, hidden), (_, back, width) = first.shape, second.shape
    if (double, back) != (2 * width, hidden) or second.shape[0] != experts:
        return "its weights are not (experts, 2 width, hidden) and (experts, hidden, width)"
    own = {name.removesuffix("_scale_inv") for name, _ in module.named_parameters(recurse=False)}
    if not own <= {*NAMES}:
        return f"it has {min(own - {*NAMES})} besides"
    for flag, wanted in (
        ("has_gate", True), ("has_bias", False), ("is_transposed", False),
        ("is_concatenated", True), ("has_post_expert_norm", False), ("_is_expert_parallel", False),
    ):  # fmt: skip
        if getattr(module, flag, wanted) != wanted:
            return f"its {flag.strip('_')} is {not wanted}"
    gate = getattr(module, "_apply_gate", None)
    if gate is None:
        return "it does not say how gate and up meet"
    # Far from nought too, where some gates are cut off.
    rows = torch.linspace(-96, 96, 64).repeat(2, 1)
    left, right = rows, rows.flip(1)
    with torch.no_grad():
        got = gate(torch.cat([left, right], 1))
        same = torch.allclose(got, silu(left) * right, rtol=1e-5, atol=1e-6)
    return None if same else "gate and up do not meet as silu(gate) * up"
