"""Kernels whose blocks reach into the shared memory of others of their cluster."""

import hexcute_core as hx
from hexcute_core import f16, f32, i32

m, n, k = hx.dims("m n k")
ROWS, COLUMNS = 32, 64


def summed(dtype, total):
    """y[i] = the sum of row i, of which every block of a cluster of X adds up a part: each reads
    the sums of all others."""

    @hx.kernel(cache=False)
    def row_sums(x: dtype[m, n], y: total[m, 1], *, X: int = 2):
        hx.attrs.cuda.cluster_dim = X
        hx.attrs.cuda.grid_dim = X, hx.cdiv(m, ROWS)
        hx.attrs.cuda.block_dim = 128
        rank, row = hx.cluster_rank(), hx.blockIdx.y * ROWS
        mine = hx.register_tensor(total, (ROWS, 1))
        hx.fill(mine, 0)
        for i in range(hx.cdiv(n, X * COLUMNS)):
            r = hx.register_tensor(dtype, (ROWS, COLUMNS))
            column = (i * X + rank) * COLUMNS
            hx.copy(hx.global_view(x[row:, column:], ((ROWS, COLUMNS), (n, 1))), r)
            mine += hx.sum(hx.cast(r, total), 1)
        part = hx.shared_tensor(total, (ROWS, 1))
        hx.copy(mine, part)
        hx.cluster_sync()
        whole = hx.register_tensor(total, (ROWS, 1))
        hx.fill(whole, 0)
        for block in range(X):
            theirs = hx.register_tensor(total, (ROWS, 1))
            hx.copy(hx.remote(part, block), theirs)
            whole += theirs
        hx.cluster_sync()
        if rank == 0:
            hx.copy(whole, hx.global_view(y[row:, :], ((ROWS, 1), (1, 1))))

    return row_sums


def exchanged(dtype):
    """y = x with its two halves of 64 columns swapped: each block of two pushes what it loaded
    into the other."""

    @hx.kernel(cache=False)
    def swap(x: dtype[m, n], y: dtype[m, 2 * COLUMNS]):
        hx.attrs.cuda.cluster_dim = 2
        hx.attrs.cuda.grid_dim = 2, hx.cdiv(m, ROWS)
        hx.attrs.cuda.block_dim = 64
        rank, row = hx.cluster_rank(), hx.blockIdx.y * ROWS
        column = rank * COLUMNS
        here = hx.shared_tensor(dtype, (ROWS, COLUMNS))
        r = hx.register_tensor(dtype, (ROWS, COLUMNS))
        hx.copy(hx.global_view(x[row:, column:], ((ROWS, COLUMNS), (n, 1))), r)
        hx.cluster_sync()
        hx.copy(r, hx.remote(here, 1 - rank))
        hx.cluster_sync()
        hx.copy(here, r)
        hx.copy(r, hx.global_view(y[row:, column:], ((ROWS, COLUMNS), (2 * COLUMNS, 1))))

    return swap


@hx.kernel(cache=False)
def ring(x: i32[m, 1], y: i32[m, 1], *, X: int = 4):
    """Every block's y is the sum of the cluster's x, passed from block to block in a ring."""
    hx.attrs.cuda.cluster_dim = X
    hx.attrs.cuda.grid_dim = hx.cdiv(m, ROWS * X) * X
    hx.attrs.cuda.block_dim = 64
    row = hx.blockIdx.x * ROWS
    following = (hx.cluster_rank() + 1) % X
    slots = hx.shared_tensor(i32, (ROWS, 1, 2))
    passed = hx.register_tensor(i32, (ROWS, 1))
    hx.copy(hx.global_view(x[row:, :], ((ROWS, 1), (1, 1))), passed)
    whole = passed * 1
    hx.cluster_sync()
    for step in range(X - 1):
        hx.copy(passed, hx.remote(slots, following)[:, :, step % 2])
        hx.cluster_sync()
        hx.copy(slots[:, :, step % 2], passed)
        whole += passed
    hx.copy(whole, hx.global_view(y[row:, :], ((ROWS, 1), (1, 1))))


@hx.kernel(cache=False)
def split_k(a: f16[m, k], b: f16[n, k], c: f32[m, n], *, X: int = 2, STAGES: int = 2):
    """c = a b^T; the X blocks of a cluster multiply a part of k each, and add up a part of the
    tile of c each, out of the shared memory of all."""
    hx.attrs.cuda.cluster_dim = 1, 1, X
    hx.attrs.cuda.grid_dim = hx.cdiv(m, 64), hx.cdiv(n, 64), X
    bm, bn, rank = hx.blockIdx.x * 64, hx.blockIdx.y * 64, hx.cluster_rank()
    part = hx.cdiv(hx.cdiv(k, 64), X)
    ga = hx.global_view(a[bm:, :], ((64, 64, hx.cdiv(k, 64)), (k, 1, 64)))
    gb = hx.global_view(b[bn:, :], ((64, 64, hx.cdiv(k, 64)), (k, 1, 64)))
    sa, sb = hx.shared_tensor(f16, (64, 64, STAGES)), hx.shared_tensor(f16, (64, 64, STAGES))
    sc = hx.shared_tensor(f32, (64, 64))
    pipe = hx.pipeline(STAGES)
    with hx.warp_groups_producer():
        for i in range(part):
            with pipe.produce() as s:
                hx.copy(ga[:, :, rank * part + i], sa[:, :, s])
                hx.copy(gb[:, :, rank * part + i], sb[:, :, s])
    with hx.warp_groups_consumer():
        rc = hx.register_tensor(f32, (64, 64))
        hx.fill(rc, 0.0)
        for _ in range(part):
            with pipe.consume() as s:
                hx.gemm(rc, sa[:, :, s], sb[:, :, s])
        hx.copy(rc, sc)
    hx.cluster_sync()
    rows = 64 // X
    own = hx.ds(rank * rows, rows)
    whole, theirs = hx.register_tensor(f32, (rows, 64)), hx.register_tensor(f32, (rows, 64))
    hx.copy(sc[own, :], whole)
    for step in range(1, X):
        hx.copy(hx.remote(sc, (rank + step) % X)[own, :], theirs)
        whole += theirs
    hx.cluster_sync()
    hx.copy(whole, hx.global_view(c[bm + rank * rows :, bn:], ((rows, 64), (n, 1))))


@hx.kernel(cache=False)
def pushed(a: f16[m, k], b: f16[n, k], c: f32[m, n]):
    """c = a b^T; of two blocks the second pushes its half of k into the first, whose threads wait
    at an mbarrier for it."""
    hx.attrs.cuda.cluster_dim = 1, 1, 2
    hx.attrs.cuda.grid_dim = hx.cdiv(m, 64), hx.cdiv(n, 64), 2
    hx.attrs.cuda.block_dim = 128
    bm, bn, rank = hx.blockIdx.x * 64, hx.blockIdx.y * 64, hx.cluster_rank()
    tiles = hx.cdiv(k, 64)
    ga = hx.global_view(a[bm:, :], ((64, 32, tiles, 2), (k, 1, 64, 32)))
    gb = hx.global_view(b[bn:, :], ((64, 32, tiles, 2), (k, 1, 64, 32)))
    rc = hx.register_tensor(f32, (64, 64))
    hx.fill(rc, 0.0)
    for i in range(tiles):
        ra, rb = hx.register_tensor(f16, (64, 32)), hx.register_tensor(f16, (64, 32))
        hx.copy(ga[:, :, i, rank], ra)
        hx.copy(gb[:, :, i, rank], rb)
        hx.gemm(rc, ra, rb)
    half = hx.shared_tensor(f32, (64, 64))
    come = hx.mbarrier(128)
    if rank == 1:
        hx.copy(rc, hx.remote(half, 0))
        come.arrive(rank=0)
    else:
        come.wait(0)
        theirs = hx.register_tensor(f32, (64, 64))
        hx.copy(half, theirs)
        rc += theirs
        hx.copy(rc, hx.global_view(c[bm:, bn:], ((64, 64), (n, 1))))


@hx.kernel(cache=False)
def pushed_by_roles(a: f16[m, k], b: f16[n, k], c: f32[m, n]):
    """The same with roles: TMA and warp groups multiply, TMA stores what two blocks made."""
    hx.attrs.cuda.cluster_dim = 2
    hx.attrs.cuda.grid_dim = 2 * hx.cdiv(m, 64), hx.cdiv(n, 64)
    bm, bn, rank = hx.blockIdx.x // 2 * 64, hx.blockIdx.y * 64, hx.cluster_rank()
    part = hx.cdiv(hx.cdiv(k, 64), 2)
    ga = hx.global_view(a[bm:, :], ((64, 64, hx.cdiv(k, 64)), (k, 1, 64)))
    gb = hx.global_view(b[bn:, :], ((64, 64, hx.cdiv(k, 64)), (k, 1, 64)))
    sa, sb = hx.shared_tensor(f16, (64, 64, 2)), hx.shared_tensor(f16, (64, 64, 2))
    half = hx.shared_tensor(f32, (64, 64))
    come = hx.mbarrier(128)
    pipe = hx.pipeline(2)
    with hx.warp_groups_producer(registers=40):
        for i in range(part):
            with pipe.produce() as s:
                hx.copy(ga[:, :, rank * part + i], sa[:, :, s])
                hx.copy(gb[:, :, rank * part + i], sb[:, :, s])
    with hx.warp_groups_consumer(registers=232):
        rc = hx.register_tensor(f32, (64, 64))
        hx.fill(rc, 0.0)
        for _ in range(part):
            with pipe.consume() as s:
                hx.gemm(rc, sa[:, :, s], sb[:, :, s])
        if rank == 1:
            hx.copy(rc, hx.remote(half, 0))
            come.arrive(rank=0)
        else:
            come.wait(0)
            theirs = hx.register_tensor(f32, (64, 64))
            hx.copy(half, theirs)
            rc += theirs
            hx.copy(rc, half)
            hx.sync_role()
            hx.copy(half, hx.global_view(c[bm:, bn:], ((64, 64), (n, 1))))


@hx.kernel(cache=False)
def sent_by_tma(x: f16[m, 64], y: f16[m, 64], *, X: int = 2):
    """y = the tiles of x, each passed on to the next block of the cluster, whose TMA stores it
    behind those of that block."""
    hx.attrs.cuda.cluster_dim = X
    hx.attrs.cuda.grid_dim = hx.cdiv(m, 64 * X) * X
    hx.attrs.cuda.block_dim = 128
    rank = hx.cluster_rank()
    following = (rank + 1) % X
    first = hx.blockIdx.x // X * X
    here = hx.shared_tensor(f16, (64, 64))
    r = hx.register_tensor(f16, (64, 64))
    hx.cluster_sync()
    for _ in range(2):
        hx.copy(hx.global_view(x[hx.blockIdx.x * 64 :, :], ((64, 64), (64, 1))), r)
        hx.copy(r * 2.0, hx.remote(here, following))
        hx.cluster_sync()
        came = (first + (rank + X - 1) % X) * 64
        hx.copy(here, hx.global_view(y[came:, :], ((64, 64), (64, 1))))
        hx.cluster_sync()


@hx.kernel(cache=False)
def forwarded(x: f16[m, 64], y: f16[m, 64]):
    """y = x; of two blocks the second loads a tile, and TMA of the first stores it as soon as an
    mbarrier tells of it."""
    hx.attrs.cuda.cluster_dim = 2
    hx.attrs.cuda.grid_dim = hx.cdiv(m, 64) * 2
    hx.attrs.cuda.block_dim = 128
    row = hx.blockIdx.x // 2 * 64
    here, come = hx.shared_tensor(f16, (64, 64)), hx.mbarrier(128)
    if hx.cluster_rank() == 1:
        r = hx.register_tensor(f16, (64, 64))
        hx.copy(hx.global_view(x[row:, :], ((64, 64), (64, 1))), r)
        hx.copy(r, hx.remote(here, 0))
        come.arrive(rank=0)
    else:
        come.wait(0)
        hx.copy(here, hx.global_view(y[row:, :], ((64, 64), (64, 1))))


@hx.kernel(cache=False)
def handed_out(a: f16[m, 64], b: f16[n, 64], c: f32[m, n], *, X: int = 2):
    """c = a b^T; block 0 loads the rows of a for its whole cluster, and writes them where the
    Tensor Cores of every block read them."""
    hx.attrs.cuda.cluster_dim = X
    hx.attrs.cuda.grid_dim = hx.cdiv(n, 64 * X) * X, hx.cdiv(m, 64)
    hx.attrs.cuda.block_dim = 128
    bm, bn = hx.blockIdx.y * 64, hx.blockIdx.x * 64
    sa, sb = hx.shared_tensor(f16, (64, 64)), hx.shared_tensor(f16, (64, 64))
    hx.copy(hx.global_view(b[bn:, :], ((64, 64), (64, 1))), sb)
    hx.cluster_sync()
    if hx.cluster_rank() == 0:
        ra = hx.register_tensor(f16, (64, 64))
        hx.copy(hx.global_view(a[bm:, :], ((64, 64), (64, 1))), ra)
        for block in range(X):
            hx.copy(ra, hx.remote(sa, block))
    hx.cluster_sync()
    rc = hx.register_tensor(f32, (64, 64))
    hx.fill(rc, 0.0)
    hx.gemm(rc, sa, sb)
    hx.copy(rc, hx.global_view(c[bm:, bn:], ((64, 64), (n, 1))))


@hx.kernel(cache=False)
def started(x: f16[m, n], y: f16[m, n]):
    """y = x, loaded into shared memory by one block of two, without any thread's wait of its own,
    and fetched from there by the other; what nobody loads was filled."""
    hx.attrs.cuda.cluster_dim = 2
    hx.attrs.cuda.grid_dim = 2, hx.cdiv(m, ROWS)
    hx.attrs.cuda.block_dim = 128
    rank, row = hx.cluster_rank(), hx.blockIdx.y * ROWS
    here, none = hx.shared_tensor(f16, (ROWS, COLUMNS)), hx.shared_tensor(f16, (ROWS, COLUMNS))
    hx.copy(hx.global_view(x[row:, rank * COLUMNS :], ((ROWS, COLUMNS), (n, 1))), here)
    hx.cluster_sync()
    hx.fill(hx.remote(none, 1 - rank), 0.0)
    r, zero = hx.register_tensor(f16, (ROWS, COLUMNS)), hx.register_tensor(f16, (ROWS, COLUMNS))
    hx.copy(hx.remote(here, 1 - rank), r)
    hx.cluster_sync()
    hx.copy(none, zero)
    column = (1 - rank) * COLUMNS
    hx.copy(r + zero, hx.global_view(y[row:, column:], ((ROWS, COLUMNS), (n, 1))))
