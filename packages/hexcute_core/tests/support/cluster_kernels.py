"""GEMMs in clusters whose blocks share what they load."""

import hexcute_core as hx
from hexcute_core import f16, f32, i32

m, n, k, places = hx.dims("m n k places")


@hx.device
def block_gemm(a, b, c, bm, bn, stages, registers):
    """The tile of c at (bm, bn), 64 x 64."""
    tiles = hx.cdiv(k, 64)
    ga = hx.global_view(a[bm:, :], ((64, 64, tiles), (k, 1, 64)))
    gb = hx.global_view(b[bn:, :], ((64, 64, tiles), (k, 1, 64)))
    sa, sb = hx.shared_tensor(f16, (64, 64, stages)), hx.shared_tensor(f16, (64, 64, stages))
    sc = hx.shared_tensor(f16, (64, 64))
    pipe = hx.pipeline(stages)
    with hx.warp_groups_producer():
        for i in range(tiles):
            with pipe.produce() as s:
                hx.copy(ga[:, :, i], sa[:, :, s])
                hx.copy(gb[:, :, i], sb[:, :, s])
    with hx.warp_groups_consumer():
        rc = hx.register_tensor(f32, (64, 64))
        hx.fill(rc, 0.0)
        for _ in range(tiles):
            s = pipe.wait()
            if registers:
                # Threads read the slot themselves: each of them frees it.
                ra = hx.register_tensor(f16, (64, 64))
                hx.copy(sa[:, :, s], ra)
                hx.gemm(rc, ra, sb[:, :, s])
            else:
                hx.gemm(rc, sa[:, :, s], sb[:, :, s])
            pipe.release()
        hx.copy(hx.cast(rc, f16), sc)
        hx.sync_role()
        hx.copy(sc, hx.global_view(c[bm:, bn:], ((64, 64), (n, 1))))


@hx.kernel(cache=False)
def in_rows(
    a: f16[m, k],
    b: f16[n, k],
    c: f16[m, n],
    *,
    X: int = 2,
    STAGES: int = 2,
    REGISTERS: bool = False,
):
    """Blocks of a cluster lie along m: they load the same part of b."""
    columns = hx.cdiv(n, 64)
    hx.attrs.cuda.cluster_dim = X
    hx.attrs.cuda.grid_dim = hx.cdiv(m, 64 * X) * columns * X
    cluster = hx.blockIdx.x // X
    bm = (cluster // columns * X + hx.cluster_rank()) * 64
    block_gemm(a, b, c, bm, cluster % columns * 64, STAGES, REGISTERS)


@hx.kernel(cache=False)
def from_a_table(
    table: i32[places],
    a: f16[m, k],
    b: f16[n, k],
    c: f16[m, n],
    *,
    ALIKE: bool = True,
    WRITES: bool = False,
    ADDED: bool = False,
):
    """Memory says which rows of b a cluster multiplies, by one number or by a tile's sum."""
    hx.attrs.cuda.cluster_dim = 2
    hx.attrs.cuda.grid_dim = places * 2
    cluster = hx.blockIdx.x // 2
    place = cluster if ALIKE else (cluster + hx.cluster_rank()) % places
    if ADDED:
        numbers = hx.register_tensor(i32, (4,))
        hx.copy(hx.global_view(table, ((4,), (1,))), numbers)
        bn = hx.number(hx.sum(hx.where(hx.iota((4,), 0) == place, numbers, 0), 0)) * 64
    else:
        bn = table[place] * 64
    block_gemm(a, b, c, hx.cluster_rank() * 64, bn, 2, False)
    if WRITES:
        r = hx.register_tensor(i32, (1,))
        hx.fill(r, 0)
        hx.copy(r, hx.global_view(table[places:], ((1,), (1,))))


@hx.kernel(cache=False)
def in_squares(a: f16[m, k], b: f16[n, k], c: f16[m, n], *, X: int = 2, Y: int = 2):
    """Blocks along x share b, those along y share a."""
    hx.attrs.cuda.cluster_dim = X, Y
    hx.attrs.cuda.grid_dim = hx.cdiv(m, 64 * X) * X, hx.cdiv(n, 64 * Y) * Y
    block_gemm(a, b, c, hx.blockIdx.x * 64, hx.blockIdx.y * 64, 2, False)


@hx.kernel(cache=False)
def staying(a: f16[m, k], b: f16[n, k], c: f16[m, n], *, STAGES: int = 2):
    """Clusters of two that stay: each takes tiles of 128 x 64, a block half of one."""
    hx.attrs.cuda.cluster_dim = 2
    rows, columns, tiles = hx.cdiv(m, 128), hx.cdiv(n, 64), hx.cdiv(k, 64)
    sa, sb = hx.shared_tensor(f16, (64, 64, STAGES)), hx.shared_tensor(f16, (64, 64, STAGES))
    sc = hx.shared_tensor(f16, (64, 64))
    pipe = hx.pipeline(STAGES)
    with hx.warp_groups_producer(registers=40):
        for tile in hx.persistent(rows * columns):
            bm = (tile // columns * 2 + hx.cluster_rank()) * 64
            ga = hx.global_view(a[bm:, :], ((64, 64, tiles), (k, 1, 64)))
            gb = hx.global_view(b[tile % columns * 64 :, :], ((64, 64, tiles), (k, 1, 64)))
            for i in range(tiles):
                with pipe.produce() as s:
                    hx.copy(ga[:, :, i], sa[:, :, s])
                    hx.copy(gb[:, :, i], sb[:, :, s])
    with hx.warp_groups_consumer(registers=232):
        for tile in hx.persistent(rows * columns):
            rc = hx.register_tensor(f32, (64, 64))
            hx.fill(rc, 0.0)
            for _ in range(tiles):
                with pipe.consume() as s:
                    hx.gemm(rc, sa[:, :, s], sb[:, :, s])
            hx.sync_role()
            hx.copy(hx.cast(rc, f16), sc)
            hx.sync_role()
            bm = (tile // columns * 2 + hx.cluster_rank()) * 64
            hx.copy(sc, hx.global_view(c[bm:, tile % columns * 64 :], ((64, 64), (n, 1))))


@hx.kernel(cache=False)
def out_of_step(a: f16[m, k], b: f16[n, k], c: f16[m, n]):
    """Blocks of a cluster that take different numbers of tiles share nothing."""
    hx.attrs.cuda.cluster_dim = 2
    hx.attrs.cuda.grid_dim = 2
    tiles = hx.cdiv(k, 64)
    sa, sb = hx.shared_tensor(f16, (64, 64, 2)), hx.shared_tensor(f16, (64, 64, 2))
    sc = hx.shared_tensor(f16, (64, 64))
    pipe = hx.pipeline(2)
    gb = hx.global_view(b, ((64, 64, tiles), (k, 1, 64)))
    with hx.warp_groups_producer():
        for tile in range(hx.blockIdx.x, hx.cdiv(m, 64), hx.gridDim.x):
            ga = hx.global_view(a[tile * 64 :, :], ((64, 64, tiles), (k, 1, 64)))
            for i in range(tiles):
                with pipe.produce() as s:
                    hx.copy(ga[:, :, i], sa[:, :, s])
                    hx.copy(gb[:, :, i], sb[:, :, s])
    with hx.warp_groups_consumer():
        for tile in range(hx.blockIdx.x, hx.cdiv(m, 64), hx.gridDim.x):
            rc = hx.register_tensor(f32, (64, 64))
            hx.fill(rc, 0.0)
            for _ in range(tiles):
                with pipe.consume() as s:
                    hx.gemm(rc, sa[:, :, s], sb[:, :, s])
            hx.sync_role()
            hx.copy(hx.cast(rc, f16), sc)
            hx.sync_role()
            hx.copy(sc, hx.global_view(c[tile * 64 :, :], ((64, 64), (n, 1))))
