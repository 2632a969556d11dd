"""c = a b^T on Hopper: one warp group feeds a ring of stages by TMA, the others multiply by wgmma.

SCHEDULE "tile"        a block per tile, whose warp groups split M
         "persistent"  blocks stay and take tile after tile: the next one's loads run under the
                       stores of this one
         "behind"      the same, but a tile's results are kept in registers and stored, PARTS of
                       them, each under one of the next tile's first products
         "apart"       blocks stay, each warp group with rows of its own, which it stores by itself:
                       the others multiply meanwhile, as far ahead as there are slots
         "pingpong"    blocks stay, each warp group takes tiles of its own: main loops in turns, so
                       one stores while another multiplies

Each consumer keeps one product in flight: the slot of the previous one is freed when this one has
been issued.
"""

from __future__ import annotations

from functools import cache

import hexcute_core as hx
from hexcute_core import bf16, f32, i32
from hexcute_kernels.gemm.parameters import ROOM, batch, k, m, n, types
from hexcute_kernels.parts.behind import multiply_and_store, store_held
from hexcute_kernels.parts.epilogue import ACTIVATIONS, added, bias_of, store_by_role
from hexcute_kernels.parts.mainloop import multiply_bias, multiply_slots
from hexcute_kernels.parts.operands import k_tiles, matrix
from hexcute_kernels.parts.schedule import await_launch_ahead, in_clusters, split_batch

SCHEDULES = ("tile", "persistent", "behind", "apart", "pingpong")
PRODUCER = {1: 40, 2: 40, 3: 32}
CONSUMER = {1: 240, 2: 232, 3: 160}
"""Registers a thread by the number of consumer groups: together at most 65536."""
STEP = 16
"""How many k a bias takes that is one more step of the products."""


def output_type(dtype: hx.DType) -> hx.DType:
    """What a product of `dtype` is written as where nothing else is asked for."""
    if dtype.is_integer:
        return i32
    return {16: dtype, 8: bf16, 32: f32}[dtype.bits]


@cache
def warp_specialized_gemm(
    dtype: hx.DType,
    a_major: str = "k",
    b_major: str = "k",
    out: hx.DType | None = None,
    *,
    bias: bool = False,
    activation: str | None = None,
    batched: bool = False,
    row: bool = False,
) -> hx.Kernel:
    """The kernel for operands of `dtype` stored K-major (`a[m, k]`, `b[n, k]`), or for 16-bit ones
    also not (`a[k, m]` for "m", `b[k, n]` for "n"); c, of type `out`, else `output_type(dtype)`,
    is the activation of the product plus `bias[n]`. `batched`, all but the bias have an extent of
    the batch in front. With `row`, the bias is `bias[1, n]`, a row that TMA can read: where it can,
    a block that stays adds it as one more step of the products, of ones and it.

    Its constants are those of `WgmmaConfig`; of CLUSTER_M and CLUSTER_N one is 1. PARTS of BN are
    stored one after the other, with so much less shared memory for c. With SWAP, a tile's rows are
    rows of b.
    """
    c_dtype = out or output_type(dtype)
    given = types(dtype, c_dtype, a_major, b_major, bias, batched)
    row = row and bias
    if row:
        given = given._replace(bias=c_dtype[1, n])
    activate = ACTIVATIONS[activation]
    total = i32 if dtype.is_integer else f32
    line = 1024 // dtype.bits

    @hx.kernel
    def gemm(
        a: given.a,
        b: given.b,
        bias: given.bias,
        c: given.c,
        *,
        BM: int = 128,
        BN: int = 256,
        BK: int = line,
        STAGES: int = 4,
        CONSUMERS: int = 2,
        GROUP: int = 8,
        CLUSTER_M: int = 1,
        CLUSTER_N: int = 1,
        PARTS: int = 1,
        SCHEDULE: str = "tile",
        EARLY: bool = False,
        SWAP: bool = False,
    ):
        assert SCHEDULE in SCHEDULES, "SCHEDULE is tile, persistent, behind, apart or pingpong"
        assert SCHEDULE != "pingpong" or CONSUMERS > 1, "ping-pong takes two CONSUMERS or more"
        assert BN % PARTS == 0, "PARTS divide BN"
        stays, apart, behind = SCHEDULE != "tile", SCHEDULE == "apart", SCHEDULE == "behind"
        teams = CONSUMERS if SCHEDULE in ("apart", "pingpong") else 1
        high = BM // CONSUMERS if apart else BM
        x, y, x_major, y_major = (b, a, b_major, a_major) if SWAP else (a, b, a_major, b_major)
        rows = hx.cdiv(n if SWAP else m, BM * CLUSTER_M)
        columns = hx.cdiv(m if SWAP else n, BN * CLUSTER_N)
        placed = (rows, columns, GROUP, BM, BN, CLUSTER_M, CLUSTER_N)
        each, tiles_k = rows * columns, hx.cdiv(k, BK)
        tiles = each * batch if batched else each
        hx.attrs.cuda.block_dim = 128 * (CONSUMERS + 1)
        hx.attrs.cuda.cluster_dim = CLUSTER_M * CLUSTER_N
        if not stays:
            hx.attrs.cuda.grid_dim = tiles * CLUSTER_M * CLUSTER_N
        own = (hx.blockIdx.x // (CLUSTER_M * CLUSTER_N),)
        sa = hx.shared_tensor(dtype, (BM, BK, STAGES))
        sb = hx.shared_tensor(dtype, (BN, BK, STAGES))
        pipe = hx.pipeline(STAGES, readers="all" if apart else "one")
        flat = bias[0] if row else bias
        taken = (STAGES * (BM + BN) * BK + BM * BN // PARTS + 2 * BN * STEP) * dtype.bits // 8
        step = row and SCHEDULE in ("persistent", "behind") and not SWAP and taken <= ROOM
        first = step and c_dtype == dtype and dtype.bits == 16
        if first:
            biases, ones = hx.pipeline(2), hx.register_tensor(dtype, (BM, STEP))
            s_bias = hx.shared_tensor(dtype, (BN, STEP, 2))
        if SCHEDULE == "pingpong":
            order = hx.turns(teams)
        if EARLY:
            await_launch_ahead()

        with hx.warp_groups_producer(registers=PRODUCER[CONSUMERS]):
            for tile in hx.persistent(tiles, even=True) if stays else own:
                at, part = split_batch(tile, each, batched)
                bm, bn = in_clusters(part, *placed)
                gx = k_tiles(matrix(x, at), x_major, bm, BM, BK)
                gy = k_tiles(matrix(y, at), y_major, bn, BN, BK)
                if first:
                    with biases.produce() as s:
                        gz = k_tiles(bias, "n", bn, BN, STEP)
                        hx.copy(gz[:, :, 0], s_bias[:, :, s])
                for i in range(tiles_k):
                    with pipe.produce() as s:
                        hx.copy(gx[:, :, i], sa[:, :, s])
                        hx.copy(gy[:, :, i], sb[:, :, s])

        for me in hx.static_range(teams):
            start = me * high if apart else 0
            sc = hx.shared_tensor(c_dtype, (BN // PARTS, high) if SWAP else (high, BN // PARTS))
            with hx.warp_groups_consumer(CONSUMERS // teams, registers=CONSUMER[CONSUMERS]):
                if first:
                    hx.fill(ones, 1)
                if behind and tiles_k >= PARTS:  # With fewer, as "persistent".
                    held = hx.register_tensor(c_dtype, (BM, BN))
                    hx.fill(held, 0)
                    some, index, top, left = 0, 0, 0, 0
                    for tile in hx.persistent(tiles, even=True):
                        rc = hx.register_tensor(total, (BM, BN))
                        if first:
                            multiply_bias(rc, ones, s_bias, biases)
                        at, part = split_batch(tile, each, batched)
                        to = matrix(c, index), top, left, sc, SWAP
                        top, left = multiply_and_store(
                            rc, sa, sb, pipe, tiles_k, first, held, PARTS, some, to, part, placed
                        )
                        if first:
                            biases.release()
                        along = (top, 0) if SWAP else (left, 1)
                        rb = None if first else bias_of(flat, along[0], (BM, BN), along[1])
                        hx.copy(hx.cast(added(rc, rb, activate), c_dtype), held)
                        some, index = 1, at if batched else 0
                    if some > 0:
                        for p in hx.static_range(PARTS):
                            store_held(held, p, PARTS, matrix(c, index), top, left, sc, SWAP)
                else:
                    turn = 0
                    for tile in hx.persistent(tiles, even=True) if stays else own:
                        if SCHEDULE != "pingpong" or turn == me:
                            rc = hx.register_tensor(total, (high, BN))
                            if first:
                                multiply_bias(rc, ones, s_bias, biases)
                            # Before the products: divisions and a bias, which nothing would hide.
                            at, part = split_batch(tile, each, batched)
                            bm, bn = in_clusters(part, *placed)
                            along = (bm + start, 0) if SWAP else (bn, 1)
                            rb = None if first else bias_of(flat, along[0], (high, BN), along[1])
                            if not first:
                                hx.fill(rc, 0)
                            if SCHEDULE == "pingpong":
                                with order.turn(me):
                                    multiply_slots(rc, sa, sb, pipe, tiles_k)
                                    hx.wait_gemm(0)
                            else:
                                multiply_slots(rc, sa, sb, pipe, tiles_k, start)
                            hx.wait_gemm(0)
                            if first:
                                biases.release()
                            if stays:
                                if tiles_k > 0:
                                    pipe.release()
                                if SCHEDULE != "pingpong":  # In turns, their barrier has done it.
                                    hx.sync_role()  # The last tile has left sc.
                            place = matrix(c, at), bm + start, bn
                            store_by_role(rc, *place, sc, PARTS, rb, activate, SWAP)
                        else:
                            pipe.skip(tiles_k)
                        turn = (turn + 1) % teams

    return gemm
