"""K in parts, one for each block of a cluster, and the sums of all parts.

    part_of    tiles first, first + 1, ... of K that this block multiplies
    summed     strip r of (sums of block 0 + sums of block 1 + ...), in block r of the cluster

The parts are added in their order, so the result has the same bits every time.
"""

from __future__ import annotations

import hexcute_core as hx


@hx.device
def part_of(tiles, splits):
    """The first of this block's tiles, and how many it has: as many as any, but for the last."""
    most = hx.cdiv(tiles, splits)
    first = hx.minimum(hx.cluster_rank() * most, tiles)
    return first, hx.minimum(most, tiles - first)


@hx.device
def summed(sums, splits):
    """All threads of a cluster of `splits` blocks, each of which has left its sums in the shared
    tile `sums`: this block's rows of the total, and where they begin in the tile."""
    strip = sums.shape[0] // splits
    total = hx.register_tensor(sums.dtype, (strip, sums.shape[1]))
    if splits == 1:
        hx.syncthreads()
        hx.copy(sums, total)
        return total, 0
    start = hx.cluster_rank() * strip
    hx.cluster_sync()
    hx.copy(hx.remote(sums[hx.ds(start, strip), :], 0), total)
    for s in hx.static_range(1, splits):
        part = hx.register_tensor(sums.dtype, (strip, sums.shape[1]))
        hx.copy(hx.remote(sums[hx.ds(start, strip), :], s), part)
        total += part
    # No block may end while others read its memory.
    hx.cluster_sync()
    return total, start
