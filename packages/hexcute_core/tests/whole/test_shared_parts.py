"""Parts of shared tensors that begin and end anywhere, of extents that suit no instruction: every
copy reaches the elements it means, by threads where TMA cannot, or is refused at its line."""

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import f16, f32, i8, i32
from hexcute_core.errors import HexcuteError, NoLayout

NUMPY = {f16: np.float16, f32: np.float32, i8: np.int8}


def scattered(dtype, whole, tile, threads):
    """a -> part of s at (y, x) by the first path, that part -> o by the second; s is filled first
    and comes out in w."""
    (rows, columns), (height, width) = whole, tile

    @hx.kernel(cache=False)
    def by_registers(
        a: dtype[height, width], o: dtype[height, width], w: dtype[rows, columns], y: i32, x: i32
    ):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = threads
        s = hx.shared_tensor(dtype, (rows, columns))
        hx.fill(s, 1)
        hx.syncthreads()
        r, q = (hx.register_tensor(dtype, (height, width)) for _ in range(2))
        hx.copy(hx.global_view(a, ((height, width), (width, 1))), r)
        hx.copy(r, s[hx.ds(y, height), hx.ds(x, width)])
        hx.syncthreads()
        hx.copy(s[hx.ds(y, height), hx.ds(x, width)], q)
        hx.copy(q, hx.global_view(o, ((height, width), (width, 1))))
        hx.copy(s, hx.global_view(w, ((rows, columns), (columns, 1))))

    @hx.kernel(cache=False)
    def by_memory(
        a: dtype[height, width], o: dtype[height, width], w: dtype[rows, columns], y: i32, x: i32
    ):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = threads
        s = hx.shared_tensor(dtype, (rows, columns))
        hx.fill(s, 1)
        hx.syncthreads()
        part = s[hx.ds(y, height), hx.ds(x, width)]
        hx.copy(hx.global_view(a, ((height, width), (width, 1))), part)
        hx.syncthreads()
        hx.copy(part, hx.global_view(o, ((height, width), (width, 1))))
        hx.copy(s, hx.global_view(w, ((rows, columns), (columns, 1))))

    return by_registers, by_memory


def fixed(dtype, whole, tile, start, threads, load):
    """The same where the part begins at constants; `load` by a pipeline."""
    (rows, columns), (height, width), (y, x) = whole, tile, start

    @hx.kernel(cache=False)
    def pipelined(a: dtype[height, width], o: dtype[height, width], w: dtype[1, 1]):
        hx.attrs.cuda.grid_dim = 1
        s = hx.shared_tensor(dtype, (rows, columns, 2))
        pipe = hx.pipeline(2)
        ga, go = (hx.global_view(t, ((height, width), (width, 1))) for t in (a, o))
        with hx.warp_groups_producer():
            for _ in range(3):
                with pipe.produce() as slot:
                    hx.copy(ga, s[y : y + height, x : x + width, slot])
        with hx.warp_groups_consumer():
            r = hx.register_tensor(dtype, (height, width))
            for _ in range(3):
                with pipe.consume() as slot:
                    hx.copy(s[y : y + height, x : x + width, slot], r)
            hx.copy(r, go)

    @hx.kernel(cache=False)
    def stored(a: dtype[height, width], o: dtype[height, width], w: dtype[rows, columns]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = threads
        s = hx.shared_tensor(dtype, (rows, columns))
        hx.fill(s, 1)
        hx.syncthreads()
        ga, go = (hx.global_view(t, ((height, width), (width, 1))) for t in (a, o))
        hx.copy(ga, s[y : y + height, x : x + width])
        hx.syncthreads()
        hx.copy(s[y : y + height, x : x + width], go)
        hx.copy(s, hx.global_view(w, ((rows, columns), (columns, 1))))

    return pipelined if load else stored


def arrays(dtype, whole, tile):
    a = (np.arange(np.prod(tile)).reshape(tile) % 50 + 2).astype(NUMPY[dtype])
    return a, np.zeros_like(a), np.zeros(whole, NUMPY[dtype])


def meant(a, whole, start):
    w = np.ones(whole, a.dtype)
    w[start[0] : start[0] + a.shape[0], start[1] : start[1] + a.shape[1]] = a
    return w


@pytest.mark.parametrize("seed", range(24))
def test_parts_that_begin_where_run_time_says(seed):
    rng = np.random.default_rng(seed)
    dtype = (f16, f32, i8)[int(rng.integers(3))]
    tile = int(rng.choice([8, 16, 24, 32, 40])), int(rng.choice([8, 16, 32, 40]))
    whole = tuple(n + int(rng.choice([0, 1, 3, 8, 16])) for n in tile)
    start = tuple(int(rng.integers(n - t + 1)) for n, t in zip(whole, tile))
    kernel = scattered(dtype, whole, tile, int(rng.choice([32, 96, 128])))[int(rng.integers(2))]
    a, o, w = arrays(dtype, whole, tile)
    compiled = kernel.compile(str(rng.choice(["sm_80", "sm_90"])), verify=True)
    assert not compiled.simulate(a, o, w, *start).findings
    np.testing.assert_array_equal(o, a)
    np.testing.assert_array_equal(w, meant(a, whole, start))


@pytest.mark.parametrize("seed", range(30))
def test_parts_that_begin_at_constants(seed):
    rng = np.random.default_rng(seed)
    dtype = (f16, f32, i8)[int(rng.integers(3))]
    tile = int(rng.choice([8, 16, 24, 32, 40])), int(rng.choice([16, 32, 64]))
    whole = tuple(n + int(rng.choice([0, 1, 3, 8, 16])) for n in tile)
    start = tuple(int(rng.integers(n - t + 1)) for n, t in zip(whole, tile))
    load = bool(rng.integers(2))
    kernel = fixed(dtype, whole, tile, start, int(rng.choice([32, 96, 128])), load)
    a, o, w = arrays(dtype, whole, tile)
    w = np.zeros((1, 1), w.dtype) if load else w
    target = "sm_90" if load else str(rng.choice(["sm_80", "sm_90"]))
    report = kernel.compile(target, verify=True).simulate(a, o, w)
    assert not report.findings
    np.testing.assert_array_equal(o, a)
    if not load:
        np.testing.assert_array_equal(w, meant(a, whole, start))


@pytest.mark.parametrize("whole, tile, start, by_tma", [
    ((64, 64), (32, 64), (32, 0), True),
    ((64, 64), (32, 64), (8, 0), True),
    ((64, 64), (32, 64), (1, 0), True),
    ((64, 32), (32, 32), (1, 0), False),
    ((41, 64), (40, 64), (0, 0), True),
    ((40, 72), (40, 64), (0, 0), False),
])  # fmt: skip
def test_tma_moves_a_part_that_begins_with_a_swizzle(whole, tile, start, by_tma):
    kernel = fixed(f16, whole, tile, start, 128, True)
    text = kernel.compile("sm_90", verify=True).explain(rejected=0)
    assert ("tma.load" in text) == by_tma


@pytest.mark.parametrize("rows", [128, 129, 132, 136])
def test_each_of_several_boxes_begins_with_a_swizzle(rows):
    """A product's result leaves 8 columns of 128 rows at a time; where the tensor has a row more,
    the next 8 columns begin a row later."""

    @hx.kernel(cache=False)
    def kernel(a: f16[128, 64], b: f16[64, 64], c: f32[128, 64]):
        hx.attrs.cuda.grid_dim = 1
        sa, sb = hx.shared_tensor(f16, (128, 64, 1)), hx.shared_tensor(f16, (64, 64, 1))
        sc, pipe = hx.shared_tensor(f32, (rows, 64, 2)), hx.pipeline(1)
        with hx.warp_groups_producer(), pipe.produce() as s:
            hx.copy(hx.global_view(a, ((128, 64), (64, 1))), sa[:, :, s])
            hx.copy(hx.global_view(b, ((64, 64), (64, 1))), sb[:, :, s])
        with hx.warp_groups_consumer(2):
            rc = hx.register_tensor(f32, (128, 64))
            hx.fill(rc, 0.0)
            with pipe.consume() as s:
                hx.gemm(rc, sa[:, :, s], sb[:, :, s])
            hx.copy(rc, sc[0:128, :, 0])
            hx.sync_role()
            hx.copy(sc[0:128, :, 0], hx.global_view(c, ((128, 64), (64, 1))))

    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (n, 64)).astype(np.float16) for n in (128, 64))
    c = np.zeros((128, 64), np.float32)
    compiled = kernel.compile("sm_90", verify=True)
    assert not compiled.simulate(a, b, c).findings
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)
    assert ("tma.store" in compiled.explain(rejected=0)) == (rows % 8 == 0)


def test_what_only_tma_does_to_a_part_is_refused_where_it_cannot():
    def kernel(a: f16[32, 32], o: f16[32, 32]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        s = hx.shared_tensor(f16, (64, 32))
        full = hx.mbarrier(1)
        if hx.threadIdx.x == 0:
            full.expect(32 * 32 * 2)
        hx.copy(hx.global_view(a, ((32, 32), (32, 1))), s[1:33, :], mbarrier=full)
        full.wait(0)

    with pytest.raises(NoLayout, match="bytes into eight rows") as caught:
        _ = hx.kernel(kernel, cache=False).compile("sm_90").solution
    assert caught.value.span.file.endswith("test_shared_parts.py")


def test_what_a_barrier_waits_for_is_copied_though_nobody_reads_it():
    """Else the wait would have no end."""

    def by_hand(a: f16[32, 64]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        s, full = hx.shared_tensor(f16, (32, 64)), hx.mbarrier(1)
        if hx.threadIdx.x == 0:
            full.expect(s.nbytes)
        hx.copy(hx.global_view(a, ((32, 64), (64, 1))), s, mbarrier=full)
        full.wait(0)

    def by_pipeline(a: f16[32, 64]):
        hx.attrs.cuda.grid_dim = 1
        s, pipe = hx.shared_tensor(f16, (32, 64, 2)), hx.pipeline(2)
        with hx.warp_groups_producer():
            for _ in range(3):
                with pipe.produce() as slot:
                    hx.copy(hx.global_view(a, ((32, 64), (64, 1))), s[:, :, slot])
        with hx.warp_groups_consumer():
            for _ in range(3):
                with pipe.consume():
                    pass

    for kernel in (by_hand, by_pipeline):
        compiled = hx.kernel(kernel, cache=False).compile("sm_90", verify=True)
        assert not compiled.simulate(np.ones((32, 64), np.float16)).findings


def operand(part, k):
    """c = a b^T with `part` of a shared tensor as a."""

    @hx.kernel(cache=False)
    def product(a: f16[72, 128], b: f16[64, 128], c: f32[64, 64]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 128
        sa, sb = hx.shared_tensor(f16, (72, 128)), hx.shared_tensor(f16, (64, 128))
        hx.copy(hx.global_view(a, ((72, 128), (128, 1))), sa)
        hx.copy(hx.global_view(b, ((64, 128), (128, 1))), sb)
        hx.syncthreads()
        rc = hx.register_tensor(f32, (64, 64))
        hx.fill(rc, 0.0)
        (y, x) = part
        hx.gemm(rc, sa[y : y + 64, x : x + k], sb[:, x : x + k])
        hx.copy(rc, hx.global_view(c, ((64, 64), (64, 1))))

    return product


@pytest.mark.parametrize("part, k, fits", [
    ((0, 0), 128, True), ((8, 0), 128, True), ((0, 64), 64, True), ((0, 32), 32, True),
    ((8, 16), 16, True), ((1, 0), 128, False), ((4, 64), 64, False),
])  # fmt: skip
def test_a_product_reads_a_part_that_begins_with_a_core(part, k, fits):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (rows, 128)).astype(np.float16) for rows in (72, 64))
    c = np.zeros((64, 64), np.float32)
    kernel = operand(part, k)
    if not fits:
        with pytest.raises(HexcuteError, match="test_shared_parts.py"):
            kernel.compile("sm_90", verify=True).simulate(a, b, c)
        return
    kernel.compile("sm_90", verify=True).simulate(a, b, c)
    (y, x) = part
    mine, other = a[y : y + 64, x : x + k], b[:, x : x + k]
    np.testing.assert_array_equal(c, mine.astype(np.float32) @ other.astype(np.float32).T)
