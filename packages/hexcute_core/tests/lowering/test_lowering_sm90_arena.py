"""Shared memory of roles: an epilogue takes the slots once they are drained, and not before;
buffers of roles that run side by side lie apart."""

import numpy as np
from sm90_reading import branch_of, locals_of, loops_at_zero, lowered, prims, value

import hexcute_core as hx
from hexcute_core import f16, f32
from hexcute_core.thread import If
from hexcute_kernels.gemm.warp_specialized import warp_specialized_gemm


def extent_of(low, name):
    """Bytes [first, last) of a buffer of the epilogue, from what is stored into it."""
    tensor = low.solution.program.tensor(name)
    start = min(
        value(p.operands[1].offset, loops_at_zero(low.thread))
        for p in prims(low.thread, "tma.store")
    )
    return start, start + tensor.shape[0] * tensor.shape[1] * tensor.dtype.bits // 8


def test_the_epilogue_takes_the_slots_once_they_are_drained():
    low = lowered(warp_specialized_gemm(f16), BM=128, BN=128, STAGES=4)
    slots = 4 * (128 + 128) * 64 * 2
    assert low.thread.shared_bytes == slots + 4 * 2 * 8, "the barriers have their own bytes"
    first, last = extent_of(low, "sc")
    assert first >= 0 and last <= slots
    consumers = branch_of(low.thread, 128)
    names = [s.name for s in consumers if hasattr(s, "operands")]
    finished = names.index("wgmma.wait")
    assert names[finished + 1] == "bar.named.sync", "all products are finished before it is written"


m, n, k = hx.dims("m n k")


def gemm_with(consume, produce=None):
    """A GEMM whose consumer runs `consume(rc, sa, sb, pipe, tiles)`, and whose producer's further
    statements are `produce(ga, gb, sa, sb, pipe, tiles)`."""
    consume = hx.device(consume)
    produce = hx.device(produce) if produce is not None else None

    @hx.kernel(cache=False)
    def kernel(a: f16[m, k], b: f16[n, k], c: f16[m, n]):
        hx.attrs.cuda.grid_dim = 1
        tiles = hx.cdiv(k, 64)
        ga = hx.global_view(a[:, :], ((64, 64, tiles), (k, 1, 64)))
        gb = hx.global_view(b[:, :], ((64, 64, tiles), (k, 1, 64)))
        sa, sb = hx.shared_tensor(f16, (64, 64, 4)), hx.shared_tensor(f16, (64, 64, 4))
        sc = hx.shared_tensor(f16, (64, 64))
        pipe = hx.pipeline(4)
        with hx.warp_groups_producer():
            for i in range(tiles):
                with pipe.produce() as s:
                    hx.copy(ga[:, :, i], sa[:, :, s])
                    hx.copy(gb[:, :, i], sb[:, :, s])
            if produce is not None:
                produce(ga, gb, sa, sb, pipe, tiles)
        with hx.warp_groups_consumer():
            rc = hx.register_tensor(f32, (64, 64))
            hx.fill(rc, 0.0)
            consume(rc, sa, sb, pipe, tiles)
            hx.copy(hx.cast(rc, f16), sc)
            hx.sync_role()
            hx.copy(sc, hx.global_view(c[:, :], ((64, 64), (n, 1))))

    return lowered(kernel)


SLOTS = 4 * 2 * 64 * 64 * 2


def shares(low):
    return extent_of(low, "sc")[0] < SLOTS


def drain(rc, sa, sb, pipe, tiles):
    for _ in range(tiles):
        with pipe.consume() as s:
            hx.gemm(rc, sa[:, :, s], sb[:, :, s])


def test_slots_are_shared_where_as_many_are_read_as_filled():
    assert shares(gemm_with(drain))


def test_no_sharing_where_fewer_are_read_than_filled():
    def all_but_one(rc, sa, sb, pipe, tiles):
        for _ in range(tiles - 1):
            with pipe.consume() as s:
                hx.gemm(rc, sa[:, :, s], sb[:, :, s])

    assert not shares(gemm_with(all_but_one))


def test_no_sharing_where_a_branch_fills_one_more():
    def one_more(ga, gb, sa, sb, pipe, tiles):
        if tiles > 3:
            with pipe.produce() as s:
                hx.copy(ga[:, :, 0], sa[:, :, s])
                hx.copy(gb[:, :, 0], sb[:, :, s])

    assert not shares(gemm_with(drain, one_more))


def test_no_sharing_where_a_while_counts():
    def until(rc, sa, sb, pipe, tiles):
        i = 0
        while i < tiles:
            with pipe.consume() as s:
                hx.gemm(rc, sa[:, :, s], sb[:, :, s])
            i += 1

    assert not shares(gemm_with(until))


def test_rings_read_one_after_the_other_are_filled_at_one_time():
    """Both are filled from the start, though their reader comes to the second one later."""

    @hx.kernel(cache=False)
    def kernel(a: f32[64, 32], b: f32[64, 32], c: f32[16, 32]):
        hx.attrs.cuda.grid_dim = 1
        ga = hx.global_view(a, ((16, 32, 4), (32, 1, 512)))
        gb = hx.global_view(b, ((16, 32, 4), (32, 1, 512)))
        sa, sb = hx.shared_tensor(f32, (16, 32, 2)), hx.shared_tensor(f32, (16, 32, 2))
        first, second = hx.pipeline(2), hx.pipeline(2)
        with hx.warp_groups_producer():
            for i in range(4):
                with first.produce() as s:
                    hx.copy(ga[:, :, i], sa[:, :, s])
        with hx.warp_groups_producer():
            for i in range(4):
                with second.produce() as s:
                    hx.copy(gb[:, :, i], sb[:, :, s])
        with hx.warp_groups_consumer():
            r, total = hx.register_tensor(f32, (16, 32)), hx.register_tensor(f32, (16, 32))
            hx.fill(total, 0.0)
            for _ in range(4):
                with first.consume() as s:
                    hx.copy(sa[:, :, s], r)
                total += r
            for _ in range(4):
                with second.consume() as s:
                    hx.copy(sb[:, :, s], r)
                total += r
            hx.copy(total, hx.global_view(c, ((16, 32), (32, 1))))

    compiled = kernel.compile("sm_90", verify=True)
    assert compiled.thread.shared_bytes >= 2 * 2 * 16 * 32 * 4
    a, b = (np.arange(64 * 32, dtype=np.float32).reshape(64, 32) % n for n in (7, 5))
    c = np.zeros((16, 32), np.float32)
    compiled.simulate(a, b, c, schedules=8)
    assert np.array_equal(c, (a + b).reshape(4, 16, 32).sum(0))


def test_no_sharing_while_products_read_their_slots():
    """The last product is waited for only after the buffer would have been written."""

    def late(rc, sa, sb, pipe, tiles):
        rd = hx.register_tensor(f32, (64, 64))
        hx.fill(rd, 0.0)
        for i in range(tiles):
            s = pipe.wait()
            hx.gemm(rd, sa[:, :, s], sb[:, :, s], asynchronous=True)
            if i > 0:
                hx.wait_gemm(1)
                pipe.release()
        early = hx.shared_tensor(f16, (64, 64))
        hx.copy(hx.cast(rc, f16), early)
        hx.wait_gemm(0)
        hx.sync_role()
        back = hx.register_tensor(f16, (64, 64))
        hx.copy(early, back)
        rc += rd + hx.cast(back, f32)

    low = gemm_with(late)
    stores = prims(low.thread, "st.shared")
    known = {"threadIdx.x": 128, **loops_at_zero(low.thread)}
    known.update(locals_of(low.thread, **known))
    early = value(stores[0].operands[0].offset, known)
    assert early >= SLOTS, "written while a product may still read the slots"
    assert shares(low), "the other one is written after the wait"


def test_buffers_of_two_roles_never_share():
    """Two consumers write their own buffers side by side."""

    @hx.kernel(cache=False)
    def kernel(a: f16[m, k], c: f16[m, k]):
        hx.attrs.cuda.grid_dim = 1
        s0, s1 = hx.shared_tensor(f16, (64, 64)), hx.shared_tensor(f16, (64, 64))
        for which in hx.static_range(2):
            with hx.warp_groups_consumer():
                ra, rb = hx.register_tensor(f16, (64, 64)), hx.register_tensor(f16, (64, 64))
                hx.copy(hx.global_view(a[64 * which :, :], ((64, 64), (k, 1))), ra)
                mine = s0 if which == 0 else s1
                hx.copy(ra, mine)
                hx.sync_role()
                hx.copy(mine, rb)
                hx.copy(rb, hx.global_view(c[64 * which :, :], ((64, 64), (k, 1))))

    low = lowered(kernel)
    assert low.thread.shared_bytes >= 2 * 64 * 64 * 2


def test_what_the_block_used_is_handed_over_before_the_roles():
    """A buffer of the whole block, then one of a role in its place: all threads meet first."""

    @hx.kernel(cache=False)
    def kernel(a: f16[m, k], c: f16[m, k]):
        hx.attrs.cuda.grid_dim = 1
        s0, s1 = hx.shared_tensor(f16, (64, 64)), hx.shared_tensor(f16, (64, 64))
        ra, rb = hx.register_tensor(f16, (64, 64)), hx.register_tensor(f16, (64, 64))
        hx.copy(hx.global_view(a[:, :], ((64, 64), (k, 1))), ra)
        hx.copy(ra, s0)
        hx.syncthreads()
        hx.copy(s0, rb)
        hx.copy(rb, hx.global_view(c[:, :], ((64, 64), (k, 1))))
        with hx.warp_groups_producer():
            rd, re = hx.register_tensor(f16, (64, 64)), hx.register_tensor(f16, (64, 64))
            hx.copy(hx.global_view(a[64:, :], ((64, 64), (k, 1))), rd)
            hx.copy(rd, s1)
            hx.sync_role()
            hx.copy(s1, re)
            hx.copy(re, hx.global_view(c[64:, :], ((64, 64), (k, 1))))
        with hx.warp_groups_consumer():
            pass

    low = lowered(kernel)
    assert low.thread.shared_bytes == 64 * 64 * 2
    top = [s for s in low.thread.body if not isinstance(s, If)]
    last = next(i for i in reversed(range(len(low.thread.body)))
                if isinstance(low.thread.body[i], If))  # fmt: skip
    assert getattr(low.thread.body[last - 1], "name", "") == "bar.sync", top
