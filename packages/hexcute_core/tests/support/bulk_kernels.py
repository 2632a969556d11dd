"""Kernels that say what TMA does beside moving tiles: reductions, cache hints, prefetches."""

import hexcute_core as hx
from hexcute_core import f16, f32, i32

m, n, k, p = hx.dims("m n k p")


def folded(dtype, op, hint=None):
    """y = `op` of y and all blocks of 64 rows of x; each block combines its own."""

    @hx.kernel(cache=False)
    def fold(x: dtype[p, n], y: dtype[64, n], *, BN: int = 64):
        hx.attrs.cuda.grid_dim = hx.cdiv(p, 64), hx.cdiv(n, BN)
        hx.attrs.cuda.block_dim = 128
        bm, bn = hx.blockIdx.x * 64, hx.blockIdx.y * BN
        r, s = hx.register_tensor(dtype, (64, BN)), hx.shared_tensor(dtype, (64, BN))
        hx.copy(hx.global_view(x[bm:, bn:], ((64, BN), (n, 1))), r)
        hx.copy(r, s)
        hx.syncthreads()
        view = hx.global_view(y[:, bn:], ((64, BN), (n, 1)))
        hx.copy(s, view, reduce=op, hint=hint)  # combined

    return fold


@hx.kernel(cache=False)
def accumulated(x: i32[m, k], y: i32[m, 32], *, STAGES: int = 2):
    """y += the blocks of 32 columns of x: slots that TMA filled go to memory by TMA."""
    hx.attrs.cuda.grid_dim = hx.cdiv(m, 64)
    bm, tiles = hx.blockIdx.x * 64, hx.cdiv(k, 32)
    gx = hx.global_view(x[bm:, :], ((64, 32, tiles), (k, 1, 32)))
    gy = hx.global_view(y[bm:, :], ((64, 32), (32, 1)))
    sx, pipe = hx.shared_tensor(i32, (64, 32, STAGES)), hx.pipeline(STAGES)
    with hx.warp_groups_producer():
        for i in range(tiles):
            with pipe.produce() as s:
                hx.copy(gx[:, :, i], sx[:, :, s], hint="evict_first")
    with hx.warp_groups_consumer():
        for _ in range(tiles):
            s = pipe.wait()
            hx.copy(sx[:, :, s], gy, reduce="add")
            hx.sync_role()
            pipe.release()


@hx.kernel(cache=False)
def hinted(a: f16[m, k], b: f16[n, k], c: f16[m, n], *, STAGES: int = 3, CLUSTER: int = 1):
    """c = a b^T: a is read once, b by all; the producer asks for what comes after the ring."""
    hx.attrs.cuda.cluster_dim = CLUSTER
    hx.attrs.cuda.grid_dim = hx.cdiv(m, 64 * CLUSTER) * CLUSTER, hx.cdiv(n, 64)
    bm, bn, tiles = hx.blockIdx.x * 64, hx.blockIdx.y * 64, hx.cdiv(k, 64)
    ga = hx.global_view(a[bm:, :], ((64, 64, tiles), (k, 1, 64)))
    gb = hx.global_view(b[bn:, :], ((64, 64, tiles), (k, 1, 64)))
    sa, sb = hx.shared_tensor(f16, (64, 64, STAGES)), hx.shared_tensor(f16, (64, 64, STAGES))
    sc, pipe = hx.shared_tensor(f16, (64, 64)), hx.pipeline(STAGES)
    with hx.warp_groups_producer():
        for i in range(tiles):
            with pipe.produce() as s:
                hx.copy(ga[:, :, i], sa[:, :, s], hint="evict_first")
                hx.copy(gb[:, :, i], sb[:, :, s], hint="evict_last")
                hx.prefetch(ga[:, :, i + STAGES])
    with hx.warp_groups_consumer():
        rc = hx.register_tensor(f32, (64, 64))
        hx.fill(rc, 0.0)
        for _ in range(tiles):
            with pipe.consume() as s:
                hx.gemm(rc, sa[:, :, s], sb[:, :, s])
        hx.copy(hx.cast(rc, f16), sc)
        hx.sync_role()
        hx.copy(sc, hx.global_view(c[bm:, bn:], ((64, 64), (n, 1))), hint="evict_first")


@hx.kernel(cache=False)
def ahead(x: f16[m, k], y: f16[m, k], *, BM: int = 64, BK: int = 512):
    """y = x + x, a block of rows at a time; while one is read the next comes into L2."""
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 128
    blocks = hx.cdiv(m, BM)
    gx = hx.global_view(x, ((BM, BK, blocks), (k, 1, BM * k)))
    gy = hx.global_view(y, ((BM, BK, blocks), (k, 1, BM * k)))
    r = hx.register_tensor(f16, (BM, BK))
    for i in range(blocks):
        hx.prefetch(gx[:, :, i + 1])
        hx.copy(gx[:, :, i], r, hint="evict_first")
        hx.copy(r + r, gy[:, :, i])
