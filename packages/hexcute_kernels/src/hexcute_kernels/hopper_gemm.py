"""c = a b^T on Hopper: one warp group feeds a ring of stages by TMA, the others multiply by wgmma.

Each consumer keeps one product in flight: the slot of the previous one is freed when this one has
been issued.
"""

from __future__ import annotations

from functools import cache

import hexcute_core as hx
from hexcute_core import bf16, f32, i32
from hexcute_core.dtypes import DType

m, n, k = hx.dims("m n k")

PRODUCER = {1: 40, 2: 40, 3: 32}
CONSUMER = {1: 240, 2: 232, 3: 160}
"""Registers a thread by the number of consumer groups: together at most 65536."""


def output_type(dtype: DType) -> DType:
    """What a product of `dtype` is written as where nothing else is asked for."""
    if dtype.is_integer:
        return i32
    return {16: dtype, 8: bf16, 32: f32}[dtype.bits]


@cache
def hopper_gemm(
    dtype: DType, a_major: str = "k", b_major: str = "k", out: DType | None = None
) -> hx.Kernel:
    """The kernel for operands of `dtype` stored K-major (`a[m, k]`, `b[n, k]`), or for 16-bit ones
    also not (`a[k, m]` for "m", `b[k, n]` for "n"); c is `out`, else `output_type(dtype)`. Its
    constants: block tile BM x BN x BK, STAGES of shared memory, CONSUMERS warp groups that split
    M, GROUP rows of blocks that run together."""
    a_type = dtype[m, k] if a_major == "k" else dtype[k, m]
    b_type = dtype[n, k] if b_major == "k" else dtype[k, n]
    c_type = out or output_type(dtype)
    total = i32 if dtype.is_integer else f32
    row = 1024 // dtype.bits

    @hx.kernel
    def gemm(
        a: a_type,
        b: b_type,
        c: c_type[m, n],
        *,
        BM: int = 128,
        BN: int = 256,
        BK: int = row,
        STAGES: int = 4,
        CONSUMERS: int = 2,
        GROUP: int = 8,
    ):
        tiles_m, tiles_n, tiles_k = hx.cdiv(m, BM), hx.cdiv(n, BN), hx.cdiv(k, BK)
        hx.attrs.cuda.grid_dim = tiles_m * tiles_n
        hx.attrs.cuda.block_dim = 128 * (CONSUMERS + 1)
        first = hx.blockIdx.x // (GROUP * tiles_n) * GROUP
        rows = hx.minimum(tiles_m - first, GROUP)
        place = hx.blockIdx.x % (GROUP * tiles_n)
        bm, bn = (first + place % rows) * BM, place // rows * BN
        if a_major == "k":
            ga = hx.global_view(a[bm:, :], ((BM, BK, tiles_k), (k, 1, BK)))
        else:
            ga = hx.global_view(a[:, bm:], ((BM, BK, tiles_k), (1, m, BK * m)))
        if b_major == "k":
            gb = hx.global_view(b[bn:, :], ((BN, BK, tiles_k), (k, 1, BK)))
        else:
            gb = hx.global_view(b[:, bn:], ((BN, BK, tiles_k), (1, n, BK * n)))
        gc = hx.global_view(c[bm:, bn:], ((BM, BN), (n, 1)))
        sa = hx.shared_tensor(dtype, (BM, BK, STAGES))
        sb = hx.shared_tensor(dtype, (BN, BK, STAGES))
        sc = hx.shared_tensor(c_type, (BM, BN))
        pipe = hx.pipeline(STAGES)

        with hx.warp_groups_producer(registers=PRODUCER[CONSUMERS]):
            for i in range(tiles_k):
                with pipe.produce() as s:
                    hx.copy(ga[:, :, i], sa[:, :, s])
                    hx.copy(gb[:, :, i], sb[:, :, s])

        with hx.warp_groups_consumer(CONSUMERS, registers=CONSUMER[CONSUMERS]):
            rc = hx.register_tensor(total, (BM, BN))
            hx.fill(rc, 0)
            for i in range(tiles_k):
                s = pipe.wait()
                hx.gemm(rc, sa[:, :, s], sb[:, :, s], asynchronous=True)
                if i > 0:
                    hx.wait_gemm(1)
                    pipe.release()
            hx.wait_gemm(0)
            hx.copy(hx.cast(rc, c_type), sc)
            hx.sync_role()
            hx.copy(sc, gc)

    return gemm
