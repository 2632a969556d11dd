"""c = x ((q - zero) * scale)^T of f16 rows and weights of four bits: dense, or an expert per block.

    dense      c = x W^T, rows of x as they follow
    gated      c = silu(x gate^T) * (x up^T), each row of x named by a table
    weighted   c[pair] = gates[pair] x W^T, each row of c named by a table

The weights are the product's rows: each thread unpacks in registers what the Tensor Core reads from
it, once for all tokens of the tile, and rounds them once. One warp group loads a group of k into
each slot, the others multiply: while one product runs, the next one's weights are unpacked.
"""

from __future__ import annotations

from functools import cache

import hexcute_core as hx
from hexcute_core import f16, f32, i32, u16
from hexcute_kernels.moe.forms import PLAIN, Weights
from hexcute_kernels.moe.slots import (
    load_slots,
    multiply_apart,
    multiply_in_turns,
    ring,
    rows_ring,
)
from hexcute_kernels.parts.epilogue import silu
from hexcute_kernels.parts.schedule import placed

t, k, n, rows, width = hx.dims("t k n rows width")
experts, groups, lines, halves, blocks = hx.dims("experts groups lines halves blocks")
pairs, splits = hx.dims("pairs splits")
REGISTERS = {(1, 2): (40, 232), (2, 2): (32, 224), (1, 3): (32, 160), (1, 4): (32, 112)}
"""Of a thread that loads and one that multiplies, by how many groups of each a block has."""
BAND, APART = 16, 112
"""Rows of tiles that run together, and the most tokens for which a thread has room for a group's
sums beside all others'."""


@hx.device
def begins(table, item, high, wide, tiles_m, tiles_n):
    """The expert of an item of work, its first row and its first column: dense, of `tiles_m` tiles
    of rows; routed, of its expert's, as `sorting` numbers them. BAND rows of tiles run together."""
    before, expert, top = 0, 0, 0
    if table is not None:
        t = item // tiles_n  # A tile of the same expert.
        before, tiles_m = table[2, t] * tiles_n, table[3, t]
        # TMA fetches nothing of an expert that may be before the first.
        expert, top = hx.maximum(table[0, t], 0), table[1, t]
    row, column = placed(item - before, tiles_m, tiles_n, BAND)
    return expert, (top + row) * high, column * wide


@hx.device
def take(there, into):
    """into = what is there, for all threads of the role, once none needs what it held."""
    numbers = hx.register_tensor(into.dtype, into.shape)
    hx.copy(there, numbers)
    hx.sync_role()
    hx.copy(numbers, into)
    hx.sync_role()


@hx.device
def store(rc, sc, to, strides, gates):
    """The corner of `to` whose dimensions have these strides = rc, by sc, times the gates, if any,
    of rows that are named there."""
    hx.sync_role()
    if gates is not None:
        factor = hx.register_tensor(f32, gates.shape)
        hx.copy(gates, factor)
        rc = rc * factor
    hx.copy(hx.cast(rc, sc.dtype), sc)
    hx.sync_role()
    view = hx.global_view(to, (rc.shape, strides))
    if gates is None:
        hx.copy(sc, view)
    else:
        r = hx.register_tensor(sc.dtype, rc.shape)
        hx.copy(sc, r)
        hx.copy(r, view)


@cache
def w4a16_gemm(kind: str = "dense", held: Weights = PLAIN, dtype: hx.DType = f16) -> hx.Kernel:
    """The kernel of one `kind`: "dense", "parts", "gated" or "weighted"; of weights as they are
    `held`, and of x and c in `dtype`.

    x[t, k]; q[experts, blocks of k, lines, 32] as `packing` says, and the same memory as f16,
    strip[experts, blocks of k, ...], where n are c's columns, twice as many of "gated"; table and
    used as `sorting` says of tiles of BM rows; row[...], "gated" those rows of x, "weighted" of c,
    -1 for none; gates[...], by row of c. "parts" gives c[t, SPLIT, n] in f32,
    the sums of so many parts of k, none of them empty. Its constants are in `W4A16Config`.
    """
    gated, weighted, split = kind == "gated", kind == "weighted", kind == "parts"
    routed = gated or weighted
    table_type, used_type = (i32[4, blocks], i32[1]) if routed else (None, None)
    row_type = i32[rows] if routed else None
    gates_type = f32[pairs] if weighted else None
    c_type = f32[rows, splits, n] if split else dtype[pairs if weighted else rows, n]

    @hx.kernel
    def w4a16(
        x: dtype[t, k],
        q: u16[experts, groups, lines, 32],
        strip: f16[experts, groups, halves],
        table: table_type,
        used: used_type,
        row: row_type,
        gates: gates_type,
        c: c_type,
        *,
        BM: int = 64,
        BN: int = 256,
        STAGES: int = 4,
        GROUPS: int = 2,
        TEAMS: int = 1,
        LOADS: int = 1,
        RUN: int = 1,
        SPLIT: int = 1,
        EXACT: bool = False,
        KEPT: int = 0,
        ORDERED: bool = False,
        TRITON: str = "",
    ):
        # Two halves of the weights' rows: one is unpacked while the other is multiplied.
        half, block = BN // 2, held.form.block
        wide, apart = (half, n) if gated else (BN, half)
        across, down = hx.cdiv(n, wide * RUN), hx.cdiv(rows if routed else t, BM)
        items, each = across * down * SPLIT, hx.cdiv(groups, SPLIT)
        tiles = BM, wide * RUN, down, across
        total = 2 * n if gated else n
        registers = REGISTERS.get((LOADS, TEAMS * GROUPS), (None, None))
        kept = rows_ring(BM, KEPT + min(KEPT, 2), held, dtype) if KEPT else None
        rings = [ring(0 if KEPT else BM, half, STAGES, held, dtype, TRITON) for _ in range(TEAMS)]
        scs = [hx.shared_tensor(f32 if split else dtype, (half, BM)) for _ in range(TEAMS)]
        named = [hx.shared_tensor(i32, (BM,)) for _ in range(TEAMS)] if routed else None
        factors = [hx.shared_tensor(f32, (1, BM)) if weighted else None for _ in range(TEAMS)]
        gathers = gated and not ORDERED
        by_columns = hx.along(2 if split else 1), hx.along(0)
        count = used[0] * across if routed else items

        with hx.warp_groups_producer(LOADS, registers=registers[0]):
            for item in hx.persistent(items):
                if item < count:
                    mine, first, start = begins(table, item // SPLIT, *tiles)
                    begin = item % SPLIT * each
                    if gathers:
                        take(hx.global_view(row[first:], ((BM,), (1,))), named[0])
                    rows_of, along = (x, named[0]) if gathers else (x[first:, :], k)
                    gx = hx.global_view(rows_of, ((BM, block, groups), (along, 1, block)))
                    for i in hx.static_range(KEPT):
                        with kept[1].produce() as s:
                            hx.copy(gx[:, :, i], kept[0][:, :, s])
                    run, much = hx.minimum(RUN * wide, n - start), hx.minimum(each, groups - begin)
                    for past in range(0, run, wide * TEAMS):
                        for me in hx.static_range(TEAMS):
                            if past + me * wide < run:
                                at = start + past + me * wide
                                lots = at, at + apart
                                load_slots(gx, q, strip, mine, lots, total, begin, much, rings[me])

        for me in hx.static_range(TEAMS):
            with hx.warp_groups_consumer(GROUPS, registers=registers[1]):
                for item in hx.persistent(items):
                    if item < count:
                        _, first, start = begins(table, item // SPLIT, *tiles)
                        part, top = item % SPLIT, 0 if weighted else first
                        if weighted:
                            take(hx.global_view(row[first:], ((BM,), (1,))), named[me])
                            take(hx.global_view(gates, ((1, BM), (0, named[me]))), factors[me])
                        run = hx.minimum(RUN * wide, n - start)
                        much = hx.minimum(each, groups - part * each)
                        staying = [kept[0][:, :, kept[1].wait()] for _ in range(KEPT)] or None
                        for past in range(me * wide, run, wide * TEAMS):
                            rcs = [hx.register_tensor(f32, (half, BM)) for _ in range(2)]
                            for rc in rcs:
                                hx.fill(rc, 0.0)
                            if EXACT and BM <= APART:
                                multiply_apart(rcs, rings[me], much, staying, held.form)
                            else:
                                multiply_in_turns(rcs, rings[me], much, EXACT, held.form)
                            done = [silu(rcs[0]) * rcs[1]] if gated else rcs
                            for j, rc in enumerate(done):
                                at = start + past + j * half
                                to = c[first:, part:, at:] if split else c[top:, at:]
                                along = (1, named[me]) if weighted else by_columns
                                store(rc, scs[me], to, along, factors[me])
                        for _ in hx.static_range(KEPT):
                            kept[1].release()

    return w4a16
