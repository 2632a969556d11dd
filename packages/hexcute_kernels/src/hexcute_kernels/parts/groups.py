"""Which rows belong to which expert, from numbers on the device: a table for the grouped products.

Rows of an expert are cut into tiles of BM rows, expert after expert.

    table[0, t]    the expert of tile t          table[1, t]    where it begins
    table[2, t]    the first row of the expert   table[3, t]    the row behind its last
    used[0]        how many tiles there are
    used[1]        how many of them blocks have taken beyond their first: with `by_expert`, none yet

A tile begins at a multiple of four rows, of which table[1, t] is the number: there TMA can fetch
float32 scales of rows. Its first rows may be another expert's. With `by_expert`, tiles begin at any
row, and table[1, t] is the first tile of the expert, from which and its rows the rest follows.

Bounds are what `place` is told: where experts begin and the last ends, or how many rows each has.

    begins           where a tile begins, and whose rows it has
    store_between    those rows of a tile that are its expert's, to their places
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import hexcute_core as hx
from hexcute_core import i32

bounds, blocks = hx.dims("bounds blocks")

TOGETHER = 32
"""Tiles that a block of the kernel places."""
STEP = 4
"""Rows at whose multiples tiles begin."""


@dataclass(frozen=True)
class Rows:
    """The constant of `place`: tiles have BM rows."""

    BM: int


def most_tiles(m: int, experts: int, high: int, by_expert: bool = False) -> int:
    """How many tiles of `high` rows any division of m rows among experts takes at most."""
    step = 1 if by_expert else STEP
    return min(m, experts + (m + (step - 2) * experts) // high)


@cache
def place(experts: int, counted: bool, by_expert: bool = False) -> hx.Kernel:
    """The kernel for so many experts. `counted`: bound[e] is how many rows expert e has, of
    `each`, all in a matrix of its own; else expert e has rows bound[e] to bound[e + 1] of `each`.
    """
    room = max(32, 1 << experts.bit_length())
    counts = i32[2 if by_expert else 1]

    @hx.kernel
    def place_tiles(
        bound: i32[bounds], table: i32[4, blocks], used: counts, each: i32, *, BM: int = 128
    ):
        hx.attrs.cuda.grid_dim = hx.cdiv(blocks, TOGETHER)
        hx.attrs.cuda.block_dim = 256
        hx.primitive("griddepcontrol.wait")
        hx.primitive("griddepcontrol.launch")
        begin, end = hx.register_tensor(i32, (1, room)), hx.register_tensor(i32, (1, room))
        hx.fill(begin, 0)
        if not counted:
            hx.copy(hx.global_view(bound, ((1, room), (0, 1))), begin)
        hx.copy(hx.global_view(bound[0 if counted else 1 :], ((1, room), (0, 1))), end)
        begin, end = hx.maximum(begin, 0), hx.minimum(end, each)
        step = begin if by_expert else begin // STEP * STEP
        tiles = hx.where(end > begin, (end - step + (BM - 1)) // BM, 0)
        upto = hx.cumsum(tiles, 1)
        first = hx.blockIdx.x * TOGETHER
        t = hx.iota((TOGETHER, 1), 0) + first
        # One column of each row: its expert's.
        mine = hx.cast((upto > t) & (upto - tiles <= t), i32)
        at = upto - tiles
        if not by_expert:
            at = step // STEP + (t - at) * (BM // STEP)
        numbers = hx.iota((1, room), 1), at, begin, end
        for i, value in enumerate(numbers):
            gt = hx.global_view(table[i, first:], ((TOGETHER, 1), (1, 1)))
            hx.copy(hx.sum(mine * value, 1), gt)
        if first < TOGETHER:
            hx.copy(hx.sum(tiles, 1), hx.global_view(used, ((1, 1), (1, 1))))
            if by_expert:
                none = hx.register_tensor(i32, (1, 1))
                hx.fill(none, 0)
                hx.copy(none, hx.global_view(used[1:], ((1, 1), (1, 1))))

    return place_tiles


@hx.device
def begins(table, t, high):
    """The row where tile number t begins, its expert, and the first row and the end of that one;
    without a table the row alone counts."""
    if table is None:
        return t * high, 0, 0, 0
    # TMA stores nothing that may begin before a tensor.
    return table[1, t] * STEP, hx.maximum(table[0, t], 0), table[2, t], table[3, t]


@hx.device
def store_between(s_c, c, start, column, first, last, rows):
    """Writes those rows of s_c, of which the first is row `start` of c, that come between rows
    `first` and `last`, by numbers in `rows`."""
    high, shape = s_c.shape[0], s_c.shape
    if start >= first and start + high <= last:
        gc = c[hx.maximum(start, 0) :, hx.maximum(column, 0) :]
        hx.copy(s_c, hx.global_view(gc, (shape, (c.shape[-1], 1))))
    else:
        r, row = hx.register_tensor(s_c.dtype, shape), hx.iota((high,), 0) + start
        hx.copy(hx.where((row >= first) & (row < last), row, -1), rows)
        hx.sync_role()
        hx.copy(s_c, r)
        hx.copy(r, hx.global_view(c[:, column:], (shape, (rows, 1))))
