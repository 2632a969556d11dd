"""Sequences packed one behind the other: which queries of which sequence a block takes.

    place[t] = (first query, queries, first key, keys) of a sequence, and its first place

Sequence z has rows ends[z] to ends[z + 1] - 1 of the packed tensors, and both ends are known to the
GPU alone. Places are numbered by how many keys their sequences have, most first, so that no long
block is left to the end, and within a sequence from its last queries on: blocks that run together
read the same keys, which L2 brings them. Places behind the last have no queries and no keys. The
host knows how many there may be, and so how many blocks to launch.
"""

from __future__ import annotations

from dataclasses import dataclass

import hexcute_core as hx
from hexcute_core import i32

ends, places = hx.dims("ends places")

PLACE = 8
"""Numbers of a place, of which five are used: whole sectors of memory."""
ROWS, SEQUENCES = 16, 64
"""Places that are numbered together, and sequences that one is compared with at a time."""
NOTHING = -(1 << 30)
"""Fewer keys than any sequence has, and a row before that of any tensor."""


@dataclass(frozen=True)
class Placed:
    """The constant of `place_blocks`: queries per block."""

    BM: int


def most_places(queries: int, sequences: int, bm: int) -> int:
    """How many blocks of bm queries there are at most, whatever the lengths."""
    return (queries + sequences * (bm - 1)) // bm


@hx.device
def lengths(at, first):
    """The lengths (1, SEQUENCES) of sequences from `first` on, 0 of those that there are not."""
    begin, end = (hx.register_tensor(i32, (1, SEQUENCES)) for _ in range(2))
    hx.copy(hx.global_view(at[first:], ((1, SEQUENCES), (0, 1))), begin)
    hx.copy(hx.global_view(at[first + 1 :], ((1, SEQUENCES), (0, 1))), end)
    return hx.maximum(end - begin, 0)


@hx.kernel
def place_blocks(
    at_q: i32[ends], at_k: i32[ends], place: i32[places, PLACE], *, BM: int = 128
):  # fmt: skip
    """Writes the places of sequences: a block for each, and one for what is left."""
    hx.attrs.cuda.grid_dim = ends
    hx.attrs.cuda.block_dim = 128
    z = hx.blockIdx.x
    left_over = z == ends - 1
    q, k = at_q[z], at_k[z]
    nq, nk = hx.maximum(at_q[z + 1] - q, 0), hx.maximum(at_k[z + 1] - k, 0)
    found = hx.register_tensor(i32, (1, SEQUENCES))
    hx.fill(found, 0)
    for start in range(0, ends, SEQUENCES):
        other = start + hx.iota((1, SEQUENCES), 1)
        # Of those with as many keys, the sequences before this one come first.
        least = (NOTHING if left_over else nk) + hx.cast(other > z, i32)
        blocks = hx.cdiv(lengths(at_q, start), BM)
        found += hx.where((other != z) & (lengths(at_k, start) >= least), blocks, 0)
    before = hx.number(hx.sum(hx.reshape(found, (SEQUENCES,)), 0))
    rows = places - before if left_over else hx.cdiv(nq, BM)
    numbers = hx.shared_tensor(i32, (ROWS,))
    number, column = hx.iota((ROWS, 1), 0), hx.iota((1, PLACE), 1)
    for first in range(0, rows, ROWS):
        row = first + number
        order = hx.where(row < rows, before + row, -1)
        hx.syncthreads()
        hx.copy(hx.reshape(order, (ROWS,)), numbers)
        hx.syncthreads()
        entry = hx.where(column == 0, q, before + (row if left_over else 0))
        for at, value in ((1, nq), (2, k), (3, nk)):
            entry = hx.where(column == at, value, entry)
        hx.copy(entry, hx.global_view(place, ((ROWS, PLACE), (numbers, 1))))


@hx.device
def taken(place, block, heads, BM, by_head):
    """(h, q, nq, k, nk, bm) of a block: its head, its sequence's first query, queries, first key
    and keys, and how many of its queries come before the block's. The last rows reach farthest and
    come first, all rows of a head together where `by_head`, else all heads of a row."""
    q, nq, k, nk, before = (place[block // heads, i] for i in range(5))
    at, rows = block - before * heads, hx.maximum(hx.cdiv(nq, BM), 1)
    h, row = (at // rows, at % rows) if by_head else (at % heads, at // heads)
    return h, q, nq, k, nk, (rows - 1 - row) * BM


@hx.device
def name_rows(names, first, length):
    """Names rows 0, 1, 2 ... of a view that begins at row `first` of a sequence in `names`; those
    from `length` on are another's, and named by what no tensor has: zeros when read, and not
    written."""
    row = hx.iota(names.shape, 0)
    hx.copy(hx.where(first + row < length, row, NOTHING), names)
