"""The end of a kernel: a tile of registers, rounded to the result's type, to its place in memory.

    through_shared     all threads: registers -> shared -> registers -> global, in whole rows
    store_by_role      the threads of one role, in portions, from shared memory by TMA
"""

from __future__ import annotations

import hexcute_core as hx


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
def store_by_role(rc, c, bm, bn, sc):
    """Writes rc[:, :, p], the portions of a tile of c at (bm, bn) along N, through `sc`, which
    holds one of them."""
    rows, width = sc.shape
    for p in hx.static_range(rc.shape[2]):
        if p > 0:
            hx.sync_role()
        hx.copy(hx.cast(rc[:, :, p], sc.dtype), sc)
        hx.sync_role()
        hx.copy(sc, hx.global_view(c[bm:, bn + p * width :], ((rows, width), (c.shape[1], 1))))
