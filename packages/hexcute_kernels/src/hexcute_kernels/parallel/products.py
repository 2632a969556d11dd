"""y = x w^T on this rank's GPU by the operator that the weight is for: what layers take unless they
are given another product."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hexcute_core.errors import LaunchError
from hexcute_core.unions import assert_never
from hexcute_kernels.fp8 import fp8_blockwise_matmul, quantize_blockwise
from hexcute_kernels.gemm import linear
from hexcute_kernels.moe import w4a16_matmul
from hexcute_kernels.parallel.weights import Blockwise, Dense, FourBits, Weight, extents

if TYPE_CHECKING:
    import torch

Product = Callable[["torch.Tensor", Weight], "torch.Tensor"]
"""From x (.., k) and a weight of one matrix to y (.., n), in x's type."""


def product(x: torch.Tensor, weight: Weight) -> torch.Tensor:
    """x w^T, with the bias of a Dense weight, by `linear`, `fp8_blockwise_matmul` (x is quantized
    first, by `quantize_blockwise`) or `w4a16_matmul`.

    x: (.., k), float16 or bfloat16 as the weight's operator takes it, in any order of memory: one
    that is not row-major, as some columns of a larger tensor, is copied first. Gives (.., n),
    row-major, in its type. Raises LaunchError where the operator takes no such tensors.
    """
    n, k = extents(weight)
    if x.dim() == 0 or x.shape[-1] != k:
        raise LaunchError(f"the weight of this rank takes x (.., {k}), got {tuple(x.shape)}")
    rows = x.reshape(-1, k).contiguous()
    match weight:
        case Dense(w, bias):
            y = linear(rows, w, bias)
        case Blockwise(w, scale):
            q, s = quantize_blockwise(rows)
            y = fp8_blockwise_matmul(q, w, s, scale, str(x.dtype).removeprefix("torch."))
        case FourBits(w):
            y = w4a16_matmul(rows, w)
        case _:
            assert_never(weight)
    found: torch.Tensor = y.view(*x.shape[:-1], n)
    return found
