"""c = a b^T on Hopper where rows of a belong to experts, each with a matrix b of its own.

    c[i, j] = sum over k of  a[i, k] b[e, j, k]      for the rows i of expert e

Which rows those are is on the device; `groups.place` says which tiles are whose. Blocks stay and
take tile after tile, an expert's one after the other, so that those which run together have its
matrix in common: the next one that none has taken, by a counter, for not all take as long. Each
warp group has 64 rows of a tile, which it stores by itself. The last tile of an expert ends with
it: it begins earlier and has rows of the tile before once more, with the same results. Where fewer
are left than all groups have, the others pass the slots on.
"""

from __future__ import annotations

from functools import cache

import hexcute_core as hx
from hexcute_core import f32, i32
from hexcute_kernels.gemm.parameters import k, m, n
from hexcute_kernels.gemm.warp_specialized import CONSUMER, PRODUCER
from hexcute_kernels.parts.groups import store_between
from hexcute_kernels.parts.mainloop import multiply_slots
from hexcute_kernels.parts.operands import k_tiles, matrix, operand_type
from hexcute_kernels.parts.schedule import await_launch_ahead, placed

experts, blocks = hx.dims("experts blocks")
HIGH = 64
"""Rows of a tile that a warp group has."""


@hx.device
def place_of(tile, table, tiles_n, group, high):
    """Of tile number `tile` of `high` rows: its expert, the first row and the end of that one, the
    row where it begins, and its number among those side by side."""
    t = tile // tiles_n  # A tile of the same expert.
    first, last = table[2, t], table[3, t]
    many = hx.cdiv(last - first, high)
    row, column = placed(tile - table[1, t] * tiles_n, many, tiles_n, group)
    start = first + row * high
    left = hx.minimum(hx.cdiv(last - start, HIGH) * HIGH, high)
    start = hx.maximum(hx.minimum(start, last - left), first)
    # TMA stores nothing that may begin before a tensor.
    return hx.maximum(table[0, t], 0), (first, last), start, column


@cache
def grouped_gemm(dtype: hx.DType) -> hx.Kernel:
    """The kernel for a[m, k], b[experts, n, k] and c[m, n] of `dtype`, and the table and what
    `groups.place` says of it for tiles of BM rows. Rows of no expert are not written.

    Its constants are those of `GroupedConfig`.
    """
    b_type = operand_type(dtype, n, k, "k", experts)
    a_type, c_type = operand_type(dtype, m, k, "k"), operand_type(dtype, m, n, "k")

    @hx.kernel
    def gemm(
        a: a_type,
        b: b_type,
        table: i32[4, blocks],
        used: i32[2],
        c: c_type,
        *,
        BM: int = 128,
        BN: int = 256,
        BK: int = 64,
        STAGES: int = 3,
        CONSUMERS: int = 2,
        GROUP: int = 8,
        PARTS: int = 1,
        CLUSTER_N: int = 1,
    ):
        assert BN % PARTS == 0 and BM == CONSUMERS * HIGH, "a group has 64 rows, PARTS divide BN"
        wide = BN * CLUSTER_N
        tiles_n, tiles_k = hx.cdiv(n, wide), hx.cdiv(k, BK)
        hx.attrs.cuda.block_dim = 128 * (CONSUMERS + 1)
        hx.attrs.cuda.cluster_dim = CLUSTER_N
        width, aside = BN // PARTS, hx.cluster_rank() * BN
        sa = hx.shared_tensor(dtype, (BM, BK, STAGES))
        sb = hx.shared_tensor(dtype, (BN, BK, STAGES))
        pipe, told = hx.pipeline(STAGES), hx.pipeline(2)
        places, numbers = hx.shared_tensor(i32, (4, 2)), hx.shared_tensor(i32, (BM,))
        await_launch_ahead()

        with hx.warp_groups_producer(registers=PRODUCER[CONSUMERS]):
            every = hx.persistent(blocks * tiles_n)
            tile, total = every.start, used[0] * tiles_n
            while tile < total:
                expert, rows, bm, column = place_of(tile, table, tiles_n, GROUP, BM)
                with told.produce() as t:
                    for i, number in enumerate((*rows, bm, column)):
                        hx.fill(places[i : i + 1, t], number)
                bn = column * wide
                ga = k_tiles(a, "k", bm, BM, BK)
                gb = k_tiles(matrix(b, expert), "k", bn + aside, BN, BK)
                for i in range(tiles_k):
                    with pipe.produce() as s:
                        hx.copy(ga[:, :, i], sa[:, :, s])
                        hx.copy(gb[:, :, i], sb[:, :, s])
                # The blocks of a cluster have the same tile.
                taken = hx.atomic_add(used, (1,), 1) if CLUSTER_N == 1 else tile
                tile = every.step + taken
            with told.produce() as t:
                for i in hx.static_range(4):
                    hx.fill(places[i : i + 1, t], -1)

        for me in hx.static_range(CONSUMERS):
            sc = hx.shared_tensor(dtype, (HIGH, width))
            with hx.warp_groups_consumer(1, registers=CONSUMER[CONSUMERS]):
                column = 0
                while column >= 0:
                    with told.consume() as t:
                        first, last, bm, column = [
                            hx.number(places[i : i + 1, t]) for i in range(4)
                        ]
                    start, bn = bm + me * HIGH, column * wide
                    if column >= 0:
                        if start < last:
                            rc = hx.register_tensor(f32, (HIGH, BN))
                            hx.fill(rc, 0)
                            multiply_slots(rc, sa, sb, pipe, tiles_k, me * HIGH)
                            hx.wait_gemm(0)
                            if tiles_k > 0:
                                pipe.release()
                            cut = hx.reshape(rc, (HIGH, PARTS, width))
                            for p in hx.static_range(PARTS):
                                hx.sync_role()  # What was stored before has left sc.
                                hx.copy(hx.cast(cut[:, p, :], dtype), sc)
                                hx.sync_role()
                                at, mine = bn + aside + p * width, numbers[me * HIGH :][:HIGH]
                                store_between(sc, c, start, at, first, last, mine)
                        else:
                            for _ in range(tiles_k):
                                pipe.wait()
                                hx.sync_role()  # One warp frees the slot for all.
                                pipe.release()

    return gemm
