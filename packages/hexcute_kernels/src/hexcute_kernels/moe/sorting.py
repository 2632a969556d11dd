"""Many tokens to experts: a block of threads per expert, which reads all choices.

Pairs of an expert stand together, cut into tiles of BM rows, and expert e begins where `arrange`
lets it begin: at tile P, the number of pairs of those before it, or e + P / BM. The first walk
along the choices counts, the second writes each pair to its place.

    pair[b * BM + r]    the pair in row r of tile b, -1 where it has none
    token[b * BM + r]   that pair's token, -1 where there is none

Between experts are tiles without rows. Blocks that stay take tiles in turns, and would have more or
less to do as it comes: so a second kernel counts those that have rows, t = 0, 1, ...

    table[0, t]    the expert of tile t          table[1, t]    the tile b where that one begins
    table[2, t]    the t where it begins         table[3, t]    how many tiles it has
    used[0]        how many tiles have rows
"""

from __future__ import annotations

from functools import cache

import hexcute_core as hx
from hexcute_core import i32

pairs, blocks, rows = hx.dims("pairs blocks rows")

THREADS = 512
TILES = 1024
"""Of which so many are looked at together."""


@hx.device
def some_of(table, start, many):
    """`many` numbers from `start` on, -1 behind the last."""
    numbers = hx.register_tensor(i32, (many,))
    hx.copy(hx.global_view(table[start:], ((many,), (1,))), numbers, outside=-1)
    return numbers


@hx.device
def write(value, table, at):
    """table[at] = value."""
    one = hx.register_tensor(i32, (1,))
    hx.fill(one, value)
    hx.copy(one, hx.global_view(table[at:], ((1,), (1,))))


@cache
def sort(experts: int, top_k: int) -> hx.Kernel:
    """The kernel, for so many experts and choices of a token. found[:, b] are the expert of tile b,
    -1 where it has no rows, which of its tiles it is, and how many it has. CHUNK choices are looked
    at together."""

    @hx.kernel
    def sorted_pairs(
        ids: i32[pairs], found: i32[3, blocks], pair: i32[rows], token: i32[rows],
        *, BM: int = 64, CHUNK: int = 4096,
    ):  # fmt: skip
        hx.attrs.cuda.grid_dim = experts
        hx.attrs.cuda.block_dim = THREADS
        mine, scattered = hx.blockIdx.x, pairs <= experts + pairs // BM
        chunks = hx.cdiv(pairs, CHUNK)
        before, ours = hx.register_tensor(i32, (CHUNK,)), hx.register_tensor(i32, (CHUNK,))
        hx.fill(before, 0)
        hx.fill(ours, 0)
        for c in range(chunks):
            chosen = some_of(ids, c * CHUNK, CHUNK)
            before += hx.cast((chosen >= 0) & (chosen < mine), i32)
            ours += hx.cast(chosen == mine, i32)
        passed, count = hx.number(hx.sum(before, 0)), hx.number(hx.sum(ours, 0))
        begin = passed if scattered else mine + passed // BM
        end = passed + count if scattered else mine + 1 + (passed + count) // BM
        # Choices that are no expert's leave blocks over.
        end = end if mine < experts - 1 else blocks
        used = hx.cdiv(count, BM)
        for block in range(begin, end):
            write(mine if block < begin + used else -1, found[0], block)
            write(block - begin, found[1], block)
            write(used, found[2], block)
        for rank in range(count, used * BM):
            write(-1, pair, begin * BM + rank)
            write(-1, token, begin * BM + rank)
        places = hx.shared_tensor(i32, (CHUNK,))
        met = hx.register_tensor(i32, (1,))
        hx.fill(met, begin * BM - 1)
        for c in range(chunks):
            chosen = some_of(ids, c * CHUNK, CHUNK)
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


@cache
def count_used() -> hx.Kernel:
    """The kernel that makes table and used of what `sort` found."""

    @hx.kernel
    def used_tiles(found: i32[3, blocks], table: i32[4, blocks], used: i32[1]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 256
        places = hx.shared_tensor(i32, (TILES,))
        met = hx.register_tensor(i32, (1,))
        hx.fill(met, 0)
        for c in range(hx.cdiv(blocks, TILES)):
            expert, rank, many = [some_of(found[i], c * TILES, TILES) for i in range(3)]
            has = hx.cast(expert >= 0, i32)
            place = hx.where(expert >= 0, hx.cumsum(has, 0) + met - 1, -1)
            met += hx.sum(has, 0)
            hx.syncthreads()
            hx.copy(place, places)
            hx.syncthreads()
            numbers = hx.iota((TILES,), 0) + c * TILES
            for i, values in enumerate((expert, numbers - rank, place - rank, many)):
                hx.copy(values, hx.global_view(table[i], ((TILES,), (places,))))
        hx.copy(met, hx.global_view(used, ((1,), (1,))))

    return used_tiles
