"""The end of a kernel: a tile of registers, rounded to the result's type, to its place in memory.

    finished           activation(tile + bias), either of them or neither
    through_shared     all threads: registers -> shared -> registers -> global, in whole rows
    store_by_role      the threads of one role, in portions, from shared memory by TMA
"""

from __future__ import annotations

import hexcute_core as hx


@hx.device
def relu(x):
    """max(x, 0)"""
    return hx.maximum(x, 0.0)


@hx.device
def gelu(x):
    """x times the normal distribution's share below x, exactly: by erf."""
    return 0.5 * x * (1.0 + hx.erf(x * 0.7071067811865476))


@hx.device
def silu(x):
    """x / (1 + e^-x)"""
    return x * hx.rcp(1.0 + hx.exp(-x))


ACTIVATIONS = {None: None, "relu": relu, "gelu": gelu, "silu": silu}
"""What an epilogue may apply to each element, by name."""


@hx.device
def finished(tile, bias, start, activation, along=1):
    """activation(tile + bias[start:]): the bias runs along dimension `along` of the tile, and is
    added in the tile's type. A bias or an activation of None is left out."""
    if bias is not None:
        shape = (1, tile.shape[1]) if along == 1 else (tile.shape[0], 1)
        rb = hx.register_tensor(bias.dtype, shape)
        hx.copy(hx.global_view(bias[start:], (shape, (0, 1) if along == 1 else (1, 0))), rb)
        tile = tile + hx.cast(rb, tile.dtype)
    if activation is not None:
        tile = activation(tile)
    return tile


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
def store_by_role(rc, c, row, column, sc, parts, bias, activation, turned):
    """Writes the tile rc of c, or `turned` its transpose, at (row, column) of the tile's own
    dimensions, finished, in `parts` of its columns through `sc`, which holds one of them."""
    rows, width = rc.shape[0], rc.shape[1] // parts
    cut = hx.reshape(rc, (rows, parts, width))
    for p in hx.static_range(parts):
        if p > 0:
            hx.sync_role()
        at = column + p * width
        start, along = (row, 0) if turned else (at, 1)
        done = hx.cast(finished(cut[:, p, :], bias, start, activation, along), sc.dtype)
        hx.copy(hx.transpose(done) if turned else done, sc)
        hx.sync_role()
        place = c[at:, row:] if turned else c[row:, at:]
        hx.copy(sc, hx.global_view(place, (sc.shape, (c.shape[-1], 1))))
