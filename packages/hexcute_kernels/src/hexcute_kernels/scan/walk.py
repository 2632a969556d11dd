"""What the scan's kernels have in common: dt before the states, the walk along a run of steps with
the states in registers, and y after it.

    h = exp(dt A) h + dt u B,   y = (sum over n of C h + D u) silu(z)

Special functions bound the walk. Where A[n] = (n + 1) A[0], and a little more often, the
exponentials of a thread's states are powers of one, so that products do for all but two.
"""

from __future__ import annotations

import hexcute_core as hx
from hexcute_core import f32, i32
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
def evenly(ra, meet):
    """Whether A's states of every lane lie evenly apart, away from 0 and to a millionth of them, as
    -1, -2, ... do, which Mamba begins with: 1 or 0, which all threads know. To find out they
    `meet`."""
    if ra.shape[2] < 4:
        return 0  # there would be no fewer exponentials
    first, between = ra[:, :, 0:1], ra[:, :, 1:2] - ra[:, :, 0:1]
    off = abs(first + hx.cast(hx.iota((1, 1, ra.shape[2]), 2), f32) * between - ra)
    even = hx.where((off <= 1e-6 * abs(ra)) & (first * between >= 0.0), 1, 0)
    found = hx.shared_tensor(i32, (1, 1, 1))
    hx.copy(hx.min(hx.min(hx.min(even, 2), 1), 0), found)
    meet()
    return hx.atomic_add(found, (0, 0, 0), 0)


@hx.device
def decay(dt, ra, even):
    """exp(dt A). Where A is even: that of the first state, times that of what is between two for
    every next one. Roundings make it off by 2^-17 of itself, A by a millionth of dt A."""
    if not even:
        return hx.exp2(dt * ra)
    first, between = ra[:, :, 0:1], ra[:, :, 1:2] - ra[:, :, 0:1]
    is_first = hx.iota((1, 1, ra.shape[2]), 2) == 0
    return hx.cumprod(hx.where(is_first, hx.exp2(dt * first), hx.exp2(dt * between)), 2)


@hx.device
def walked(h, ra, tile, s_y, steps, left, even, runs):
    """h (channels, lanes, states) after a tile (dt and dt u (channels, 1, 1, steps of it), B and C
    (runs, steps, lanes, states)), by `runs`, a loop, of so many steps. What a lane adds to y goes
    to s_y (channels, lanes, 1, steps of the tile). Where `left` is a number, h stays what it is
    from that step on. `even`: A is known to be."""
    (s_dt, s_du, s_b, s_c), (channels, lanes, each) = tile, h.shape
    for j in runs(s_b.shape[0]):
        run = hx.ds(j * steps, steps)
        rdt, rdu = (hx.register_tensor(f32, (channels, 1, 1, steps)) for _ in range(2))
        hx.copy(s_dt[:, :, :, run], rdt)
        hx.copy(s_du[:, :, :, run], rdu)
        ry = hx.register_tensor(f32, (channels, lanes, 1, steps))
        for t in hx.static_range(steps):
            rb, rc = (hx.register_tensor(f32, (1, lanes, each)) for _ in range(2))
            hx.copy(s_b[hx.ds(j, 1), t, :, :], rb)
            hx.copy(s_c[hx.ds(j, 1), t, :, :], rc)
            dt, du = rdt[:, :, :, t], rdu[:, :, :, t]
            if left is not None:
                on = j * steps + t < left
                dt, du = hx.where(on, dt, 0.0), hx.where(on, du, 0.0)
            h = h * decay(dt, ra, even) + du * rb
            hx.copy(hx.sum(h * rc, 2), ry[:, :, :, t])
        hx.copy(ry, s_y[:, :, :, run])
    return h


@hx.device
def finished(y, gate):
    """y silu(gate)"""
    return y * gate * hx.rcp(1.0 + hx.exp(-gate))
