"""Many tokens to experts, in one launch: a block of threads per expert, which reads all choices.

Pairs of an expert stand together, cut into blocks of BM rows, and expert e begins where `arrange`
lets it begin: at block P, the number of pairs of those before it, or e + P / BM. The first walk
along the choices counts, the second writes each pair to its place.

    expert[b]           the expert of block b, -1 where it is not used
    pair[b * BM + r]    the pair in its row r, -1 where it has none
    token[b * BM + r]   that pair's token, -1 where there is none
"""

from __future__ import annotations

from functools import cache

import hexcute_core as hx
from hexcute_core import i32

pairs, blocks, rows = hx.dims("pairs blocks rows")

THREADS, CHUNK = 512, 4096


@hx.device
def chosen_of(ids, start):
    """The choices from `start` on, -1 behind the last."""
    chosen = hx.register_tensor(i32, (CHUNK,))
    hx.copy(hx.global_view(ids[start:], ((CHUNK,), (1,))), chosen, outside=-1)
    return chosen


@hx.device
def write(value, table, at):
    """table[at] = value."""
    one = hx.register_tensor(i32, (1,))
    hx.fill(one, value)
    hx.copy(one, hx.global_view(table[at:], ((1,), (1,))))


@cache
def sort(experts: int, top_k: int) -> hx.Kernel:
    """The kernel, for so many experts and choices of a token."""

    @hx.kernel
    def sorted_pairs(
        ids: i32[pairs], expert: i32[blocks], pair: i32[rows], token: i32[rows], *, BM: int = 64
    ):
        hx.attrs.cuda.grid_dim = experts
        hx.attrs.cuda.block_dim = THREADS
        mine, scattered = hx.blockIdx.x, pairs <= experts + pairs // BM
        chunks = hx.cdiv(pairs, CHUNK)
        before, ours = hx.register_tensor(i32, (CHUNK,)), hx.register_tensor(i32, (CHUNK,))
        hx.fill(before, 0)
        hx.fill(ours, 0)
        for c in range(chunks):
            chosen = chosen_of(ids, c * CHUNK)
            before += hx.cast((chosen >= 0) & (chosen < mine), i32)
            ours += hx.cast(chosen == mine, i32)
        passed, count = hx.number(hx.sum(before, 0)), hx.number(hx.sum(ours, 0))
        begin = passed if scattered else mine + passed // BM
        end = passed + count if scattered else mine + 1 + (passed + count) // BM
        # Choices that are no expert's leave blocks over.
        end = end if mine < experts - 1 else blocks
        used = hx.cdiv(count, BM)
        for block in range(begin, end):
            write(mine if block < begin + used else -1, expert, block)
        for rank in range(count, used * BM):
            write(-1, pair, begin * BM + rank)
            write(-1, token, begin * BM + rank)
        places = hx.shared_tensor(i32, (CHUNK,))
        met = hx.register_tensor(i32, (1,))
        hx.fill(met, begin * BM - 1)
        for c in range(chunks):
            chosen = chosen_of(ids, c * CHUNK)
            matches = hx.cast(chosen == mine, i32)
            place = hx.where(chosen == mine, hx.cumsum(matches, 0) + met, -1)
            met += hx.sum(matches, 0)
            hx.syncthreads()
            hx.copy(place, places)
            hx.syncthreads()
            numbers = hx.iota((CHUNK,), 0) + c * CHUNK
            hx.copy(numbers, hx.global_view(pair, ((CHUNK,), (places,))))
            hx.copy(numbers // top_k, hx.global_view(token, ((CHUNK,), (places,))))

    return sorted_pairs
