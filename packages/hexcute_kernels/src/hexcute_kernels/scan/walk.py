"""What the scan's kernels have in common: dt before the states, the walk along a run of steps with
the states in registers, and y after it.

    h = exp(dt A) h + dt u B,   y = (sum over n of C h + D u) silu(z)
"""

from __future__ import annotations

import hexcute_core as hx
from hexcute_core import f32
from hexcute_kernels.parts.softmax import LOG2_E


@hx.device
def softplus(x):
    """log(1 + e^x), which is x where x is large."""
    return hx.where(x > 20.0, x, hx.log(1.0 + hx.exp(x)))


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
def walked(h, ra, s_dt, s_du, s_b, s_c, s_y, left):
    """h (channels, lanes, states) after a run of steps: of dt and dt u (channels, 1, 1, steps), B
    and C (1, steps, lanes, states). What a lane adds to y goes to s_y (channels, lanes, 1, steps).
    Where `left` is a number, h stays what it is from that step on."""
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
        h = h * hx.exp2(dt * ra) + du * rb
        hx.copy(hx.sum(h * rc, 2), ry[:, :, :, t])
    hx.copy(ry, s_y)
    return h


@hx.device
def finished(y, gate):
    """y silu(gate)"""
    return y * gate * hx.rcp(1.0 + hx.exp(-gate))
