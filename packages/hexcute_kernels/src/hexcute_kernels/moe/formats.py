"""Weights of eight bits and small floats -> the kernels' order, bit for bit, on any device.

    pack_bytes    (q - zero) scale of int8 or uint8        pack_e4m3    w scale of float8_e4m3fn
    pack_mxfp4    value 2^(exponent - 127) of four bits, 32 with one exponent: 0 0.5 1 1.5 2 3 4 6,
                  and from 8 on the same with a minus

Scales are float16, or become it, where it holds them; others are refused, not rounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hexcute_core.errors import LaunchError
from hexcute_kernels.moe.forms import E2M1, E4M3, U8
from hexcute_kernels.moe.packing import ABOVE, check_groups, in_order

if TYPE_CHECKING:
    import torch

SIGN = 128
"""What makes a signed byte one that counts from zero."""
BIAS = 127
"""Of the exponents of e8m0."""


def pack_bytes(
    q: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor | None = None
) -> torch.Tensor:
    """Weights (q - zero) * scale for the kernels: q int8 or uint8 [..., k, n], scale float16
    [..., k/g, n], zero of q's type and scale's shape, 0 where it is left out. g is 32 or a multiple
    of 64. Raises LaunchError."""
    import torch as torch_module

    if q.dtype not in (torch_module.int8, torch_module.uint8):
        raise LaunchError(f"pack_bytes takes q in int8 or uint8, got {q.dtype}")
    if zero is None:
        zero = torch_module.zeros_like(scale, dtype=q.dtype)
    if (scale.dtype, zero.dtype) != (torch_module.float16, q.dtype):
        raise LaunchError(
            f"pack_bytes takes float16 scale and {q.dtype} zero beside such q, got {scale.dtype} "
            f"and {zero.dtype}"
        )
    check_groups("pack_bytes", U8, q, scale=scale, zero=zero)
    more = SIGN if q.dtype == torch_module.int8 else 0
    fields = (q.to(torch_module.int16) + more).to(torch_module.uint8)
    return in_order(U8, fields, (scale, zero.to(scale.dtype) + (ABOVE + more)))


def pack_e4m3(w: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Weights w * scale for the kernels: w float8_e4m3fn [..., k, n], no NaN; scale float16
    [..., k/g, n], g 32 or a multiple of 64. Raises LaunchError."""
    import torch as torch_module

    if (w.dtype, scale.dtype) != (torch_module.float8_e4m3fn, torch_module.float16):
        raise LaunchError(
            f"pack_e4m3 takes float8_e4m3fn w and float16 scale, got {w.dtype} and {scale.dtype}"
        )
    check_groups("pack_e4m3", E4M3, w, scale=scale)
    fields = w.view(torch_module.uint8)
    if bool(((fields & 127) == 127).any()):
        raise LaunchError("pack_e4m3: w holds NaN", fix="replace it by the number that was meant")
    return in_order(E4M3, fields, (scale,))


def pack_mxfp4(q: torch.Tensor, exponent: torch.Tensor) -> torch.Tensor:
    """MXFP4's weights for the kernels: q uint8 [..., k, n], codes 0 to 15; exponent uint8 or
    float8_e8m0fnu [..., k/32, n], from 103 (2^-24) to 142 (2^15). Raises LaunchError."""
    import torch as torch_module

    bits: Any = exponent.view(torch_module.uint8) if exponent.element_size() == 1 else exponent
    if (q.dtype, bits.dtype) != (torch_module.uint8, torch_module.uint8):
        raise LaunchError(
            f"pack_mxfp4 takes uint8 codes and exponents, got {q.dtype} and {exponent.dtype}"
        )
    power = bits.to(torch_module.float32) - BIAS
    for name, low, high, of in (("q", 0, 15, q), ("exponent", 103, 142, bits)):
        if of.numel() and not low <= int(of.min()) <= int(of.max()) <= high:
            raise LaunchError(
                f"pack_mxfp4: {name} is to be from {low} to {high}, got {int(of.min())} to "
                f"{int(of.max())}"
            )
    scale = torch_module.exp2(power).to(torch_module.float16)
    check_groups("pack_mxfp4", E2M1, q, exponent=scale)
    return in_order(E2M1, q, (scale,))
