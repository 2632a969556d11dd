"""Mamba-2's scan by products: y = h C + (L o C B^T) X, chunk by chunk of the steps.

    h_t = exp(dt_t A) h_(t-1) + dt_t x_t B_t^T,   y_t = (h_t C_t + D x_t) silu(z_t)

A decays all states of a head alike, so that with l_t = A (dt_1 + .. + dt_t) since a chunk's start

    y_i = exp(l_i) h C_i + sum over j <= i of exp(l_i - l_j) (C_i . B_j) dt_j x_j
    h'  = exp(l_last) h  + sum over j of      exp(l_last - l_j) dt_j x_j B_j^T

which are four products a chunk. A block walks the chunks of BP rows of a head's states. These stay
in f32 in the registers that the products add to, and are rounded to be multiplied by C, as the
weights of the steps are to be multiplied by x; decays, sums and what is carried are f32.
"""

from __future__ import annotations

from functools import cache
from math import gcd

import hexcute_core as hx
from hexcute_core import f32
from hexcute_kernels.parts.epilogue import through_shared
from hexcute_kernels.parts.softmax import LOG2_E
from hexcute_kernels.scan.update import taken
from hexcute_kernels.scan.walk import finished, softplus

b, length, h, g = hx.dims("b length h g")


@hx.device
def bring(loads, i):
    """Starts to bring chunk i of each (chunks, ring)."""
    for source, ring in loads:
        hx.copy(source[:, :, :, i], ring[:, :, :, i % ring.shape[3]])
    hx.cp_async_commit()


@hx.device
def read(tile):
    """A tile of shared memory in registers."""
    r = hx.register_tensor(tile.dtype, tile.shape)
    hx.copy(tile, r)
    return r


@cache
def chunked_scan_kernel(
    dtype: hx.DType, dt_dtype: hx.DType, width: int, states: int, *, skips: bool = False,
    gated: bool = False, biased: bool = False, soft: bool = False, starts: bool = False,
    ends: bool = False,
) -> hx.Kernel:  # fmt: skip
    """The kernel for heads of this width, with `states` states for each of its rows.

    `skips`: D x is added; `gated`: the result is multiplied by silu(z); `biased`: dt + bias is
    taken; `soft`: dt is softplus of that. `starts`, `ends`: states are given, and given back.
    Parameters of what is left out are left out.
    """
    many, shared, each = dtype[b, length, h, width], dtype[b, length, g, states], f32[h]
    state = f32[b, h, width, states]
    skip_type, bias_type = each if skips else None, each if biased else None
    z_type, start_type = many if gated else None, state if starts else None
    end_type = state if ends else None

    @hx.kernel
    def scan(
        x: many, dt: dt_dtype[b, length, h], a: each, bs: shared, cs: shared, skip: skip_type,
        z: z_type, bias: bias_type, start: start_type, out: many, end: end_type, *,
        BP: int = 64, BT: int = 64, PART: int = 64,
    ):  # fmt: skip
        hx.attrs.cuda.grid_dim = hx.cdiv(width, BP), h, b
        hx.attrs.cuda.block_dim = 2 * BP  # 16 rows a warp
        p0, head, y = hx.blockIdx.x * BP, hx.blockIdx.y, hx.blockIdx.z
        group, chunks, rows = head // (h // g), hx.cdiv(length, BT), (BP // 16, 1)
        part = gcd(states, PART)
        parts = states // part
        turned = (BP, BT, 1, chunks), (1, h * width, 0, BT * h * width)
        steps = (BT, part, parts, chunks), (g * states, 1, part, BT * g * states)
        gx, gy = (hx.global_view(t[y, :, head, p0:], turned) for t in (x, out))
        gb, gc = (hx.global_view(t[y, :, group, :], steps) for t in (bs, cs))
        gdt = hx.global_view(dt[y, :, head], ((BT, 1, chunks), (h, 0, BT * h)))
        one = (1, 1), (1, 0)
        decay = taken(hx.global_view(a[head:], one), (1, 1)) * LOG2_E
        rskip = taken(hx.global_view(skip[head:], one), (1, 1)) if skips else 0.0
        rbias = taken(hx.global_view(bias[head:], one), (1, 1)) if biased else 0.0
        sx, sz = (hx.shared_tensor(dtype, (BP, BT, 1, 2)) for _ in range(2))
        sb, sc = (hx.shared_tensor(dtype, (BT, part, parts, 2)) for _ in range(2))
        s_weight = hx.shared_tensor(dtype, (BT, BT))
        s_after = hx.shared_tensor(f32, (BT, 1))
        s_before, s_dt = (hx.shared_tensor(f32, (1, BT)) for _ in range(2))
        block, places = (BP, part, parts), (states, 1, part)
        state = hx.register_tensor(f32, block)
        hx.fill(state, 0.0)
        if starts:
            hx.copy(hx.global_view(start[y, head, p0:, :], (block, places)), state)
        loads = [(gx, sx), (gb, sb), (gc, sc)]
        if gated:
            loads += [(hx.global_view(z[y, :, head, p0:], turned), sz)]
        bring(loads, 0)
        for i in range(chunks):
            hx.cp_async_wait(0)
            hx.syncthreads()
            bring(loads, i + 1)
            now = i % 2
            step = taken(gdt[:, :, i], (BT, 1)) + rbias
            if soft:
                step = softplus(step)
            # Steps behind the end leave the states as they are.
            step = hx.where(i * BT + hx.iota((BT, 1), 0) < length, step, 0.0)
            sums = hx.cumsum(step * decay, 0)
            hx.copy(sums, s_after)
            hx.copy(hx.transpose(sums), s_before)
            hx.copy(hx.transpose(step), s_dt)
            weight = hx.register_tensor(f32, (BT, BT))
            hx.fill(weight, 0.0)
            for q in hx.static_range(parts):
                hx.gemm(weight, read(sc[:, :, q, now]), read(sb[:, :, q, now]))
            hx.syncthreads()
            # Of a later step it would be above 1, and perhaps infinite.
            seen = hx.iota((BT, 1), 0) >= hx.iota((1, BT), 1)
            apart = hx.where(seen, read(s_after) - read(s_before), 0.0)
            weight = hx.where(seen, weight * hx.exp2(apart) * read(s_dt), 0.0)
            hx.copy(hx.cast(weight, dtype), s_weight)
            result = hx.register_tensor(f32, (BP, BT))
            hx.fill(result, 0.0)
            for q in hx.static_range(parts):
                known = hx.cast(state[:, :, q], dtype)
                hx.gemm(result, known, read(sc[:, :, q, now]), warps=rows)
            result *= hx.exp2(read(s_before))
            rx = read(sx[:, :, 0, now])
            last = read(s_before[:, BT - 1 :])
            kept = read(s_dt) * hx.exp2(last - read(s_before))
            left = hx.cast(hx.cast(rx, f32) * kept, dtype)
            for q in hx.static_range(parts):
                carried = state[:, :, q]
                carried *= hx.exp2(last)
                hx.gemm(carried, left, hx.transpose(read(sb[:, :, q, now])), warps=rows)
            hx.syncthreads()
            hx.gemm(result, rx, read(s_weight), warps=rows)
            if skips:
                result = result + hx.cast(rx, f32) * rskip
            if gated:
                result = finished(result, hx.cast(read(sz[:, :, 0, now]), f32))
            through_shared(result, gy[:, :, 0, i])
        if ends:
            hx.copy(state, hx.global_view(end[y, head, p0:, :], (block, places)))

    return scan
