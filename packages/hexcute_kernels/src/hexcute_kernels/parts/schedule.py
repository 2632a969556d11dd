"""Which tile of the result a block takes, so that blocks that run together read the same operands.

    split_batch    which matrix of a batch, and which of its tiles
    grouped        `group` rows of tiles run together, one column after another: L2 serves them
    in_clusters    the same over tiles of clusters, of which each block takes its part

Both give where the block's tile of bm x bn elements starts, as a row and a column of the result.

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
def placed(tile, tiles_m, tiles_n, group):
    """The row and the column of tile number `tile` among `tiles_m` x `tiles_n`."""
    band = tile // (group * tiles_n)
    # Not the remainder: nothing else of a block's start takes as long as a division.
    number, height = tile - band * (group * tiles_n), hx.minimum(tiles_m - band * group, group)
    if height == group:  # All bands but the last, without a division where `group` is known.
        row, column = number % group, number // group
    else:
        row, column = number % height, number // height
    return band * group + row, column


@hx.device
def grouped(tile, tiles_m, tiles_n, group, bm, bn):
    """The start of tile number `tile` among `tiles_m` x `tiles_n`."""
    row, column = placed(tile, tiles_m, tiles_n, group)
    return row * bm, column * bn


@hx.device
def in_clusters(tile, tiles_m, tiles_n, group, bm, bn, cluster_m, cluster_n):
    """The start of this block's part of cluster tile `tile` among `tiles_m` x `tiles_n`, each of
    `cluster_m` x `cluster_n` blocks' tiles."""
    row, column = placed(tile, tiles_m, tiles_n, group)
    rank = hx.cluster_rank()
    row = row * cluster_m + rank % cluster_m
    column = column * cluster_n + rank // cluster_m % cluster_n
    return row * bm, column * bn


@hx.device
def await_launch_ahead():
    """What stands above has run by the time the launch ahead ends, what stands below runs then: no
    global memory is touched before. Blocks of the next launch may come from now on."""
    hx.primitive("griddepcontrol.wait")
    hx.primitive("griddepcontrol.launch")
