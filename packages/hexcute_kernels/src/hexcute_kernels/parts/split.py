"""K in parts, one for each block of a cluster, and the sums of all parts.

    part_of    tiles first, first + 1, ... of K that this block multiplies
    summed     strip r of (sums of block 0 + sums of block 1 + ...), in block r of the cluster

    exchanged  the same of sums in registers, by columns: what is another block's is sent there

The parts are added in one order, so the result has the same bits every time.
"""

from __future__ import annotations

import math

import hexcute_core as hx


def owners(columns: int, splits: int) -> int:
    """Among how many of `splits` blocks the columns of a tile can be divided, eight by eight."""
    return math.gcd(splits, columns // 8)


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


@hx.device
def exchanged(rc, received, arrived, count, rank, leader):
    """The threads of a role, `leader` the first of them, in block `rank` of a cluster: its columns
    of the total of all blocks' sums `rc`, in the first `count` blocks; the others only send.

    What is sent comes to `received` (rows, columns of a block, other blocks). Before, the role has
    waited for a barrier of the cluster at which all blocks had arrived; each is told by as many
    arrivals at its mbarrier `arrived` as there are other blocks that everything is there. So none
    ends too early: it waits for what it receives, and what it has sent is waited for by others.
    """
    rows, width, others = received.shape
    cut = hx.reshape(rc, (rows, count, width))
    for s in hx.static_range(count):
        if rank != s:
            # Its own sums are missing among what a block receives.
            hx.copy(cut[:, s, :], hx.remote(received[:, :, hx.select(rank > s, rank - 1, rank)], s))
    hx.sync_role()
    for s in hx.static_range(count):
        if rank != s and hx.threadIdx.x == leader:
            arrived.arrive(rank=s)
    total = hx.register_tensor(rc.dtype, (rows, width))
    for s in hx.static_range(count):
        if rank == s:
            hx.copy(cut[:, s, :], total)
    if rank < count:
        arrived.wait(0)
        for s in range(others):
            part = hx.register_tensor(rc.dtype, (rows, width))
            hx.copy(received[:, :, s], part)
            total += part
    return total
