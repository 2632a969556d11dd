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
from hexcute_kernels.moe.packing import GROUP, WORDS
from hexcute_kernels.parts.epilogue import silu
from hexcute_kernels.parts.schedule import grouped
from hexcute_kernels.parts.unpack import differences, number

t, k, n, rows, width = hx.dims("t k n rows width")
experts, groups, lines, halves, blocks = hx.dims("experts groups lines halves blocks")
pairs, splits = hx.dims("pairs splits")
REGISTERS = {(1, 2): (40, 232), (2, 2): (32, 224), (1, 3): (32, 160)}
"""Of a thread that loads and one that multiplies, by how many groups of each a block has, where it
has a multiprocessor alone."""


@hx.device
def begins(expert, item, high, wide, tiles_m, tiles_n, group):
    """The expert of an item of work, its first row and its first column: dense, `group` rows of
    tiles run together; routed, all columns of a block."""
    if expert is None:
        row, column = grouped(item, tiles_m, tiles_n, group, high, wide)
        return 0, row, column
    return number(expert, item // tiles_n), item // tiles_n * high, item % tiles_n * wide


@hx.device
def ring(high, half, stages):
    """Slots for a group of k: of `high` rows of x, and of two lots of `half` rows of weights, with
    what scales and shifts them."""
    lots = [
        (
            hx.shared_tensor(u16, (half, WORDS, stages)),
            hx.shared_tensor(f16, (half, 1, stages)),
            hx.shared_tensor(f16, (half, 1, stages)),
        )
        for _ in range(2)
    ]
    return hx.shared_tensor(f16, (high, GROUP, stages)), lots, hx.pipeline(stages)


@hx.device
def load_slots(gx, q, strip, expert, columns, total, begin, tiles, slots):
    """Fills slot after slot with a group of k, `tiles` of them from `begin` on: rows of x, and for
    each lot the weights of columns from its entry of `columns` on."""
    groups, (sx, lots, pipe) = q.shape[1], slots
    for i in range(tiles):
        with pipe.produce() as s:
            hx.copy(gx[:, :, begin + i], sx[:, :, s])
            for column, (sq, ss, sz) in zip(columns, lots):
                wide = sq.shape[0]
                a_tile = ((wide, WORDS, groups), (hx.along(2), hx.along(3), hx.along(1)))
                a_strip = ((wide, 1, groups), (hx.along(2), hx.along(1), hx.along(1)))
                gq = hx.global_view(q[expert, :, column:, :], a_tile)
                gs = hx.global_view(strip[expert, :, total * WORDS + column :], a_strip)
                gz = hx.global_view(strip[expert, :, total * (WORDS + 1) + column :], a_strip)
                hx.copy(gq[:, :, begin + i], sq[:, :, s])
                hx.copy(gs[:, :, begin + i], ss[:, :, s])
                hx.copy(gz[:, :, begin + i], sz[:, :, s])


@hx.device
def taken(lot, s):
    """The words, scales and zero points of a slot, in registers."""
    sq, ss, sz = lot
    words = hx.register_tensor(u16, sq.shape[:2])
    scale, zero = [hx.register_tensor(f16, (sq.shape[0], 1)) for _ in range(2)]
    hx.copy(sq[:, :, s], words)
    hx.copy(ss[:, :, s], scale)
    hx.copy(sz[:, :, s], zero)
    return words, scale, zero


@hx.device
def multiply_rounded(rcs, slots, tiles):
    """rcs = the products of `tiles` slots with each of two lots, in turns: while one is multiplied,
    the other is unpacked, and its weights rounded."""
    sx, lots, pipe = slots
    for rc in rcs:
        hx.fill(rc, 0.0)
    for i in range(tiles):
        s = pipe.wait()
        words = [taken(lot, s) for lot in lots]
        for place in hx.static_range(4):
            rx = sx[:, place * WORDS : (place + 1) * WORDS, s]
            for rc, (rq, scale, zero) in zip(rcs, words):
                hx.gemm(rc, differences(rq, place, zero) * scale, rx, asynchronous=True)
                hx.wait_gemm(1)
            if place == 0 and i > 0:
                pipe.release()
    hx.wait_gemm(0)
    pipe.release()


@hx.device
def multiply_exactly(rcs, slots, tiles):
    """The same without rounding a weight: a group's products are summed apart, in one tile for both
    lots, before its scales meet them. One warp group does that while another multiplies."""
    sx, lots, pipe = slots
    for rc in rcs:
        hx.fill(rc, 0.0)
    for _ in range(tiles):
        s = pipe.wait()
        part = hx.register_tensor(f32, rcs[0].shape)
        for lot, rc in zip(lots, rcs):
            rq, scale, zero = taken(lot, s)
            for place in hx.static_range(4):
                rx = sx[:, place * WORDS : (place + 1) * WORDS, s]
                weights = differences(rq, place, zero)
                hx.gemm(part, weights, rx, accumulate=place > 0, asynchronous=True)
            hx.wait_gemm(0)
            rc += part * scale
        pipe.release()


@hx.device
def take_numbers(table, at, into):
    """into = table[at:], for all threads of the role, once none needs what it held."""
    numbers = hx.register_tensor(table.dtype, into.shape)
    hx.copy(hx.global_view(table[at:], (into.shape, (1,))), numbers)
    hx.sync_role()
    hx.copy(numbers, into)
    hx.sync_role()


@hx.device
def take_gates(gates, rows, into):
    """into = the gates of rows, once the role has met."""
    taken_gates = hx.register_tensor(f32, into.shape)
    hx.copy(hx.global_view(gates, (into.shape, (0, rows))), taken_gates)
    hx.copy(taken_gates, into)


@hx.device
def store(rc, sc, to, rows, columns):
    """The corner of `to` = rc, by sc, where these dimensions are its rows and columns."""
    hx.sync_role()
    hx.copy(hx.cast(rc, sc.dtype), sc)
    hx.sync_role()
    hx.copy(sc, hx.global_view(to, (rc.shape, (hx.along(columns), hx.along(rows)))))


@hx.device
def store_named(rc, sc, c, column, rows, gates):
    """c[rows, column:] = rc times the gates, by sc."""
    hx.sync_role()
    factor, r = hx.register_tensor(f32, gates.shape), hx.register_tensor(f16, rc.shape)
    hx.copy(gates, factor)
    hx.copy(hx.cast(rc * factor, f16), sc)
    hx.sync_role()
    hx.copy(sc, r)
    hx.copy(r, hx.global_view(c[:, column:], (rc.shape, (1, rows))))


@cache
def w4a16_gemm(kind: str = "dense") -> hx.Kernel:
    """The kernel of one `kind`: "dense", "parts", "gated" or "weighted".

    x[t, k]; q[experts, k/128, n + n/16, 32] as `packing` says, and the same memory as f16,
    strip[experts, k/128, ...], where n are c's columns, twice as many of "gated"; expert[block] of
    the rows from block * BM on, negative where they are not used; row[...], "gated" those rows of
    x, "weighted" of c, -1 for none; gates[...], by row of c. "parts" gives c[t, SPLIT, n] in f32,
    the sums of so many parts of k, none of them empty. Its constants are in `W4A16Config`.
    """
    gated, weighted, parts = kind == "gated", kind == "weighted", kind == "parts"
    routed = gated or weighted
    expert_type, row_type = (i32[blocks], i32[rows]) if routed else (None, None)
    gates_type = f32[pairs] if weighted else None
    c_type = f32[rows, splits, n] if parts else f16[pairs if weighted else rows, n]

    @hx.kernel
    def w4a16(
        x: f16[t, k],
        q: u16[experts, groups, lines, 32],
        strip: f16[experts, groups, halves],
        expert: expert_type,
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
        BLOCKS: int = 1,
    ):
        # Two halves of the weights' rows: one is unpacked while the other is multiplied.
        half = BN // 2
        wide, apart = (half, n) if gated else (BN, half)
        across, down = hx.cdiv(n, wide * RUN), hx.cdiv(rows if routed else t, BM)
        items, each = across * down * SPLIT, hx.cdiv(groups, SPLIT)
        multiply, total = multiply_exactly if EXACT else multiply_rounded, 2 * n if gated else n
        working = TEAMS * GROUPS
        registers = REGISTERS.get((LOADS, working), (None, None)) if BLOCKS == 1 else (None, None)
        if BLOCKS > 1:
            hx.attrs.cuda.grid_dim = items
            hx.attrs.cuda.min_blocks = BLOCKS
        rings = [ring(BM, half, STAGES) for _ in range(TEAMS)]
        scs = [hx.shared_tensor(f32 if parts else f16, (half, BM)) for _ in range(TEAMS)]
        named = [hx.shared_tensor(i32, (BM,)) for _ in range(TEAMS)] if routed else None
        factors = [hx.shared_tensor(f32, (1, BM)) for _ in range(TEAMS)] if weighted else None

        with hx.warp_groups_producer(LOADS, registers=registers[0]):
            for item in hx.persistent(items):
                mine, first, start = begins(
                    expert, item // SPLIT, BM, wide * RUN, down, across, 16
                )
                begin = item % SPLIT * each
                if mine >= 0:
                    along = k
                    if gated:
                        take_numbers(row, first, named[0])
                        along = named[0]
                    rows_of = x[0 if gated else first :, :]
                    gx = hx.global_view(rows_of, ((BM, GROUP, groups), (along, 1, GROUP)))
                    run, count = hx.minimum(RUN * wide, n - start), hx.minimum(each, groups - begin)
                    for at in range(0, run, wide * TEAMS):
                        for me in hx.static_range(TEAMS):
                            column = start + at + me * wide
                            if column < start + run:
                                columns = column, column + apart
                                load_slots(
                                    gx, q, strip, mine, columns, total, begin, count, rings[me]
                                )

        for me in hx.static_range(TEAMS):
            with hx.warp_groups_consumer(GROUPS, registers=registers[1]):
                for item in hx.persistent(items):
                    mine, first, start = begins(
                        expert, item // SPLIT, BM, wide * RUN, down, across, 16
                    )
                    begin = item % SPLIT * each
                    if mine >= 0:
                        if weighted:
                            take_numbers(row, first, named[me])
                            take_gates(gates, named[me], factors[me])
                        run = hx.minimum(RUN * wide, n - start)
                        count = hx.minimum(each, groups - begin)
                        for past in range(me * wide, run, wide * TEAMS):
                            rcs = [hx.register_tensor(f32, (half, BM)) for _ in range(2)]
                            multiply(rcs, rings[me], count)
                            done = [silu(rcs[0]) * rcs[1]] if gated else rcs
                            for j, rc in enumerate(done):
                                at = start + past + j * half
                                if weighted:
                                    store_named(rc, scs[me], c, at, named[me], factors[me])
                                elif parts:
                                    store(rc, scs[me], c[first:, item % SPLIT :, at:], 0, 2)
                                else:
                                    store(rc, scs[me], c[first:, at:], 0, 1)

    return w4a16
