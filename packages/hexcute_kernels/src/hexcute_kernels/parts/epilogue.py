"""The end of a kernel: a tile of registers, rounded to the result's type, to its place in memory.

    finished           activation(tile + bias), either of them or neither
    bias_of, added     the same in two steps: a bias that is asked for early is there in time
    through_shared     all threads: registers -> shared -> registers -> global, in whole rows
    store_by_role      the threads of one role, in portions, from shared memory by TMA
    store_part         one such portion, finished and rounded
"""

from __future__ import annotations

import hexcute_core as hx


@hx.device
def relu(x):
    """max(x, 0)"""
    return hx.maximum(x, 0.0)


ABOVE = (
    -0.000346615259, 0.00607645023, -0.0490587593, -0.463033545, -1.14966899, -1.00008607,
)  # fmt: skip
"""Of the logarithm, to base 2, of the normal distribution's share above x, from 0 to LAST: the
coefficients of a polynomial, fitted so that what gelu makes of it is off by as little as can be,
of itself or of 2^-12, whichever is more."""
LAST = 5.8
"""From here on the share above is taken to be as here: 2^-28."""


@hx.device
def gelu(x):
    """x times the normal distribution's share below x, to 2^-14 of the result or 2^-25.

    By the share above abs(x), no digits cancel where x < 0. Of minus infinity it is nearly 0.
    """
    a = hx.minimum(abs(x), LAST)
    above = ABOVE[0]
    for c in hx.static_range(1, len(ABOVE)):
        above = above * a + ABOVE[c]
    # A maximum alone would make 0 of what is no number; this is one instruction too.
    return hx.where(hx.isnan(x), x, hx.maximum(x, 0.0)) - a * hx.exp2(above)


@hx.device
def silu(x):
    """x / (1 + e^-x)"""
    return x * hx.rcp(1.0 + hx.exp(-x))


ACTIVATIONS = {None: None, "relu": relu, "gelu": gelu, "silu": silu}
"""What an epilogue may apply to each element, by name."""


@hx.device
def bias_of(bias, start, shape, along=1):
    """The part of a bias, from `start` on, of a tile of `shape` along whose dimension `along` it
    runs; None without one."""
    if bias is None:
        return None
    part = (1, shape[1]) if along == 1 else (shape[0], 1)
    rb = hx.register_tensor(bias.dtype, part)
    hx.copy(hx.global_view(bias[start:], (part, (0, 1) if along == 1 else (1, 0))), rb)
    return rb


@hx.device
def added(tile, rb, activation):
    """activation(tile + rb), in the tile's type. A bias or an activation of None is left out."""
    if rb is not None:
        tile = tile + hx.cast(rb, tile.dtype)
    return tile if activation is None else activation(tile)


@hx.device
def finished(tile, bias, start, activation, along=1):
    """activation(tile + bias[start:]), where the bias runs along dimension `along` of the tile."""
    return added(tile, bias_of(bias, start, tile.shape, along), activation)


@hx.device
def through_shared(rc, gc):
    """Writes tile `rc` to the view `gc`; shared memory turns the Tensor Core's order of elements
    into rows of 16 bytes and more a thread."""
    dtype, shape = gc.dtype, rc.shape
    sc = hx.shared_tensor(dtype, shape)
    hx.copy(hx.cast(rc, dtype), sc)
    hx.syncthreads()
    rd = hx.register_tensor(dtype, shape)
    hx.copy(sc, rd)
    hx.copy(rd, gc)


@hx.device
def store_by_role(rc, c, row, column, sc, parts, rb, activation, turned):
    """Writes the tile rc of c, or `turned` its transpose, at (row, column) of the tile's own
    dimensions, with its bias rb and activated, in `parts` of its columns through `sc`, which holds
    one of them."""
    rows, width = rc.shape[0], rc.shape[1] // parts
    cut = hx.reshape(rc, (rows, parts, width))
    if rb is not None and not turned:
        rb = hx.reshape(rb, (1, parts, width))
    for p in hx.static_range(parts):
        if p > 0:
            hx.sync_role()
        part = rb if rb is None or turned else rb[:, p, :]
        done = hx.cast(added(cut[:, p, :], part, activation), sc.dtype)
        store_part(done, c, row, column + p * width, sc, turned)


@hx.device
def store_part(part, c, row, column, sc, turned):
    """Writes columns of a tile, or `turned` rows of c, to where they begin, through `sc`, which
    what was stored before has left."""
    hx.copy(hx.transpose(part) if turned else part, sc)
    hx.sync_role()
    place = c[column:, row:] if turned else c[row:, column:]
    hx.copy(sc, hx.global_view(place, (sc.shape, (c.shape[-1], 1))))
