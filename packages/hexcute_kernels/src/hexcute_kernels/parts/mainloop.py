"""Main loops: products of the tiles that a pipeline brings."""

from __future__ import annotations

import hexcute_core as hx


@hx.device
def multiply_bias(rc, ones, s_bias, biases):
    """rc = a bias for each of its rows, by an asynchronous gemm of `ones` and the next slot of
    `biases`: columns of s_bias, of which the first is the bias and all others are zeros."""
    s = biases.wait()
    hx.gemm(rc, ones, s_bias[:, :, s], asynchronous=True, accumulate=False)


@hx.device
def multiply_slots(rc, sa, sb, pipe, tiles_k, start=0):
    """rc += the products of `tiles_k` slots of `pipe`, from row `start` of a on, by asynchronous
    gemms.

    One slot's products stay in flight: the slot before is freed when they have been issued. The
    last slot's may be running at the end, and it is not freed: its reader waits for them first.
    """
    for i in range(tiles_k):
        s = pipe.wait()
        hx.gemm(rc, sa[start : start + rc.shape[0], :, s], sb[:, :, s], asynchronous=True)
        if i > 0:
            hx.wait_gemm(1)
            pipe.release()
