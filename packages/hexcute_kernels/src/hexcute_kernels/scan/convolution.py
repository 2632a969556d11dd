"""y_t = activation(bias + sum over k of w[k] x_(t - W + 1 + k)), channel by channel: what comes
before a scan, W steps wide.

A tile of x lies in shared memory behind the steps before it, and is read W times, a step further
on each time. One step alone, for decoding, takes the steps before it from a cache and leaves them
there shifted.
"""

from __future__ import annotations

from functools import cache

import hexcute_core as hx
from hexcute_core import f32, i32

b, d, length, slots = hx.dims("b d length slots")
HALO = 8
"""Steps before a tile that are brought with it, a multiple of 16 bytes; W - 1 of them are read."""


@hx.device
def silu(x):
    """x / (1 + e^-x)"""
    return x * hx.rcp(1.0 + hx.exp(-x))


@cache
def convolution_kernel(
    dtype: hx.DType, width: int, *, biased: bool = False, gated: bool = False,
    starts: bool = False, timed: bool = True,
) -> hx.Kernel:  # fmt: skip
    """The kernel for `width` steps. `biased`: a number a channel is added; `gated`: the activation
    is silu; `starts`: the width - 1 steps before the first are given, else they are zeros.
    `timed`: steps lie side by side in memory, else channels do."""
    many = dtype[b, d, length] if timed else dtype[b, length, d]
    bias_type = dtype[d] if biased else None
    start_type = dtype[b, d, width - 1] if starts else None

    @hx.kernel
    def convolve(
        x: many, weight: dtype[d, width], bias: bias_type, start: start_type, out: many,
        *, BD: int = 32, BT: int = 56, THREADS: int = 128,
    ):  # fmt: skip
        hx.attrs.cuda.grid_dim = hx.cdiv(length, BT), hx.cdiv(d, BD), b
        hx.attrs.cuda.block_dim = THREADS
        t, bd, y = hx.blockIdx.x * BT, hx.blockIdx.y * BD, hx.blockIdx.z
        s = hx.shared_tensor(dtype, (BD, HALO + BT))
        if timed:
            hx.copy(hx.global_view(x[y, bd:, t - HALO :], (s.shape, (length, 1))), s)
            go = hx.global_view(out[y, bd:, t:], ((BD, BT), (length, 1)))
        else:
            hx.copy(hx.global_view(x[y, t - HALO :, bd:], (s.shape, (1, d))), s)
            go = hx.global_view(out[y, t:, bd:], ((BD, BT), (1, d)))
        hx.syncthreads()
        if starts and hx.blockIdx.x < 1:
            r = hx.register_tensor(dtype, (BD, width - 1))
            hx.copy(hx.global_view(start[y, bd:, :], (r.shape, (width - 1, 1))), r)
            hx.copy(r, s[:, HALO - width + 1 : HALO])
            hx.syncthreads()
        total = hx.register_tensor(f32, (BD, BT))
        hx.fill(total, 0.0)
        for k in hx.static_range(width):
            r, w = hx.register_tensor(dtype, (BD, BT)), hx.register_tensor(dtype, (BD, 1))
            first = HALO - width + 1 + k
            hx.copy(s[:, first : first + BT], r)
            hx.copy(hx.global_view(weight[bd:, k:], ((BD, 1), (width, 1))), w)
            total = total + hx.cast(r, f32) * hx.cast(w, f32)
        if biased:
            w = hx.register_tensor(dtype, (BD, 1))
            hx.copy(hx.global_view(bias[bd:], ((BD, 1), (1, 0))), w)
            total = total + hx.cast(w, f32)
        hx.copy(hx.cast(silu(total) if gated else total, dtype), go)

    return convolve


@cache
def convolution_step_kernel(
    dtype: hx.DType, width: int, kept: int, *, biased: bool = False, gated: bool = False,
    indexed: bool = False,
) -> hx.Kernel:  # fmt: skip
    """The kernel for one step: the `kept` steps before it, at least width - 1, lie in a cache, a
    slot per sequence, and become those before the next. `indexed`: sequence s has slot index[s],
    else slot s; where there is no such slot is no sequence, and the result is 0."""
    bias_type, index_type = dtype[d] if biased else None, i32[b] if indexed else None

    @hx.kernel
    def step(
        x: dtype[b, d], state: dtype[slots, d, kept], weight: dtype[d, width], bias: bias_type,
        index: index_type, out: dtype[b, d], *, BD: int = 128,
    ):  # fmt: skip
        hx.attrs.cuda.grid_dim = hx.cdiv(d, BD), b
        hx.attrs.cuda.block_dim = BD
        bd, y = hx.blockIdx.x * BD, hx.blockIdx.y
        slot = index[y] if indexed else y
        go = hx.global_view(out[y, bd:], ((BD, 1), (1, 0)))
        if indexed and (slot < 0 or slot >= slots):
            nothing = hx.register_tensor(dtype, (BD, 1))
            hx.fill(nothing, 0.0)
            hx.copy(nothing, go)
            return
        gs = hx.global_view(state[slot, bd:, :], ((BD, kept), (kept, 1)))
        line = hx.register_tensor(dtype, (BD, kept + 1))
        hx.copy(gs, line[:, :kept])
        hx.copy(hx.global_view(x[y, bd:], ((BD, 1), (1, 0))), line[:, kept:])
        hx.copy(line[:, 1:], gs)
        w = hx.register_tensor(dtype, (BD, width))
        hx.copy(hx.global_view(weight[bd:, :], ((BD, width), (width, 1))), w)
        total = hx.sum(hx.cast(line[:, kept + 1 - width :], f32) * hx.cast(w, f32), 1)
        if biased:
            r = hx.register_tensor(dtype, (BD, 1))
            hx.copy(hx.global_view(bias[bd:], ((BD, 1), (1, 0))), r)
            total = total + hx.cast(r, f32)
        hx.copy(hx.cast(silu(total) if gated else total, dtype), go)

    return step
