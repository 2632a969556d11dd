"""c = a b^T on Hopper: one warp group feeds a ring of stages by TMA, the others multiply by wgmma.

SCHEDULE "tile"        a block a tile, whose warp groups split M
         "persistent"  blocks stay and take tile after tile: the next one's loads run under the
                       stores of this one
         "pingpong"    blocks stay, each warp group takes tiles of its own: main loops in turns, so
                       one stores while another multiplies

Each consumer keeps one product in flight: the slot of the previous one is freed when this one has
been issued.
"""

from __future__ import annotations

from functools import cache

import hexcute_core as hx
from hexcute_core import bf16, f32, i32
from hexcute_core.dtypes import DType

m, n, k = hx.dims("m n k")

SCHEDULES = ("tile", "persistent", "pingpong")
PRODUCER = {1: 40, 2: 40, 3: 32}
CONSUMER = {1: 240, 2: 232, 3: 160}
"""Registers a thread by the number of consumer groups: together at most 65536."""


def output_type(dtype: DType) -> DType:
    """What a product of `dtype` is written as where nothing else is asked for."""
    if dtype.is_integer:
        return i32
    return {16: dtype, 8: bf16, 32: f32}[dtype.bits]


@hx.device
def place(tile, rows, columns, group, cluster_m, cluster_n):
    """Row and column, in tiles of c, of this block's part of cluster tile `tile`: `group` rows of
    clusters run together, one column after another."""
    first = tile // (group * columns) * group
    height = hx.minimum(rows - first, group)
    number, rank = tile % (group * columns), hx.cluster_rank()
    row = (first + number % height) * cluster_m + rank % cluster_m
    return row, number // height * cluster_n + rank // cluster_m % cluster_n


@hx.device
def multiply(rc, sa, sb, pipe, tiles_k):
    """rc[:, :, p] += the products of `tiles_k` slots with part p of b; the last may be running."""
    width, parts = rc.shape[1:]
    for i in range(tiles_k):
        s = pipe.wait()
        for p in hx.static_range(parts):
            part = sb[p * width : (p + 1) * width, :, s]
            hx.gemm(rc[:, :, p], sa[:, :, s], part, asynchronous=True)
        if i > 0:
            hx.wait_gemm(parts)
            pipe.release()


@hx.device
def store(rc, c, bm, bn, sc):
    """The tile of c at (bm, bn) through `sc`, a part at a time."""
    rows, width = sc.shape
    for p in hx.static_range(rc.shape[2]):
        if p > 0:
            hx.sync_role()
        hx.copy(hx.cast(rc[:, :, p], sc.dtype), sc)
        hx.sync_role()
        hx.copy(sc, hx.global_view(c[bm:, bn + p * width :], ((rows, width), (n, 1))))


@cache
def hopper_gemm(
    dtype: DType, a_major: str = "k", b_major: str = "k", out: DType | None = None
) -> hx.Kernel:
    """The kernel for operands of `dtype` stored K-major (`a[m, k]`, `b[n, k]`), or for 16-bit ones
    also not (`a[k, m]` for "m", `b[k, n]` for "n"); c is `out`, else `output_type(dtype)`.

    Its constants: tile BM x BN x BK, STAGES of shared memory, CONSUMERS warp groups that multiply,
    SCHEDULE as above. GROUP rows of clusters run together, each of CLUSTER_M x CLUSTER_N blocks,
    one of them 1, which share what they load alike. PARTS of BN are multiplied and stored apart,
    with so much less shared memory for c.
    """
    a_type = dtype[m, k] if a_major == "k" else dtype[k, m]
    b_type = dtype[n, k] if b_major == "k" else dtype[k, n]
    c_type = out or output_type(dtype)
    total = i32 if dtype.is_integer else f32
    line = 1024 // dtype.bits

    @hx.kernel
    def gemm(
        a: a_type,
        b: b_type,
        c: c_type[m, n],
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
    ):
        assert SCHEDULE in SCHEDULES, "SCHEDULE is tile, persistent or pingpong"
        assert SCHEDULE != "pingpong" or CONSUMERS > 1, "ping-pong takes two CONSUMERS or more"
        assert BN % PARTS == 0, "PARTS divide BN"
        stays = SCHEDULE != "tile"
        teams = CONSUMERS if SCHEDULE == "pingpong" else 1
        rows, columns = hx.cdiv(m, BM * CLUSTER_M), hx.cdiv(n, BN * CLUSTER_N)
        tiles, tiles_k = rows * columns, hx.cdiv(k, BK)
        hx.attrs.cuda.block_dim = 128 * (CONSUMERS + 1)
        hx.attrs.cuda.cluster_dim = CLUSTER_M * CLUSTER_N
        if not stays:
            hx.attrs.cuda.grid_dim = tiles * CLUSTER_M * CLUSTER_N
        own = (hx.blockIdx.x // (CLUSTER_M * CLUSTER_N),)
        sa = hx.shared_tensor(dtype, (BM, BK, STAGES))
        sb = hx.shared_tensor(dtype, (BN, BK, STAGES))
        pipe = hx.pipeline(STAGES, readers="one")
        if teams > 1:
            order = hx.turns(teams)

        with hx.warp_groups_producer(registers=PRODUCER[CONSUMERS]):
            for tile in hx.persistent(tiles) if stays else own:
                row, column = place(tile, rows, columns, GROUP, CLUSTER_M, CLUSTER_N)
                bm, bn = row * BM, column * BN
                if a_major == "k":
                    ga = hx.global_view(a[bm:, :], ((BM, BK, tiles_k), (k, 1, BK)))
                else:
                    ga = hx.global_view(a[:, bm:], ((BM, BK, tiles_k), (1, m, BK * m)))
                if b_major == "k":
                    gb = hx.global_view(b[bn:, :], ((BN, BK, tiles_k), (k, 1, BK)))
                else:
                    gb = hx.global_view(b[:, bn:], ((BN, BK, tiles_k), (1, n, BK * n)))
                for i in range(tiles_k):
                    with pipe.produce() as s:
                        hx.copy(ga[:, :, i], sa[:, :, s])
                        hx.copy(gb[:, :, i], sb[:, :, s])

        for me in hx.static_range(teams):
            sc = hx.shared_tensor(c_type, (BM, BN // PARTS))
            with hx.warp_groups_consumer(CONSUMERS // teams, registers=CONSUMER[CONSUMERS]):
                turn = 0
                for tile in hx.persistent(tiles) if stays else own:
                    if turn == me:
                        rc = hx.register_tensor(total, (BM, BN // PARTS, PARTS))
                        hx.fill(rc, 0)
                        if teams > 1:
                            with order.turn(me):
                                multiply(rc, sa, sb, pipe, tiles_k)
                        else:
                            multiply(rc, sa, sb, pipe, tiles_k)
                        hx.wait_gemm(0)
                        if stays:
                            if tiles_k > 0:
                                pipe.release()
                            if teams == 1:  # In turns, the turn's barrier has done it.
                                hx.sync_role()  # The last tile has left sc.
                        row, column = place(tile, rows, columns, GROUP, CLUSTER_M, CLUSTER_N)
                        store(rc, c, row * BM, column * BN, sc)
                    else:
                        pipe.skip(tiles_k)
                    turn = (turn + 1) % teams

    return gemm
