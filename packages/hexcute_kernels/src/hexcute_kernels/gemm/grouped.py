"""c = a b^T on Hopper where rows of a belong to experts, each with a matrix b of its own.

    c[i, j] = sum over k of  a[i, k] b[e, j, k]      for the rows i of expert e

Which rows those are is on the device; `groups.place` cuts them into tiles. Blocks stay and take
tile after tile. Each warp group has rows of its own in a tile, which it stores by itself; where an
expert has none of them, it passes the slots on, and the others multiply so much faster.
"""

from __future__ import annotations

from functools import cache

import hexcute_core as hx
from hexcute_core import f32, i32
from hexcute_kernels.gemm.parameters import k, m, n
from hexcute_kernels.gemm.warp_specialized import CONSUMER, PRODUCER
from hexcute_kernels.parts.groups import begins, store_between
from hexcute_kernels.parts.mainloop import multiply_slots
from hexcute_kernels.parts.operands import k_tiles, matrix, operand_type
from hexcute_kernels.parts.schedule import await_launch_ahead, grouped

experts, blocks = hx.dims("experts blocks")


@cache
def grouped_gemm(dtype: hx.DType) -> hx.Kernel:
    """The kernel for a[m, k], b[experts, n, k] and c[m, n] of `dtype`, and the table and the number
    of tiles that `groups.place` made of tiles of BM rows. Rows of no expert are not written.

    Its constants are those of `GroupedConfig`.
    """
    b_type = operand_type(dtype, n, k, "k", experts)
    a_type, c_type = operand_type(dtype, m, k, "k"), operand_type(dtype, m, n, "k")

    @hx.kernel
    def gemm(
        a: a_type,
        b: b_type,
        table: i32[4, blocks],
        used: i32[1],
        c: c_type,
        *,
        BM: int = 128,
        BN: int = 256,
        BK: int = 64,
        STAGES: int = 4,
        CONSUMERS: int = 2,
        GROUP: int = 8,
        PARTS: int = 2,
    ):
        assert BN % PARTS == 0, "PARTS divide BN"
        tiles_n, tiles_k = hx.cdiv(n, BN), hx.cdiv(k, BK)
        high, width = BM // CONSUMERS, BN // PARTS
        hx.attrs.cuda.block_dim = 128 * (CONSUMERS + 1)
        sa = hx.shared_tensor(dtype, (BM, BK, STAGES))
        sb = hx.shared_tensor(dtype, (BN, BK, STAGES))
        pipe = hx.pipeline(STAGES)
        await_launch_ahead()

        with hx.warp_groups_producer(registers=PRODUCER[CONSUMERS]):
            count = used[0]
            for tile in hx.persistent(blocks * tiles_n):
                if tile < count * tiles_n:
                    t, bn = grouped(tile, count, tiles_n, GROUP, 1, BN)
                    bm, expert, _ = begins(table, t, BM)
                    ga = k_tiles(a, "k", bm, BM, BK)
                    gb = k_tiles(matrix(b, expert), "k", bn, BN, BK)
                    for i in range(tiles_k):
                        with pipe.produce() as s:
                            hx.copy(ga[:, :, i], sa[:, :, s])
                            hx.copy(gb[:, :, i], sb[:, :, s])

        for me in hx.static_range(CONSUMERS):
            sc, numbers = hx.shared_tensor(dtype, (high, width)), hx.shared_tensor(i32, (high,))
            with hx.warp_groups_consumer(1, registers=CONSUMER[CONSUMERS]):
                count = used[0]
                for tile in hx.persistent(blocks * tiles_n):
                    if tile < count * tiles_n:
                        t, bn = grouped(tile, count, tiles_n, GROUP, 1, BN)
                        # Before the products: numbers from memory take a while.
                        bm, _, (first, last) = begins(table, t, BM)
                        start = bm + me * high
                        if start < last:
                            rc = hx.register_tensor(f32, (high, BN))
                            hx.fill(rc, 0)
                            multiply_slots(rc, sa, sb, pipe, tiles_k, me * high)
                            hx.wait_gemm(0)
                            if tiles_k > 0:
                                pipe.release()
                            cut = hx.reshape(rc, (high, PARTS, width))
                            for p in hx.static_range(PARTS):
                                hx.sync_role()  # What was stored before has left sc.
                                hx.copy(hx.cast(cut[:, p, :], dtype), sc)
                                hx.sync_role()
                                store_between(sc, c, start, bn + p * width, first, last, numbers)
                        else:
                            for _ in range(tiles_k):
                                pipe.wait()
                                pipe.release()

    return gemm
