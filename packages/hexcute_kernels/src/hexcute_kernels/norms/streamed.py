"""Softmax, RMSNorm and LayerNorm of rows of any length: read twice, BN columns at a time.

The first reading gives what a whole row has in common. For a mean and the sum of squares about it
two parts of k and l elements are put together by

    mean = mean_k + (mean_l - mean_k) l / (k + l)
    squares = squares_k + squares_l + (mean_l - mean_k)^2 k l / (k + l)
"""

from __future__ import annotations

import math
from functools import cache

import hexcute_core as hx
from hexcute_core import f32
from hexcute_kernels.norms.rows import deviations, m, n, powers, taken
from hexcute_kernels.parts.schedule import await_launch_ahead

LEAST = -3.4028234663852886e38
"""The least finite number of f32: a row of nothing but -inf sums to 0, and becomes NaN."""


@hx.device
def columns(tensor, row, BN):
    """Row `row` as tiles of (1, BN)."""
    return hx.global_view(tensor[row:, :], ((1, BN, hx.cdiv(n, BN)), (0, 1, BN)))


@hx.device
def number(value):
    """A tile of one number, the same for a row."""
    r = hx.register_tensor(f32, (1, 1))
    hx.fill(r, value)
    return r


@cache
def long_softmax_kernel(dtype: hx.DType) -> hx.Kernel:
    """The kernel for rows of this type."""

    @hx.kernel
    def softmax(
        x: dtype[m, n], y: dtype[m, n], *, BN: int = 4096, THREADS: int = 256, EARLY: bool = False
    ):
        hx.attrs.cuda.grid_dim = m
        hx.attrs.cuda.block_dim = THREADS
        gx, gy = columns(x, hx.blockIdx.x, BN), columns(y, hx.blockIdx.x, BN)
        if EARLY:
            await_launch_ahead()
        top, total = number(LEAST), number(0.0)
        for i in range(hx.cdiv(n, BN)):
            r = taken(gx[:, :, i], -math.inf)
            higher = hx.maximum(top, hx.max(r, 1))
            total = total * powers(top, higher) + hx.sum(powers(r, higher), 1)
            top = higher
        for i in range(hx.cdiv(n, BN)):
            r = taken(gx[:, :, i])
            hx.copy(hx.cast(powers(r, top) * (1.0 / total), dtype), gy[:, :, i])

    return softmax


@cache
def long_norm_kernel(
    dtype: hx.DType, given: hx.DType, *, centred: bool, weighted: bool = False,
    biased: bool = False,
) -> hx.Kernel:  # fmt: skip
    """The kernel for rows of this type; the rest as for `norm_kernel`."""
    weight_type, bias_type = (given[n] if has else None for has in (weighted, biased))

    @hx.kernel
    def norm(
        x: dtype[m, n], weight: weight_type, bias: bias_type, eps: f32, y: dtype[m, n],
        *, BN: int = 4096, THREADS: int = 256, EARLY: bool = False,
    ):  # fmt: skip
        hx.attrs.cuda.grid_dim = m
        hx.attrs.cuda.block_dim = THREADS
        gx, gy = columns(x, hx.blockIdx.x, BN), columns(y, hx.blockIdx.x, BN)
        if EARLY:
            await_launch_ahead()
        mean, squares = number(0.0), number(0.0)
        for i in range(hx.cdiv(n, BN)):
            r = taken(gx[:, :, i])
            if centred:
                before, here = hx.cast(i * BN, f32), hx.cast(hx.minimum(n - i * BN, BN), f32)
                own = hx.sum(r, 1) / here
                further, r = own - mean, deviations(r, own, n - i * BN)
                squares += further * further * (before * here / (before + here))
                mean += further * (here / (before + here))
            squares += hx.sum(r * r, 1)
        scale = hx.rsqrt(squares / hx.cast(n, f32) + eps)
        for i in range(hx.cdiv(n, BN)):
            r = taken(gx[:, :, i])
            r = (r - mean) * scale if centred else r * scale
            if weighted:
                r = r * taken(hx.global_view(weight[i * BN :], ((1, BN), (0, 1))))
            if biased:
                r = r + taken(hx.global_view(bias[i * BN :], ((1, BN), (0, 1))))
            hx.copy(hx.cast(r, dtype), gy[:, :, i])

    return norm
