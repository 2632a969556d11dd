"""y_t = (sum over n of C_t[n] h_t[n] + D u_t) silu(z_t),  h_t = exp(dt_t A) h_(t-1) + dt_t u_t B_t.

A thread walks the time of one channel with the channel's states in registers, BL steps of u, delta
and z at a time, which lie side by side in memory. B and C serve all channels of the block: a
stretch of BT steps is laid into shared memory, from where every step reads its states at once.
"""

from __future__ import annotations

from functools import cache

import hexcute_core as hx
from hexcute_core import f32
from hexcute_kernels.parts.softmax import LOG2_E

b, d, length, g = hx.dims("b d length g")


@hx.device
def softplus(x):
    """log(1 + e^x), which is x where x is large."""
    return hx.where(x > 20.0, x, hx.log(1.0 + hx.exp(x)))


@hx.device
def walk(h, ra, dt, du, s_b, s_c, at):
    """The states and the output (rows, 1) of the step whose B and C are rows `at` of s_b, s_c."""
    states = h.shape[1]
    rb, rc = hx.register_tensor(f32, (1, states)), hx.register_tensor(f32, (1, states))
    hx.copy(s_b[hx.ds(at, 1), :], rb)
    hx.copy(s_c[hx.ds(at, 1), :], rc)
    h = h * hx.exp2(dt * ra) + du * rb
    return h, hx.sum(h * rc, 1)


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
        BL: int = 8,
        BT: int = 64,
    ):
        assert BT % BL == 0, "a stretch is whole chunks"
        hx.attrs.cuda.grid_dim = hx.cdiv(d, BD), b
        hx.attrs.cuda.block_dim = BD
        bd, y = hx.blockIdx.x * BD, hx.blockIdx.y
        group, chunks = bd // (d // g), BT // BL
        channels = (BD, 1, BL, hx.cdiv(length, BL)), (length, length, 1, BL)
        gu, gd, gz, go = (hx.global_view(x[y, bd:, :], channels) for x in (u, delta, z, out))
        times = (BT, states, hx.cdiv(length, BT)), (1, length, BT)
        gb, gc = (hx.global_view(x[y, group, :, :], times) for x in (bs, cs))
        ra, h = hx.register_tensor(f32, (BD, states)), hx.register_tensor(f32, (BD, states))
        hx.copy(hx.global_view(a[bd:, :], ((BD, states), (states, 1))), ra)
        # A thread a channel, with all its states.
        ra = hx.rearrange(ra * LOG2_E, f"({BD},{states}):(1,{BD})")
        hx.fill(h, 0.0)
        rskip, rbias = hx.register_tensor(f32, (BD, 1)), hx.register_tensor(f32, (BD, 1))
        hx.copy(hx.global_view(skip[bd:], ((BD, 1), (1, 1))), rskip)
        hx.copy(hx.global_view(bias[bd:], ((BD, 1), (1, 1))), rbias)
        s_b, s_c = hx.shared_tensor(f32, (BT, states)), hx.shared_tensor(f32, (BT, states))
        ru, rd, rz = (hx.register_tensor(dtype, (BD, 1, BL)) for _ in range(3))
        nu, nd, nz = (hx.register_tensor(dtype, (BD, 1, BL)) for _ in range(3))
        ahead = [(gu, nu, ru), (gd, nd, rd), *[(gz, nz, rz)] * gated]
        for source, after, _ in ahead:
            hx.copy(source[:, :, :, 0], after)
        for i in range(hx.cdiv(length, BT)):
            rb = hx.register_tensor(dtype, (BT, states))
            rc = hx.register_tensor(dtype, (BT, states))
            hx.copy(gb[:, :, i], rb)
            hx.copy(gc[:, :, i], rc)
            hx.syncthreads()
            hx.copy(hx.cast(rb, f32), s_b)
            hx.copy(hx.cast(rc, f32), s_c)
            hx.syncthreads()
            for j in range(chunks):
                for source, after, now in ahead:
                    hx.copy(after, now)
                    # The next chunk arrives under this one's steps.
                    hx.copy(source[:, :, :, i * chunks + j + 1], after)
                ry = hx.register_tensor(dtype, (BD, 1, BL))
                for t in hx.static_range(BL):
                    given, dt = hx.cast(ru[:, :, t], f32), hx.cast(rd[:, :, t], f32)
                    if biased:
                        dt = dt + rbias
                    if soft:
                        dt = softplus(dt)
                    h, result = walk(h, ra, dt, dt * given, s_b, s_c, j * BL + t)
                    if skips:
                        result = result + given * rskip
                    if gated:
                        gate = hx.cast(rz[:, :, t], f32)
                        result = result * gate / (1.0 + hx.exp(-gate))
                    hx.copy(hx.cast(result, dtype), ry[:, :, t])
                hx.copy(ry, go[:, :, :, i * chunks + j])

    return scan
