"""Kernels of roles, pipelines and barriers, small enough to be run lane by lane."""

# ruff: noqa: SIM113
import hexcute_core as hx
from hexcute_core import f16, f32, i32

m, n, k = hx.dims("m n k")


@hx.device
def tiles_of(a, rows, at):
    """Row block `at` of a matrix [., k], in tiles of (rows, 64)."""
    return hx.global_view(a[at:, :], ((rows, 64, hx.cdiv(k, 64)), (k, 1, 64)))


@hx.device
def store(rc, c, bm, bn, sc):
    """An accumulator to global memory through shared memory, by one role."""
    hx.copy(hx.cast(rc, f16), sc)
    hx.sync_role()
    hx.copy(sc, hx.global_view(c[bm:, bn:], (sc.shape, (n, 1))))


@hx.kernel(cache=False)
def consuming(a: f16[m, k], b: f16[n, k], c: f16[m, n], *, STAGES: int = 2, GROUPS: int = 1):
    """c = a b^T, each slot read by a gemm that is waited for at once."""
    hx.attrs.cuda.grid_dim = hx.cdiv(m, 64 * GROUPS), hx.cdiv(n, 64)
    bm, bn = hx.blockIdx.x * (64 * GROUPS), hx.blockIdx.y * 64
    ga, gb = tiles_of(a, 64 * GROUPS, bm), tiles_of(b, 64, bn)
    sa = hx.shared_tensor(f16, (64 * GROUPS, 64, STAGES))
    sb = hx.shared_tensor(f16, (64, 64, STAGES))
    sc = hx.shared_tensor(f16, (64 * GROUPS, 64))
    pipe = hx.pipeline(STAGES)
    with hx.warp_groups_producer():
        for i in range(hx.cdiv(k, 64)):
            with pipe.produce() as s:
                hx.copy(ga[:, :, i], sa[:, :, s])
                hx.copy(gb[:, :, i], sb[:, :, s])
    with hx.warp_groups_consumer(GROUPS):
        rc = hx.register_tensor(f32, (64 * GROUPS, 64))
        hx.fill(rc, 0.0)
        for _ in range(hx.cdiv(k, 64)):
            with pipe.consume() as s:
                hx.gemm(rc, sa[:, :, s], sb[:, :, s])
        store(rc, c, bm, bn, sc)


@hx.kernel(cache=False)
def two_pipelines(a: f16[m, k], b: f16[n, k], c: f16[m, n]):
    """a and b through rings of their own, counted by a `while`; one product in flight."""
    hx.attrs.cuda.grid_dim = hx.cdiv(m, 64), hx.cdiv(n, 64)
    bm, bn = hx.blockIdx.x * 64, hx.blockIdx.y * 64
    ga, gb = tiles_of(a, 64, bm), tiles_of(b, 64, bn)
    sa, sb = hx.shared_tensor(f16, (64, 64, 2)), hx.shared_tensor(f16, (64, 64, 3))
    sc = hx.shared_tensor(f16, (64, 64))
    rows, columns = hx.pipeline(2), hx.pipeline(3)
    with hx.warp_groups_producer(registers=40):
        i = 0
        while i < hx.cdiv(k, 64):
            with rows.produce() as s:
                hx.copy(ga[:, :, i], sa[:, :, s])
            with columns.produce() as t:
                hx.copy(gb[:, :, i], sb[:, :, t])
            i += 1
    with hx.warp_groups_consumer(registers=232):
        rc = hx.register_tensor(f32, (64, 64))
        hx.fill(rc, 0.0)
        i = 0
        while i < hx.cdiv(k, 64):
            s, t = rows.wait(), columns.wait()
            hx.gemm(rc, sa[:, :, s], sb[:, :, t], asynchronous=True)
            if i > 0:
                hx.wait_gemm(1)
                rows.release()
                columns.release()
            i += 1
        hx.wait_gemm(0)
        store(rc, c, bm, bn, sc)


@hx.kernel(cache=False)
def two_readers(a: f16[m, k], total: f32[m, 1], most: f16[m, 1]):
    """Two roles read every slot into registers: one adds the rows up, one takes their maximum."""
    hx.attrs.cuda.grid_dim = hx.cdiv(m, 64)
    bm = hx.blockIdx.x * 64
    ga = tiles_of(a, 64, bm)
    sa = hx.shared_tensor(f16, (64, 64, 2))
    pipe = hx.pipeline(2)
    with hx.warp_groups_producer():
        for i in range(hx.cdiv(k, 64)):
            with pipe.produce() as s:
                hx.copy(ga[:, :, i], sa[:, :, s])
    with hx.warp_groups_consumer():
        rows = hx.register_tensor(f32, (64, 1))
        hx.fill(rows, 0.0)
        for _ in range(hx.cdiv(k, 64)):
            with pipe.consume() as s:
                ra = hx.register_tensor(f16, (64, 64))
                hx.copy(sa[:, :, s], ra)
            rows += hx.sum(hx.cast(ra, f32), 1)
        hx.copy(rows, hx.global_view(total[bm:, :], ((64, 1), (1, 1))))
    with hx.warp_groups_consumer():
        top = hx.register_tensor(f16, (64, 1))
        hx.fill(top, -100.0)
        for _ in range(hx.cdiv(k, 64)):
            with pipe.consume() as s:
                rb = hx.register_tensor(f16, (64, 64))
                hx.copy(sa[:, :, s], rb)
            top = hx.maximum(top, hx.max(rb, 1))
        hx.copy(top, hx.global_view(most[bm:, :], ((64, 1), (1, 1))))


@hx.kernel(cache=False)
def converting(a: f32[m, k], b: f16[n, k], c: f16[m, n]):
    """The producer converts a on its way: through registers, in the order written; b comes by
    TMA."""
    hx.attrs.cuda.grid_dim = hx.cdiv(m, 64), hx.cdiv(n, 64)
    bm, bn = hx.blockIdx.x * 64, hx.blockIdx.y * 64
    ga, gb = tiles_of(a, 64, bm), tiles_of(b, 64, bn)
    sa, sb = hx.shared_tensor(f16, (64, 64, 2)), hx.shared_tensor(f16, (64, 64, 2))
    sc = hx.shared_tensor(f16, (64, 64))
    pipe = hx.pipeline(2)
    with hx.warp_groups_producer():
        for i in range(hx.cdiv(k, 64)):
            with pipe.produce() as s:
                ra = hx.register_tensor(f32, (64, 64))
                hx.copy(ga[:, :, i], ra)
                hx.copy(hx.cast(ra * 2.0, f16), sa[:, :, s])
                hx.copy(gb[:, :, i], sb[:, :, s])
    with hx.warp_groups_consumer():
        rc = hx.register_tensor(f32, (64, 64))
        hx.fill(rc, 0.0)
        for _ in range(hx.cdiv(k, 64)):
            with pipe.consume() as s:
                hx.gemm(rc, sa[:, :, s], sb[:, :, s])
        store(rc, c, bm, bn, sc)


@hx.kernel(cache=False)
def chained(q: f16[m, k], p: f16[n, k], v: f16[n, k], o: f16[m, k]):
    """o = relu(q p^T) v, for k = 64: the first result is the second one's operand, in registers."""
    hx.attrs.cuda.grid_dim = hx.cdiv(m, 64)
    bm = hx.blockIdx.x * 64
    gq = hx.global_view(q[bm:, :], ((64, 64), (k, 1)))
    gp = hx.global_view(p[:, :], ((64, 64, hx.cdiv(n, 64)), (k, 1, 64 * k)))
    gv = hx.global_view(v[:, :], ((64, 64, hx.cdiv(n, 64)), (1, k, 64 * k)))
    sq, so = hx.shared_tensor(f16, (64, 64)), hx.shared_tensor(f16, (64, 64))
    sp, sv = hx.shared_tensor(f16, (64, 64, 2)), hx.shared_tensor(f16, (64, 64, 2))
    once, pipe = hx.pipeline(1), hx.pipeline(2)
    with hx.warp_groups_producer(registers=40):
        with once.produce():
            hx.copy(gq, sq)
        for i in range(hx.cdiv(n, 64)):
            with pipe.produce() as s:
                hx.copy(gp[:, :, i], sp[:, :, s])
                hx.copy(gv[:, :, i], sv[:, :, s])
    with hx.warp_groups_consumer(registers=240):
        ro = hx.register_tensor(f32, (64, 64))
        hx.fill(ro, 0.0)
        once.wait()
        for _ in range(hx.cdiv(n, 64)):
            rs = hx.register_tensor(f32, (64, 64))
            hx.fill(rs, 0.0)
            s = pipe.wait()
            hx.gemm(rs, sq, sp[:, :, s], asynchronous=True)
            hx.wait_gemm(0)
            rp = hx.cast(hx.maximum(rs, 0.0), f16)
            hx.gemm(ro, rp, sv[:, :, s], asynchronous=True)
            hx.wait_gemm(0)
            pipe.release()
        once.release()
        hx.copy(hx.cast(ro, f16), so)
        hx.sync_role()
        hx.copy(so, hx.global_view(o[bm:, :], ((64, 64), (k, 1))))


@hx.device
def ping_pong(a_tile, c, tiles_m, tiles_n, tiles_k, sa, sb, sc, pipe, order, me):
    """One of two math roles: every second tile is its own."""
    number = 0
    for tile in hx.persistent(tiles_m * tiles_n):
        if number % 2 == me:
            rc = hx.register_tensor(f32, sc.shape)
            hx.fill(rc, 0.0)
            with order.turn(me):
                for i in range(tiles_k):
                    s = pipe.wait()
                    hx.gemm(rc, sa[:, :, s], sb[:, :, s], asynchronous=True)
                    if i > 0:
                        hx.wait_gemm(1)
                        pipe.release()
            hx.wait_gemm(0)
            if tiles_k > 0:
                pipe.release()
            hx.sync_role()
            store(rc, c, tile // tiles_n * 64, tile % tiles_n * 64, sc)
        else:
            pipe.skip(tiles_k)
        number += 1


@hx.kernel(cache=False)
def taking_turns(a: f16[m, k], b: f16[n, k], c: f16[m, n], *, STAGES: int = 3):
    """c = a b^T by blocks that stay, two math roles in turns."""
    tiles_m, tiles_n, tiles_k = hx.cdiv(m, 64), hx.cdiv(n, 64), hx.cdiv(k, 64)
    sa, sb = hx.shared_tensor(f16, (64, 64, STAGES)), hx.shared_tensor(f16, (64, 64, STAGES))
    s0, s1 = hx.shared_tensor(f16, (64, 64)), hx.shared_tensor(f16, (64, 64))
    pipe, order = hx.pipeline(STAGES, readers="one"), hx.turns(2)
    with hx.warp_groups_producer(registers=40):
        for tile in hx.persistent(tiles_m * tiles_n):
            ga = tiles_of(a, 64, tile // tiles_n * 64)
            gb = tiles_of(b, 64, tile % tiles_n * 64)
            for i in range(tiles_k):
                with pipe.produce() as s:
                    hx.copy(ga[:, :, i], sa[:, :, s])
                    hx.copy(gb[:, :, i], sb[:, :, s])
    with hx.warp_groups_consumer(registers=232):
        ping_pong(a, c, tiles_m, tiles_n, tiles_k, sa, sb, s0, pipe, order, 0)
    with hx.warp_groups_consumer(registers=232):
        ping_pong(a, c, tiles_m, tiles_n, tiles_k, sa, sb, s1, pipe, order, 1)


@hx.kernel(cache=False)
def by_hand(a: f16[m, k], c: f16[m, k]):
    """c = 2 a by raw mbarriers: one thread loads by TMA two tiles ahead, all threads compute."""
    hx.attrs.cuda.grid_dim = hx.cdiv(m, 64)
    hx.attrs.cuda.block_dim = 128
    bm = hx.blockIdx.x * 64
    ga, gc = tiles_of(a, 64, bm), tiles_of(c, 64, bm)
    sa = hx.shared_tensor(f16, (64, 64, 2))
    full = hx.mbarrier(1, 2)
    empty = hx.mbarrier(128, 2)
    ra = hx.register_tensor(f16, (64, 64))
    for i in range(hx.cdiv(k, 64) + 1):
        if i < hx.cdiv(k, 64):
            s = i % 2
            empty[s].wait((i // 2 + 1) % 2)
            if hx.threadIdx.x == 0:
                full[s].expect(sa[:, :, s].nbytes)
            hx.copy(ga[:, :, i], sa[:, :, s], mbarrier=full[s])
        if i > 0:
            t = (i - 1) % 2
            full[t].wait((i - 1) // 2 % 2)
            hx.copy(sa[:, :, t], ra)
            empty[t].arrive()
            hx.copy(ra * 2.0, gc[:, :, i - 1])


@hx.kernel(cache=False)
def handing_over(a: f16[m, k], c: f16[m, k]):
    """c = a + 1: one role writes a shared tile, another reads it, by named barriers."""
    hx.attrs.cuda.grid_dim = hx.cdiv(m, 64)
    bm = hx.blockIdx.x * 64
    ga, gc = tiles_of(a, 64, bm), tiles_of(c, 64, bm)
    sa = hx.shared_tensor(f16, (64, 64))
    filled, emptied = hx.named_barrier(256), hx.named_barrier(256)
    with hx.warp_groups_producer():
        for i in range(hx.cdiv(k, 64)):
            ra = hx.register_tensor(f16, (64, 64))
            hx.copy(ga[:, :, i], ra)
            if i > 0:
                emptied.sync()
            hx.copy(ra, sa)
            filled.arrive()
    with hx.warp_groups_consumer():
        for i in range(hx.cdiv(k, 64)):
            rb = hx.register_tensor(f16, (64, 64))
            filled.sync()
            hx.copy(sa, rb)
            if i + 1 < hx.cdiv(k, 64):
                emptied.arrive()
            hx.copy(rb + 1.0, gc[:, :, i])


@hx.kernel(cache=False)
def clustered(out: i32[m]):
    """out[block] = its rank in a cluster of two, plus 10 once the other block has arrived here."""
    hx.attrs.cuda.grid_dim = m
    hx.attrs.cuda.block_dim = 128
    hx.attrs.cuda.cluster_dim = 2
    met = hx.mbarrier(1)
    rank = hx.cluster_rank()
    if hx.threadIdx.x == 0:
        met.arrive(rank=1 - rank)
    met.wait(0)
    r = hx.register_tensor(i32, (1,))
    hx.fill(r, rank + 10)
    hx.copy(r, hx.global_view(out[hx.blockIdx.x:], ((1,), (1,))))
    hx.cluster_sync()


@hx.kernel(cache=False)
def starting_anew(a: f16[m, k], b: f16[n, k], c: f16[m, n], *, EACH: bool = False):
    """c = a b^T without zeros first: the first product replaces what the registers held; with
    EACH, every one does, and c is the last tile's."""
    hx.attrs.cuda.grid_dim = hx.cdiv(m, 64), hx.cdiv(n, 64)
    bm, bn = hx.blockIdx.x * 64, hx.blockIdx.y * 64
    ga, gb = tiles_of(a, 64, bm), tiles_of(b, 64, bn)
    sa, sb = hx.shared_tensor(f16, (64, 64, 2)), hx.shared_tensor(f16, (64, 64, 2))
    sc = hx.shared_tensor(f16, (64, 64))
    pipe = hx.pipeline(2)
    with hx.warp_groups_producer():
        for i in range(hx.cdiv(k, 64)):
            with pipe.produce() as s:
                hx.copy(ga[:, :, i], sa[:, :, s])
                hx.copy(gb[:, :, i], sb[:, :, s])
    with hx.warp_groups_consumer():
        rc = hx.register_tensor(f32, (64, 64))
        for i in range(hx.cdiv(k, 64)):
            with pipe.consume() as s:
                hx.gemm(rc, sa[:, :, s], sb[:, :, s], accumulate=False if EACH else i > 0)
        store(rc, c, bm, bn, sc)


@hx.kernel(cache=False)
def starting_anew_in_registers(a: f16[m, k], b: f16[n, k], c: f16[m, n]):
    """The same by instructions that always add."""
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 128
    ga, gb = tiles_of(a, 64, 0), tiles_of(b, 64, 0)
    ra, rb = hx.register_tensor(f16, (64, 64)), hx.register_tensor(f16, (64, 64))
    rc = hx.register_tensor(f32, (64, 64))
    for i in range(hx.cdiv(k, 64)):
        hx.copy(ga[:, :, i], ra)
        hx.copy(gb[:, :, i], rb)
        hx.gemm(rc, ra, rb, accumulate=i > 0)
    hx.copy(hx.cast(rc, f16), hx.global_view(c, ((64, 64), (n, 1))))
