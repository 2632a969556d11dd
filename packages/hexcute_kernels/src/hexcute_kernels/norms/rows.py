"""Softmax, RMSNorm and LayerNorm of rows that a block holds in registers: read once, written once.

    softmax   y = e^(x - max x) / sum of e^(x - max x)
    norm      y = (x - c) / sqrt(mean of (x - c)^2 + eps) * weight + bias,  c = 0 or the mean of x

What stands beyond a row adds nothing: zeros to a sum, -inf to a softmax. Where rows are `whole`,
as long as the tile, there is no such thing, and no element asks whether it is there.
"""

from __future__ import annotations

import math
from functools import cache

import hexcute_core as hx
from hexcute_core import f32
from hexcute_kernels.parts.schedule import await_launch_ahead
from hexcute_kernels.parts.softmax import LOG2_E

m, n = hx.dims("m n")


@hx.device
def loaded(view, outside=0.0):
    """A tile of a view in registers; `outside` stands beyond the tensor."""
    r = hx.register_tensor(view.dtype, view.shape)
    hx.copy(view, r, outside=outside)
    return r


@hx.device
def taken(view, outside=0.0):
    """The same, as f32."""
    return hx.cast(loaded(view, outside), f32)


@hx.device
def powers(x, top):
    """e^(x - top). The difference first: it is 0 of two equal numbers however large they are."""
    return hx.exp2((x - top) * LOG2_E)


@hx.device
def deviations(x, mean, columns):
    """x (rows, width) less the mean of each row, and 0 from column `columns` on."""
    x = x - mean
    if columns != x.shape[1]:
        for i, j in hx.elements(x):
            if j >= columns:
                x[i, j] = 0.0
    return x


@cache
def softmax_kernel(dtype: hx.DType, width: int, whole: bool) -> hx.Kernel:
    """The kernel for rows of this type, of up to `width` elements, or of just as many."""
    length = width if whole else n

    @hx.kernel
    def softmax(
        x: dtype[m, length], y: dtype[m, length], *, BM: int = 4, THREADS: int = 128,
        EARLY: bool = False,
    ):  # fmt: skip
        hx.attrs.cuda.grid_dim = hx.cdiv(m, BM)
        hx.attrs.cuda.block_dim = THREADS
        bm, rows = hx.blockIdx.x * BM, ((BM, width), (length, 1))
        if EARLY:
            await_launch_ahead()
        r = taken(hx.global_view(x[bm:, :], rows), -math.inf)
        r = powers(r, hx.max(r, 1))
        hx.copy(hx.cast(r * (1.0 / hx.sum(r, 1)), dtype), hx.global_view(y[bm:, :], rows))

    return softmax


@cache
def norm_kernel(
    dtype: hx.DType, width: int, whole: bool, given: hx.DType, *, centred: bool,
    weighted: bool = False, biased: bool = False,
) -> hx.Kernel:  # fmt: skip
    """The kernel for such rows. `centred`: LayerNorm, else RMSNorm; `weighted`, `biased`: numbers
    of type `given` for each column."""
    length = width if whole else n
    weight_type, bias_type = (given[length] if has else None for has in (weighted, biased))

    @hx.kernel
    def norm(
        x: dtype[m, length], weight: weight_type, bias: bias_type, eps: f32, y: dtype[m, length],
        *, BM: int = 4, THREADS: int = 128, EARLY: bool = False, BESIDE: bool = False,
    ):  # fmt: skip
        hx.attrs.cuda.grid_dim = hx.cdiv(m, BM)
        hx.attrs.cuda.block_dim = THREADS
        bm, rows, line = hx.blockIdx.x * BM, ((BM, width), (length, 1)), ((1, width), (0, 1))
        if EARLY:
            await_launch_ahead()
        r, w, b = loaded(hx.global_view(x[bm:, :], rows)), None, None
        if weighted and BESIDE:
            w = loaded(hx.global_view(weight, line))
        if biased and BESIDE:
            b = loaded(hx.global_view(bias, line))
        r = hx.cast(r, f32)
        if centred:
            r = deviations(r, hx.sum(r, 1) / length, length)
        r = r * hx.rsqrt(hx.sum(r * r, 1) / length + eps)
        if weighted:
            w = w if BESIDE else loaded(hx.global_view(weight, line))
            r = r * hx.cast(w, f32)
        if biased:
            b = b if BESIDE else loaded(hx.global_view(bias, line))
            r = r + hx.cast(b, f32)
        hx.copy(hx.cast(r, dtype), hx.global_view(y[bm:, :], rows))

    return norm
