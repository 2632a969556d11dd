"""Kernels whose timelines are looked at: of every activity, by roles and without."""

from __future__ import annotations

import hexcute_core as hx
from hexcute_core import f16, f32

m, n, k = hx.dims("m n k")
BM, BN, BK, STAGES = 64, 64, 64, 2


@hx.kernel(cache=False)
def by_roles(a: f16[m, k], b: f16[n, k], c: f16[m, n]):
    hx.attrs.cuda.grid_dim = hx.cdiv(m, BM), hx.cdiv(n, BN)
    bm, bn, tiles = hx.blockIdx.x * BM, hx.blockIdx.y * BN, hx.cdiv(k, BK)
    ga = hx.global_view(a[bm:, :], ((BM, BK, tiles), (k, 1, BK)))
    gb = hx.global_view(b[bn:, :], ((BN, BK, tiles), (k, 1, BK)))
    sa, sb = hx.shared_tensor(f16, (BM, BK, STAGES)), hx.shared_tensor(f16, (BN, BK, STAGES))
    pipe = hx.pipeline(STAGES)
    with hx.warp_groups_producer():
        for i in range(tiles):
            with pipe.produce() as s:
                hx.copy(ga[:, :, i], sa[:, :, s])
                hx.copy(gb[:, :, i], sb[:, :, s])
    with hx.warp_groups_consumer(1):
        rc = hx.register_tensor(f32, (BM, BN))
        hx.fill(rc, 0.0)
        for _ in range(tiles):
            with pipe.consume() as s:
                hx.gemm(rc, sa[:, :, s], sb[:, :, s])
        hx.copy(hx.cast(rc, f16), hx.global_view(c[bm:, bn:], ((BM, BN), (n, 1))))


@hx.kernel(cache=False)
def in_step(a: f16[m, k], b: f16[n, k], c: f16[m, n]):
    hx.attrs.cuda.grid_dim = hx.cdiv(m, BM), hx.cdiv(n, BN)
    hx.attrs.cuda.block_dim = 128
    bm, bn, tiles = hx.blockIdx.x * BM, hx.blockIdx.y * BN, hx.cdiv(k, BK)
    ga = hx.global_view(a[bm:, :], ((BM, BK, tiles), (k, 1, BK)))
    gb = hx.global_view(b[bn:, :], ((BN, BK, tiles), (k, 1, BK)))
    sa, sb = hx.shared_tensor(f16, (BM, BK)), hx.shared_tensor(f16, (BN, BK))
    rc = hx.register_tensor(f32, (BM, BN))
    hx.fill(rc, 0.0)
    for i in range(tiles):
        hx.copy(ga[:, :, i], sa)
        hx.copy(gb[:, :, i], sb)
        hx.syncthreads()
        ra, rb = hx.register_tensor(f16, (BM, BK)), hx.register_tensor(f16, (BN, BK))
        hx.copy(sa, ra)
        hx.copy(sb, rb)
        hx.gemm(rc, ra, rb)
        hx.syncthreads()
    hx.copy(hx.cast(rc, f16), hx.global_view(c[bm:, bn:], ((BM, BN), (n, 1))))


KERNELS = {"by_roles": (by_roles, "sm_90"), "in_step": (in_step, "sm_80")}
