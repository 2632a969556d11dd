"""Main loops: products of the tiles that a pipeline brings."""

from __future__ import annotations

import hexcute_core as hx


@hx.device
def multiply_slots(rc, sa, sb, pipe, tiles_k):
    """rc[:, :, p] += the products of `tiles_k` slots of `pipe` with portion p of b, by asynchronous
    gemms.

    One slot's products stay in flight: the slot before is freed when they have been issued. The
    last slot's may be running at the end, and it is not freed: its reader waits for them first.
    """
    width, parts = rc.shape[1:]
    for i in range(tiles_k):
        s = pipe.wait()
        for p in hx.static_range(parts):
            part = sb[p * width : (p + 1) * width, :, s]
            hx.gemm(rc[:, :, p], sa[:, :, s], part, asynchronous=True)
        if i > 0:
            hx.wait_gemm(parts)
            pipe.release()
