"""Few tokens to experts, in one launch: which rows of x the products take together.

Pairs of an expert stand together, cut into blocks of BM rows; block b looks through all choices and
finds its expert and its pairs.

    expert[b]           the expert of block b, -1 where it is not used
    pair[b * BM + r]    the pair in its row r; where it has none, a number no pair has
    token[b * BM + r]   that pair's token; where there is none, any
"""

from __future__ import annotations

from functools import cache

import hexcute_core as hx
from hexcute_core import i32

pairs, blocks, rows = hx.dims("pairs blocks rows")

THREADS, LOOK = 256, 32
"""Of a block, and how many choices it compares with all experts at once."""


@hx.device
def counted(ids, experts, room):
    """How many pairs chose each of `experts`: a tile (room, 1)."""
    of, numbers = hx.register_tensor(i32, (room, 1)), hx.register_tensor(i32, (room, 1))
    for i, j in hx.elements(numbers):
        numbers[i, j] = i
    hx.fill(of, 0)
    for c in range(hx.cdiv(pairs, LOOK)):
        chosen = hx.register_tensor(i32, (1, LOOK))
        hx.copy(hx.global_view(ids[c * LOOK :], ((1, LOOK), (0, 1))), chosen)
        for i, j in hx.elements(chosen):
            if c * LOOK + j >= pairs:
                chosen[i, j] = -1
        of += hx.sum(hx.cast(chosen == numbers, i32), 1)
    return of


@cache
def arrange(experts: int, top_k: int, most: int) -> hx.Kernel:
    """The kernel, for so many experts, choices of a token, and at most `most` pairs."""
    room, places = (max(32, 1 << (size - 1).bit_length()) for size in (experts, most))

    @hx.kernel
    def arrange_rows(
        ids: i32[pairs],
        expert: i32[blocks],
        pair: i32[rows],
        token: i32[rows],
        *,
        BM: int = 8,
        EARLY: bool = True,
    ):
        hx.attrs.cuda.grid_dim = blocks
        hx.attrs.cuda.block_dim = THREADS
        block = hx.blockIdx.x
        if EARLY:
            hx.primitive("griddepcontrol.wait")
            hx.primitive("griddepcontrol.launch")
        of = counted(ids, experts, room)
        taken = (of + (BM - 1)) // BM
        # Experts whose blocks all come before this one.
        before = hx.cast(hx.cumsum(taken, 0) <= block, i32)
        mine, first = hx.sum(before, 0), hx.sum(before * taken, 0)
        e, ranks = 0, 0
        for i, j in hx.elements(mine):
            e = mine[i, j]
        for i, j in hx.elements(first):
            ranks = (block - first[i, j]) * BM
        entry = hx.register_tensor(i32, (1,))
        hx.fill(entry, e if e < experts else -1)
        hx.copy(entry, hx.global_view(expert[block:], ((1,), (1,))))
        if e < experts:
            # Row r has the pair before which r + ranks others chose this expert: as many as have
            # no more than that up to themselves come before it.
            wanted = hx.register_tensor(i32, (BM, 1))
            for i, j in hx.elements(wanted):
                wanted[i, j] = ranks + i
            chosen = hx.register_tensor(i32, (1, places))
            hx.copy(hx.global_view(ids, ((1, places), (0, 1))), chosen)
            for i, j in hx.elements(chosen):
                chosen[i, j] = 1 if chosen[i, j] == e and j < pairs else 0
            found = hx.sum(hx.cast(hx.cumsum(chosen, 1) <= wanted, i32), 1)
            hx.copy(found, hx.global_view(pair[block * BM :], ((BM, 1), (1, 1))))
            last = pairs // top_k - 1
            hx.copy(
                hx.minimum(found // top_k, last),
                hx.global_view(token[block * BM :], ((BM, 1), (1, 1))),
            )

    return arrange_rows
