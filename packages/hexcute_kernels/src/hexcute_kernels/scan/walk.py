"""What the scan's kernels have in common: dt before the states, the walk along a run of steps with
the states in registers, and y after it.

    h = exp(dt A) h + dt u B,   y = (sum over n of C h + D u) silu(z)
"""

from __future__ import annotations

import hexcute_core as hx
from hexcute_core import f32, i32
from hexcute_kernels.parts.softmax import LOG2_E


@hx.device
def powers(x):
    """2^x by products alone, for where the special functions are what is scarce: 2^i (1 + f p(f)),
    i the integer next to x. Relative errors are below 2^-23, and 2^0 is 1."""
    x = hx.clamp(x, -126.0, 128.0)
    i = x + 1.5 * 2.0**23  # whose low bits are those of the integer
    f = x - (i - 1.5 * 2.0**23)
    p = 0.001326472731307149 * f + 0.009671512991189957
    p = (p * f + 0.05550733581185341) * f + 0.24022242426872253
    p = (p * f + 0.6931470036506653) * f + 1.0
    return hx.bitcast(hx.bitcast(p, i32) + (hx.bitcast(i, i32) << 23), f32)


@hx.device
def softplus(x, eased=False):
    """log(1 + e^x), which is x where x is large; `eased`, the exponential is made of products."""
    grown = powers(x * LOG2_E) if eased else hx.exp(x)
    return hx.where(x > 20.0, x, hx.log(1.0 + grown))


@hx.device
def begun(a, start, which, place, block, threads):
    """A in units of log 2, and h before the first step: zeros, or what `start` gives.

    `block` is (channels, lanes of a channel, states of a lane). A warp has the lanes of as many
    channels as it can, neighbours in it other channels; a thread has every (threads / lanes)-th.
    """
    (_, group, first), (channels, lanes, each) = place, block
    view, apart = (block, (lanes * each, each, 1)), threads // lanes
    # Neighbours read the same B and C, which shared memory then hands out at once.
    near = max(1, 32 // lanes)
    walker = (
        f"(({near},{lanes},{apart // near}),({channels // apart},{each})):"
        f"((1@0,1@1,{near}@0),({apart}@0,1@2))"
    )
    ra, h = hx.register_tensor(f32, block), hx.register_tensor(f32, block)
    hx.copy(hx.global_view(a[group, first:, :], view), ra)
    ra = hx.rearrange(ra * LOG2_E, walker)
    hx.fill(h, 0.0)
    if start is not None:
        hx.copy(hx.global_view(start[which, group, first:, :], view), h)
        h = hx.rearrange(h, walker)
    return ra, h


@hx.device
def walked(h, ra, s_dt, s_du, s_b, s_c, s_y, left, eased=0):
    """h (channels, lanes, states) after a run of steps: of dt and dt u (channels, 1, 1, steps), B
    and C (1, steps, lanes, states). What a lane adds to y goes to s_y (channels, lanes, 1, steps).
    Where `left` is a number, h stays what it is from that step on. Of every `eased` steps the last
    has exponentials made of products."""
    channels, lanes, each = h.shape
    steps = s_dt.shape[3]
    rdt, rdu = (hx.register_tensor(f32, s_dt.shape) for _ in range(2))
    hx.copy(s_dt, rdt)
    hx.copy(s_du, rdu)
    ry = hx.register_tensor(f32, (channels, lanes, 1, steps))
    for t in hx.static_range(steps):
        rb, rc = (hx.register_tensor(f32, (1, lanes, each)) for _ in range(2))
        hx.copy(s_b[:, t, :, :], rb)
        hx.copy(s_c[:, t, :, :], rc)
        dt, du = rdt[:, :, :, t], rdu[:, :, :, t]
        if left is not None:
            dt, du = hx.where(t < left, dt, 0.0), hx.where(t < left, du, 0.0)
        decay = powers(dt * ra) if eased and t % eased == eased - 1 else hx.exp2(dt * ra)
        h = h * decay + du * rb
        hx.copy(hx.sum(h * rc, 2), ry[:, :, :, t])
    hx.copy(ry, s_y)
    return h


@hx.device
def finished(y, gate, eased=False):
    """y silu(gate); `eased`, the exponential is made of products."""
    fallen = powers(-gate * LOG2_E) if eased else hx.exp(-gate)
    return y * gate * hx.rcp(1.0 + fallen)
