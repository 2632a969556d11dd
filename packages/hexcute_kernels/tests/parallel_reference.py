"""What the operators compute, in float32 by torch on any device, and random weights of each kind:
what parallel forms are compared with where there is no GPU."""

from __future__ import annotations

from typing import Any

import torch

from hexcute_kernels.moe import pack, unpack
from hexcute_kernels.parallel import Blockwise, Dense, FourBits

E4M3, LARGEST = torch.float8_e4m3fn, 448.0


def wide(scale: Any, *shape: int) -> Any:
    """A scale for every 128 x 128 as one for every element of a matrix of this shape."""
    return scale.repeat_interleave(128, -2).repeat_interleave(128, -1)[..., : shape[0], : shape[1]]


def matrix(weight: Any) -> Any:
    """The numbers that a weight stands for, (.., n, k) in float32."""
    if isinstance(weight, Dense):
        return weight.w.float()
    if isinstance(weight, Blockwise):
        return weight.w.float() * wide(weight.scale, *weight.w.shape[-2:])
    q, scale, zero = (t.float() for t in unpack(weight.w))
    return ((q - zero.repeat_interleave(128, -2)) * scale.repeat_interleave(128, -2)).mT


def quantized(x: Any) -> Any:
    """x after `quantize_blockwise`: rounded to e4m3 times a scale for every 128 of a row."""
    blocks = x.float().unflatten(-1, (-1, 128))
    scale = blocks.abs().amax(-1, keepdim=True).clamp(min=2.0**-126) / LARGEST
    return ((blocks / scale).to(E4M3).float() * scale).flatten(-2)


def product(x: Any, weight: Any) -> Any:
    """x w^T + bias, rounded once."""
    y = (quantized(x) if isinstance(weight, Blockwise) else x.float()) @ matrix(weight).mT
    if isinstance(weight, Dense) and weight.bias is not None:
        y = y + weight.bias.float()
    return y.to(x.dtype)


def random_weight(kind: str, n: int, k: int, *batch: int) -> Any:
    """A weight of this kind, of numbers about 1 / sqrt(k) wide."""
    if kind in ("float16", "bfloat16"):
        dtype = getattr(torch, kind)
        bias = torch.randn(*batch, n).to(dtype)
        return Dense((torch.randn(*batch, n, k) * k**-0.5).to(dtype), bias)
    if kind == "fp8":
        q = (torch.randn(*batch, n, k) * 64).clamp(-LARGEST, LARGEST).to(E4M3)
        scale = (torch.rand(*batch, -(-n // 128), -(-k // 128)) + 0.5) * k**-0.5 / 64
        return Blockwise(q, scale)
    q = torch.randint(0, 16, (*batch, k, n), dtype=torch.uint8)
    zero = torch.randint(0, 16, (*batch, k // 128, n), dtype=torch.uint8)
    return FourBits(pack(q, ((torch.rand(zero.shape) + 0.5) * k**-0.5 / 8).half(), zero))


KINDS = {"float16": (1, 1), "bfloat16": (1, 1), "fp8": (128, 128), "w4a16": (64, 128)}
"""Kinds of weights, and what each is not cut within, along n and k."""


def activations(kind: str, *shape: int) -> Any:
    """x of the type that goes with weights of this kind."""
    return torch.randn(*shape).to(torch.float16 if kind in ("float16", "w4a16") else torch.bfloat16)
