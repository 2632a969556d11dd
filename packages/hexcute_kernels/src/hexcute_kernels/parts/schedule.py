"""Which tile of the result a block takes, so that blocks that run together read the same operands.

    split_batch    which matrix of a batch, and which of its tiles
    grouped        `group` rows of tiles run together, one column after another: L2 serves them
    in_clusters    the same over tiles of clusters, of which each block takes its part

Both give where the block's tile of bm x bn elements starts, as a row and a column of the result.

    back_and_forth        which tile a block that stays takes next, of tiles sorted by their work
    await_launch_ahead    where blocks may come before the launch ahead has ended
"""

from __future__ import annotations

import hexcute_core as hx


@hx.device
def split_batch(tile, tiles, batched):
    """The matrix that tile number `tile` is of, and the tile's number in it, where each of a batch
    has `tiles`; without a batch None and the number itself."""
    if batched:
        return tile // tiles, tile % tiles
    return None, tile


@hx.device
def grouped(tile, tiles_m, tiles_n, group, bm, bn):
    """The start of tile number `tile` among `tiles_m` x `tiles_n`."""
    first = tile // (group * tiles_n) * group
    rows = hx.minimum(tiles_m - first, group)
    place = tile % (group * tiles_n)
    return (first + place % rows) * bm, place // rows * bn


@hx.device
def in_clusters(tile, tiles_m, tiles_n, group, bm, bn, cluster_m, cluster_n):
    """The start of this block's part of cluster tile `tile` among `tiles_m` x `tiles_n`, each of
    `cluster_m` x `cluster_n` blocks' tiles."""
    first = tile // (group * tiles_n) * group
    height = hx.minimum(tiles_m - first, group)
    number, rank = tile % (group * tiles_n), hx.cluster_rank()
    row = (first + number % height) * cluster_m + rank % cluster_m
    column = number // height * cluster_n + rank // cluster_m % cluster_n
    return row * bm, column * bn


@hx.device
def await_launch_ahead():
    """What stands above has run by the time the launch ahead ends, what stands below runs then: no
    global memory is touched before. Blocks of the next launch may come from now on."""
    hx.primitive("griddepcontrol.wait")
    hx.primitive("griddepcontrol.launch")


@hx.device
def back_and_forth(number, tiles, blocks):
    """The tile, of `tiles` that are the longest first, which `blocks` that stay take as number
    `number`: one round in their order, the next in the other, so that each has as much work."""
    first = number // blocks * blocks
    place = number - first
    if number // blocks % 2 == 1:
        place = hx.minimum(blocks, tiles - first) - 1 - place
    return first + place
