"""y_t = (sum over n of C_t[n] h_t[n] + D u_t) silu(z_t),  h_t = exp(dt_t A) h_(t-1) + dt_t u_t B_t.

A thread walks the time of one channel with the channel's states in registers. A chunk of BL steps
at a time, the block works out dt = softplus(delta + bias) and dt u together and lays them, and B
and C, into shared memory, from where every step reads what it needs; B and C serve all channels.
"""

from __future__ import annotations

import math
from functools import cache

import hexcute_core as hx
from hexcute_core import f32

b, d, length, g = hx.dims("b d length g")

LOG2_E = 1 / math.log(2)


@hx.device
def softplus(x):
    """log(1 + e^x), which is x where x is large."""
    return hx.where(x > 20.0, x, hx.log(1.0 + hx.exp(x)))


@hx.device
def walk(h, ra, t, s_dt, s_du, s_b, s_c, s_y):
    """Step t: the states after it; its output goes to s_y."""
    rows, states = h.shape
    dt, du = hx.register_tensor(f32, (rows, 1)), hx.register_tensor(f32, (rows, 1))
    rb, rc = hx.register_tensor(f32, (1, states)), hx.register_tensor(f32, (1, states))
    hx.copy(s_dt[:, hx.ds(t, 1)], dt)
    hx.copy(s_du[:, hx.ds(t, 1)], du)
    hx.copy(s_b[hx.ds(t, 1), :], rb)
    hx.copy(s_c[hx.ds(t, 1), :], rc)
    h = h * hx.exp2(dt * ra) + du * rb
    hx.copy(hx.sum(h * rc, 1), s_y[:, hx.ds(t, 1)])
    return h


@cache
def selective_scan_kernel(
    dtype: hx.DType, states: int, skips: bool, gated: bool, biased: bool, soft: bool
) -> hx.Kernel:
    """The kernel for `states` states a channel.

    `skips`: D u is added; `gated`: the result is multiplied by silu(z); `biased`: delta + bias is
    taken; `soft`: dt is softplus of that, else it is that. Of the others any tensor may be given.
    """

    @hx.kernel
    def scan(
        u: dtype[b, d, length],
        delta: dtype[b, d, length],
        a: f32[d, states],
        bs: dtype[b, g, states, length],
        cs: dtype[b, g, states, length],
        skip: f32[d],
        z: dtype[b, d, length],
        bias: f32[d],
        out: dtype[b, d, length],
        *,
        BD: int = 64,
        BL: int = 32,
    ):
        hx.attrs.cuda.grid_dim = hx.cdiv(d, BD), b
        hx.attrs.cuda.block_dim = BD
        bd, y = hx.blockIdx.x * BD, hx.blockIdx.y
        group, chunks = bd // (d // g), hx.cdiv(length, BL)
        channels = (BD, BL, chunks), (length, 1, BL)
        times = (BL, states, chunks), (1, length, BL)
        gu, gd, gz, go = (hx.global_view(x[y, bd:, :], channels) for x in (u, delta, z, out))
        gb, gc = (hx.global_view(x[y, group, :, :], times) for x in (bs, cs))
        ra, h = hx.register_tensor(f32, (BD, states)), hx.register_tensor(f32, (BD, states))
        hx.copy(hx.global_view(a[bd:, :], ((BD, states), (states, 1))), ra)
        # A thread a channel, with all its states.
        ra = hx.rearrange(ra * LOG2_E, f"({BD},{states}):(1,{BD})")
        hx.fill(h, 0.0)
        rskip, rbias = hx.register_tensor(f32, (BD, 1)), hx.register_tensor(f32, (BD, 1))
        hx.copy(hx.global_view(skip[bd:], ((BD, 1), (1, 1))), rskip)
        hx.copy(hx.global_view(bias[bd:], ((BD, 1), (1, 1))), rbias)
        s_dt, s_du = hx.shared_tensor(f32, (BD, BL)), hx.shared_tensor(f32, (BD, BL))
        s_b, s_c = hx.shared_tensor(f32, (BL, states)), hx.shared_tensor(f32, (BL, states))
        s_y = hx.shared_tensor(f32, (BD, BL))
        for i in range(chunks):
            ru, rd = hx.register_tensor(dtype, (BD, BL)), hx.register_tensor(dtype, (BD, BL))
            rb = hx.register_tensor(dtype, (BL, states))
            rc = hx.register_tensor(dtype, (BL, states))
            hx.copy(gu[:, :, i], ru)
            hx.copy(gd[:, :, i], rd)
            hx.copy(gb[:, :, i], rb)
            hx.copy(gc[:, :, i], rc)
            dt = hx.cast(rd, f32)
            if biased:
                dt = dt + rbias
            if soft:
                dt = softplus(dt)
            hx.copy(dt, s_dt)
            hx.copy(dt * hx.cast(ru, f32), s_du)
            hx.copy(hx.cast(rb, f32), s_b)
            hx.copy(hx.cast(rc, f32), s_c)
            hx.syncthreads()
            for t in hx.unroll(BL):
                h = walk(h, ra, t, s_dt, s_du, s_b, s_c, s_y)
            hx.syncthreads()
            result = hx.register_tensor(f32, (BD, BL))
            hx.copy(s_y, result)
            if skips:
                result = result + hx.cast(ru, f32) * rskip
            if gated:
                rz = hx.register_tensor(dtype, (BD, BL))
                hx.copy(gz[:, :, i], rz)
                gate = hx.cast(rz, f32)
                result = result * gate / (1.0 + hx.exp(-gate))
            hx.copy(hx.cast(result, dtype), go[:, :, i])

    return scan
