"""Tokens to experts and back, on the device alone: tables of fixed sizes, whatever the routing.

A pair is a token and one of its choices, number token * top_k + choice. Pairs sorted by expert are
cut into blocks of BM rows of one expert each; how many blocks are used is known to the GPU alone.

    counts[e]          pairs of expert e
    expert[b]          the expert of block b, -1 where it is not used
    start[b]           the first of its pairs among the sorted
    pair[b * BM + r]   the pair in its row r; where it has none, a number no pair has
    place[p]           the row of pair p
"""

from __future__ import annotations

from functools import cache

import hexcute_core as hx
from hexcute_core import f16, f32, i32
from hexcute_kernels.parts.epilogue import silu
from hexcute_kernels.parts.unpack import number

tokens, k, pairs, experts, blocks, rows = hx.dims("tokens k pairs experts blocks rows")
width, both = hx.dims("width both")

CHUNK = 1024
"""Columns that a block moves."""
THREADS, LOOKS = 512, 1 << 16
"""Of a block that looks through all choices, and how many comparisons it makes together."""


@hx.kernel
def count_pairs(ids: i32[pairs], counts: i32[experts]):
    """counts, a block per expert."""
    hx.attrs.cuda.grid_dim = experts
    hx.attrs.cuda.block_dim = THREADS
    chunk = 8 * THREADS
    total = hx.register_tensor(i32, (1,))
    hx.fill(total, 0)
    for c in range(hx.cdiv(pairs, chunk)):
        chosen = hx.register_tensor(i32, (chunk,))
        hx.copy(hx.global_view(ids[c * chunk :], ((chunk,), (1,))), chosen)
        for (i,) in hx.elements(chosen):
            chosen[i] = 1 if chosen[i] == hx.blockIdx.x and c * chunk + i < pairs else 0
        total += hx.sum(chosen, 0)
    hx.copy(total, hx.global_view(counts[hx.blockIdx.x :], ((1,), (1,))))


@cache
def route(experts_: int) -> hx.Kernel:
    """The kernel that fills the tables of a block, for so many experts."""
    room = max(32, 1 << (experts_ - 1).bit_length())

    @hx.kernel
    def route_blocks(
        ids: i32[pairs],
        counts: i32[experts],
        expert: i32[blocks],
        start: i32[blocks],
        pair: i32[rows],
        *,
        BM: int = 16,
    ):
        hx.attrs.cuda.grid_dim = blocks
        hx.attrs.cuda.block_dim = THREADS
        block, chunk = hx.blockIdx.x, LOOKS // BM
        of = hx.register_tensor(i32, (1, room))
        hx.copy(hx.global_view(counts, ((1, room), (0, 1))), of)
        taken = (of + (BM - 1)) // BM
        # Experts whose blocks all come before this one.
        before = hx.cast(hx.cumsum(taken, 1) <= block, i32)
        mine, first, passed = hx.sum(before, 1), hx.sum(before * taken, 1), hx.sum(before * of, 1)
        e, ranks, begin = 0, 0, 0
        for i, j in hx.elements(mine):
            e = mine[i, j]
        for i, j in hx.elements(first):
            ranks = (block - first[i, j]) * BM
        for i, j in hx.elements(passed):
            begin = passed[i, j] + ranks
        used = e < experts
        entry = hx.register_tensor(i32, (1,))
        hx.fill(entry, e if used else -1)
        hx.copy(entry, hx.global_view(expert[block:], ((1,), (1,))))
        hx.fill(entry, begin)
        hx.copy(entry, hx.global_view(start[block:], ((1,), (1,))))
        if used:
            # Row r has the pair before which r + ranks others chose this expert: as many as have
            # no more than that up to themselves come before it.
            found, wanted = hx.register_tensor(i32, (BM, 1)), hx.register_tensor(i32, (BM, 1))
            hx.fill(found, 0)
            for i, j in hx.elements(wanted):
                wanted[i, j] = ranks + i
            met = hx.register_tensor(i32, (1, 1))
            hx.fill(met, 0)
            for c in range(hx.cdiv(pairs, chunk)):
                chosen = hx.register_tensor(i32, (1, chunk))
                hx.copy(hx.global_view(ids[c * chunk :], ((1, chunk), (0, 1))), chosen)
                ours = hx.cast(chosen == e, i32)
                upto = hx.cumsum(ours, 1) + met
                found += hx.sum(hx.cast(upto <= wanted, i32), 1)
                met += hx.sum(ours, 1)
            hx.copy(found, hx.global_view(pair[block * BM :], ((BM, 1), (1, 1))))

    return route_blocks


@cache
def gather(top_k: int) -> hx.Kernel:
    """The kernel that brings rows of x into the order of the sorted pairs, and notes places."""

    @hx.kernel
    def gather_rows(
        x: f16[tokens, k],
        expert: i32[blocks],
        start: i32[blocks],
        pair: i32[rows],
        sorted_x: f16[pairs, k],
        place: i32[pairs],
        *,
        BM: int = 16,
    ):
        hx.attrs.cuda.grid_dim = rows, hx.cdiv(k, CHUNK)
        hx.attrs.cuda.block_dim = 128
        row, column = hx.blockIdx.x, hx.blockIdx.y * CHUNK
        if number(expert, row // BM) >= 0:
            p = number(pair, row)
            if p < pairs:
                to = number(start, row // BM) + row % BM
                r = hx.register_tensor(f16, (1, CHUNK))
                hx.copy(hx.global_view(x[p // top_k :, column:], ((1, CHUNK), (k, 1))), r)
                hx.copy(r, hx.global_view(sorted_x[to:, column:], ((1, CHUNK), (k, 1))))
                if column < CHUNK:
                    at = hx.register_tensor(i32, (1,))
                    hx.fill(at, row)
                    hx.copy(at, hx.global_view(place[p:], ((1,), (1,))))

    return gather_rows


@hx.kernel
def gate_rows(c1: f16[rows, both], expert: i32[blocks], h: f16[rows, width], *, BM: int = 16):
    """h = silu(the left half of c1) * its right half, of the blocks in use."""
    hx.attrs.cuda.grid_dim = blocks, hx.cdiv(width, 128)
    hx.attrs.cuda.block_dim = 128
    block, column = hx.blockIdx.x, hx.blockIdx.y * 128
    if number(expert, block) >= 0:
        gate, up = hx.register_tensor(f16, (BM, 128)), hx.register_tensor(f16, (BM, 128))
        at = ((BM, 128), (both, 1))
        hx.copy(hx.global_view(c1[block * BM :, column:], at), gate)
        hx.copy(hx.global_view(c1[block * BM :, width + column :], at), up)
        r = hx.cast(silu(hx.cast(gate, f32)) * hx.cast(up, f32), f16)
        hx.copy(r, hx.global_view(h[block * BM :, column:], ((BM, 128), (width, 1))))


@cache
def combine(together: int) -> hx.Kernel:
    """The kernel that gives each row of the result as the sum over `together` pairs of gate times
    row: all choices of a token, or one."""
    results = hx.dim("results")

    @hx.kernel
    def combine_rows(c2: f16[rows, k], place: i32[pairs], gates: f32[pairs], c: f16[results, k]):
        hx.attrs.cuda.grid_dim = results, hx.cdiv(k, CHUNK)
        hx.attrs.cuda.block_dim = 128
        row, column = hx.blockIdx.x, hx.blockIdx.y * CHUNK
        total = hx.register_tensor(f32, (1, CHUNK))
        hx.fill(total, 0.0)
        for j in hx.static_range(together):
            p = row * together + j
            one, gate = hx.register_tensor(f16, (1, CHUNK)), hx.register_tensor(f32, (1, 1))
            hx.copy(hx.global_view(c2[number(place, p) :, column:], ((1, CHUNK), (k, 1))), one)
            hx.copy(hx.global_view(gates[p:], ((1, 1), (1, 1))), gate)
            total += hx.cast(one, f32) * gate
        hx.copy(hx.cast(total, f16), hx.global_view(c[row:, column:], ((1, CHUNK), (k, 1))))

    return combine_rows
