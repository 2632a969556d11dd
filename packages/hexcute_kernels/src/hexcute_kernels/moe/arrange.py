"""Few tokens to experts, in one launch: which rows of x the products take together.

Pairs of an expert stand together, cut into blocks of BM rows. Expert e begins at a block that those
before it cannot reach, whatever they took: P, the number of their pairs, or e + P / BM, whichever
needs fewer blocks in the end. So one look at all choices tells each expert its place.

    expert[b]           the expert of block b, -1 where it is not used
    pair[b * BM + r]    the pair in its row r; where it has none, a number no pair has
    token[b * BM + r]   that pair's token; -1 where there is none
"""

from __future__ import annotations

from functools import cache

import hexcute_core as hx
from hexcute_core import i32

pairs, blocks, rows = hx.dims("pairs blocks rows")

THREADS = 256


@hx.device
def only(tile):
    """The number in a tile of one."""
    value = 0
    for i, j in hx.elements(tile):
        value = tile[i, j]
    return value


def arrange(experts: int, top_k: int, most: int) -> hx.Kernel:
    """The kernel, for so many experts, choices of a token, and at most `most` pairs: one for all
    numbers of pairs up to a power of two, and not one for each of them."""
    return _arrange(experts, top_k, max(32, 1 << (most - 1).bit_length()))


@cache
def _arrange(experts: int, top_k: int, places: int) -> hx.Kernel:
    @hx.kernel
    def arranged(
        ids: i32[pairs], expert: i32[blocks], pair: i32[rows], token: i32[rows], *, BM: int = 8
    ):
        hx.attrs.cuda.grid_dim = experts
        hx.attrs.cuda.block_dim = THREADS
        mine, scattered = hx.blockIdx.x, pairs <= experts + pairs // BM
        hx.primitive("griddepcontrol.wait")
        hx.primitive("griddepcontrol.launch")
        ours, before = hx.register_tensor(i32, (1, places)), hx.register_tensor(i32, (1, places))
        hx.copy(hx.global_view(ids, ((1, places), (0, 1))), ours)
        for i, j in hx.elements(ours):
            chosen = ours[i, j] if j < pairs else -1
            before[i, j] = 1 if chosen >= 0 and chosen < mine else 0
            ours[i, j] = 1 if chosen == mine else 0
        upto, passed, count = hx.cumsum(ours, 1), only(hx.sum(before, 1)), only(hx.sum(ours, 1))
        begin = passed if scattered else mine + passed // BM
        end = passed + count if scattered else mine + 1 + (passed + count) // BM
        # Choices that are no expert's leave blocks over.
        end = end if mine < experts - 1 else blocks
        entry = hx.register_tensor(i32, (1,))
        for block in range(begin, end):
            ranks = (block - begin) * BM
            hx.fill(entry, mine if ranks < count else -1)
            hx.copy(entry, hx.global_view(expert[block:], ((1,), (1,))))
            if ranks < count:
                # Row r has the pair before which r + ranks others chose this expert: as many as
                # have no more than that up to themselves come before it.
                wanted = hx.register_tensor(i32, (BM, 1))
                for i, j in hx.elements(wanted):
                    wanted[i, j] = ranks + i
                found = hx.sum(hx.cast(upto <= wanted, i32), 1)
                hx.copy(found, hx.global_view(pair[block * BM :], ((BM, 1), (1, 1))))
                for i, j in hx.elements(found):
                    found[i, j] = found[i, j] // top_k if found[i, j] < pairs else -1
                hx.copy(found, hx.global_view(token[block * BM :], ((BM, 1), (1, 1))))

    return arranged
