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
    multiply_exactly,
    multiply_rounded,
    ring,
    rows_ring,
)
from hexcute_kernels.parts.epilogue import silu
from hexcute_kernels.parts.schedule import grouped

t, k, n, rows, width = hx.dims("t k n rows width")
experts, groups, lines, halves, blocks = hx.dims("experts groups lines halves blocks")
pairs, splits = hx.dims("pairs splits")
REGISTERS = {(1, 2): (40, 232), (2, 2): (32, 224), (1, 3): (32, 160), (1, 4): (32, 112)}
"""Of a thread that loads and one that multiplies, by how many groups of each a block has, where it
has a multiprocessor alone."""


@hx.device
def begins(table, item, high, wide, tiles_m, tiles_n, group):
    """The expert of an item of work, its first row and its first column: dense, `group` rows of
    tiles run together; routed, an expert's tiles of the same weights."""
    if table is None:
        row, column = grouped(item, tiles_m, tiles_n, group, high, wide)
        return 0, row, column
    t = item // tiles_n  # A tile of the same expert.
    many, within = table[3, t], item - table[2, t] * tiles_n
    # TMA fetches nothing of an expert that may be before the first.
    return hx.maximum(table[0, t], 0), (table[1, t] + within % many) * high, within // many * wide


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
    factor = hx.register_tensor(f32, gates.shape)
    r = hx.register_tensor(sc.dtype, rc.shape)
    hx.copy(gates, factor)
    hx.copy(hx.cast(rc * factor, sc.dtype), sc)
    hx.sync_role()
    hx.copy(sc, r)
    hx.copy(r, hx.global_view(c[:, column:], (rc.shape, (1, rows))))


@cache
def w4a16_gemm(
    kind: str = "dense", held: Weights = PLAIN, dtype: hx.DType = f16
) -> hx.Kernel:
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
        BLOCKS: int = 1,
        KEPT: int = 0,
        CLUSTER: int = 1,
        ORDERED: bool = False,
        TRITON: str = "",
    ):
        # Two halves of the weights' rows: one is unpacked while the other is multiplied.
        half, block = BN // 2, held.form.block
        wide, apart = (half, n) if gated else (BN, half)
        step = wide * CLUSTER
        across, down = hx.cdiv(n, step * RUN), hx.cdiv(rows if routed else t, BM)
        items, each = across * down * SPLIT, hx.cdiv(groups, SPLIT)
        multiply, total = multiply_exactly if EXACT else multiply_rounded, 2 * n if gated else n
        working = TEAMS * GROUPS
        registers = REGISTERS.get((LOADS, working), (None, None)) if BLOCKS == 1 else (None, None)
        hx.attrs.cuda.cluster_dim = CLUSTER
        if BLOCKS > 1:
            hx.attrs.cuda.grid_dim = items
            hx.attrs.cuda.min_blocks = BLOCKS
        kept = rows_ring(BM, KEPT + min(KEPT, 2), held, dtype) if KEPT else None
        high = 0 if KEPT else BM
        rings = [ring(high, half, STAGES, held, dtype, TRITON) for _ in range(TEAMS)]
        scs = [hx.shared_tensor(f32 if split else dtype, (half, BM)) for _ in range(TEAMS)]
        named = [hx.shared_tensor(i32, (BM,)) for _ in range(TEAMS)] if routed else None
        factors = [hx.shared_tensor(f32, (1, BM)) for _ in range(TEAMS)] if weighted else None
        gathers, mine_of_step = gated and not ORDERED, hx.cluster_rank() * wide

        with hx.warp_groups_producer(LOADS, registers=registers[0]):
            count = used[0] * across if routed else items
            for item in hx.persistent(items):
                if item < count:
                    mine, first, start = begins(
                        table, item // SPLIT, BM, step * RUN, down, across, 16
                    )
                    begin = item % SPLIT * each
                    along = k
                    if gathers:
                        take_numbers(row, first, named[0])
                        along = named[0]
                    rows_of = x[0 if gathers else first :, :]
                    gx = hx.global_view(rows_of, ((BM, block, groups), (along, 1, block)))
                    if KEPT:
                        for i in hx.static_range(KEPT):
                            with kept[1].produce() as s:
                                hx.copy(gx[:, :, i], kept[0][:, :, s])
                    run, much = hx.minimum(RUN * step, n - start), hx.minimum(each, groups - begin)
                    for at in range(0, run, step * TEAMS):
                        for me in hx.static_range(TEAMS):
                            if at + me * step < run:
                                column = start + at + me * step + mine_of_step
                                columns = column, column + apart
                                load_slots(
                                    gx, q, strip, mine, columns, total, begin, much, rings[me]
                                )

        for me in hx.static_range(TEAMS):
            with hx.warp_groups_consumer(GROUPS, registers=registers[1]):
                count = used[0] * across if routed else items
                for item in hx.persistent(items):
                    if item < count:
                        mine, first, start = begins(
                            table, item // SPLIT, BM, step * RUN, down, across, 16
                        )
                        begin = item % SPLIT * each
                        if weighted:
                            take_numbers(row, first, named[me])
                            take_gates(gates, named[me], factors[me])
                        run = hx.minimum(RUN * step, n - start)
                        much = hx.minimum(each, groups - begin)
                        staying = [kept[0][:, :, kept[1].wait()] for _ in range(KEPT)] or None
                        for past in range(me * step, run, step * TEAMS):
                            rcs = [hx.register_tensor(f32, (half, BM)) for _ in range(2)]
                            multiply(rcs, rings[me], much, staying, held.form)
                            done = [silu(rcs[0]) * rcs[1]] if gated else rcs
                            for j, rc in enumerate(done):
                                at = start + past + mine_of_step + j * half
                                if weighted:
                                    store_named(rc, scs[me], c, at, named[me], factors[me])
                                elif split:
                                    store(rc, scs[me], c[first:, item % SPLIT :, at:], 0, 2)
                                else:
                                    store(rc, scs[me], c[first:, at:], 0, 1)
                        for _ in hx.static_range(KEPT):
                            kept[1].release()

    return w4a16
