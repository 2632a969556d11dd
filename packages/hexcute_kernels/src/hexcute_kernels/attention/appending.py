"""New keys and values to their places in a cache, keys and queries turned by rotary embedding.

    place p of a sequence:   x1' = x1 cos(p) - x2 sin(p)      x2' = x2 cos(p) + x1 sin(p)

for its pairs of elements (x1, x2): halves of a head's first columns, or neighbours. The columns
behind them stay as they are. Query, key and value i of the last sq of a sequence of n keys have the
place n - sq + i.
"""

from __future__ import annotations

import math
from functools import cache

import hexcute_core as hx
from hexcute_core import f32, i32
from hexcute_kernels.attention.cache import row_of

b, h, hk, tokens, rows, most, places = hx.dims("b h hk tokens rows most places")


@hx.device
def move(x, y, factor, angles):
    """y = factor x, in y's type; `angles`: cosines and sines (1, pairs) by which pairs are turned,
    None for elements that are no pairs."""
    r = hx.register_tensor(x.dtype, x.shape)
    hx.copy(x, r)
    if angles is None:
        hx.copy(hx.cast(hx.cast(r, f32) * factor, y.dtype), y)
    else:
        (cos, sin), result = angles, hx.register_tensor(y.dtype, y.shape)
        first, second = hx.cast(r[:, :, 0], f32), hx.cast(r[:, :, 1], f32)
        hx.copy(hx.cast((first * cos - second * sin) * factor, y.dtype), result[:, :, 0])
        hx.copy(hx.cast((second * cos + first * sin) * factor, y.dtype), result[:, :, 1])
        hx.copy(result, y)


@hx.device
def move_heads(x, y, at, to, head, HEADS, factor, angles, steps):
    """HEADS heads from `head` on of token `at` of x, to row `to` of y; pairs are `steps` apart."""
    d, turned = x.shape[2], 0
    if angles is not None:
        turned = 2 * angles[0].shape[1]
        shape, strides = (HEADS, turned // 2, 2), (d, *steps)
        moved = (hx.global_view(x[at, head:, :], (shape, strides)),
                 hx.global_view(y[to, head:, :], (shape, strides)))  # fmt: skip
        move(*moved, factor, angles)
    if turned < d:
        shape = (HEADS, d - turned), (d, 1)
        rest = hx.global_view(x[at, head:, turned:], shape)
        move(rest, hx.global_view(y[to, head:, turned:], shape), factor, None)


@cache
def append_kernel(
    dtype: hx.DType, cached: hx.DType, d: int, sq: int, turned: int, paired: bool, page: int | None
) -> hx.Kernel:
    """The kernel for heads of width d, `turned` pairs of which are turned, neighbours where
    `paired`: HEADS heads of a token of q, k or v a block."""
    table_type = None if page is None else i32[b, most]
    angle_type = f32[places, turned] if turned else None
    steps = (2, 1) if paired else (1, turned)

    @hx.kernel
    def append(
        q: dtype[tokens, h, d],
        k: dtype[tokens, hk, d],
        v: dtype[tokens, hk, d],
        k_cache: cached[rows, hk, d],
        v_cache: cached[rows, hk, d],
        lengths: i32[b],
        table: table_type,
        cos: angle_type,
        sin: angle_type,
        turned_q: dtype[tokens, h, d],
        k_factor: f32,
        v_factor: f32,
        sk: i32,
        *,
        HEADS: int = 8,
        WARPS: int = 4,
    ):
        of_q, of_k = hx.cdiv(h, HEADS), hx.cdiv(hk, HEADS)
        hx.attrs.cuda.grid_dim = tokens, of_q + 2 * of_k
        hx.attrs.cuda.block_dim = 32 * WARPS
        token, part = hx.blockIdx.x, hx.blockIdx.y
        z = token // sq
        place = lengths[z] - sq + token % sq
        row, kept = 0, place >= 0 and place < sk
        if kept:
            row = row_of(z, place, sk, table, page)
        kept = kept and row >= 0 and row < rows
        angles = None
        if turned:
            c, s = hx.register_tensor(f32, (1, turned)), hx.register_tensor(f32, (1, turned))
            known = hx.maximum(place, 0)
            for x, r in ((cos, c), (sin, s)):
                # A place without an angle gives no number.
                angle = hx.global_view(x[known:, :], ((1, turned), (turned, 1)))
                hx.copy(angle, r, outside=math.nan)
            angles = c, s
        if part < of_q:
            move_heads(q, turned_q, token, token, part * HEADS, HEADS, 1.0, angles, steps)
        elif kept:
            if part < of_q + of_k:
                head = (part - of_q) * HEADS
                move_heads(k, k_cache, token, row, head, HEADS, k_factor, angles, steps)
            else:
                head = (part - of_q - of_k) * HEADS
                move_heads(v, v_cache, token, row, head, HEADS, v_factor, None, steps)

    return append
