"""Where the scan's operands lie, as tiles, and their way in: rings filled by cp.async.

Steps lie side by side in memory (`timed`): u is [batch, group, channel, step], B is
[batch, group, state, step]. Or they do not: [batch, step, group, channel or state].
"""

from __future__ import annotations

import hexcute_core as hx
from hexcute_core import f32

b, g, d, length = hx.dims("b g d length")


@hx.device
def tiles_of(x, place, begin, timed, shape):
    """The tiles (channels, 1, 1, steps) from a place (batch, group, channel) on, by number."""
    (y, group, first), (channels, steps, count) = place, shape
    if timed:
        view = (channels, 1, 1, steps, count), (length, 0, 0, 1, steps)
        return hx.global_view(x[y, group, first:, begin:], view)
    view = (channels, 1, 1, steps, count), (1, 0, 0, g * d, steps * g * d)
    return hx.global_view(x[y, begin:, group, first:], view)


@hx.device
def steps_of(x, place, begin, timed, shape):
    """The tiles (runs, steps of a run, lanes, states of a lane) of B or C, by number."""
    (y, group, _), (runs, steps, lanes, each, _) = place, shape
    if timed:
        strides = steps, 1, each * length, length, runs * steps
        return hx.global_view(x[y, group, :, begin:], (shape, strides))
    row = g * lanes * each
    strides = steps * row, row, each, 1, runs * steps * row
    return hx.global_view(x[y, begin:, group, :], (shape, strides))


@hx.device
def rows_of(x, place, timed, shape, numbers):
    """One tile (channels, 1, 1, steps), of the steps of these numbers; -1 is none."""
    (y, group, first), (channels, steps) = place, shape
    if timed:
        view = (channels, 1, 1, steps), (length, 0, 0, hx.along(3, numbers))
        return hx.global_view(x[y, group, first:, :], view)
    view = (channels, 1, 1, steps), (1, 0, 0, numbers)
    return hx.global_view(x[y, :, group, first:], view)


@hx.device
def of_channels(x, place, channels):
    """A number per channel, (channels, 1, 1, 1)."""
    _, group, first = place
    r = hx.register_tensor(f32, (channels, 1, 1, 1))
    hx.copy(hx.global_view(x[group, first:], ((channels, 1, 1, 1), (1, 0, 0, 0))), r)
    return r


@hx.device
def bring(loads, i):
    """Starts to bring tile i of each (tiles, ring)."""
    for source, ring in loads:
        hx.copy(source[:, :, :, :, i], ring[:, :, :, :, i % ring.shape[4]])
    hx.cp_async_commit()


@hx.device
def brought(ring, i):
    """Tile i in registers, as f32."""
    r = hx.register_tensor(ring.dtype, ring.shape[:4])
    hx.copy(ring[:, :, :, :, i % ring.shape[4]], r)
    return hx.cast(r, f32)
