"""Between what threads write and what TMA does with the same bytes stands a fence, and the
simulator misses each one that is taken away."""

# ruff: noqa: SIM117
import numpy as np
import pytest
from mutations import mutants
from sm90_reading import walk

import hexcute_core as hx
from hexcute_core import f16, f32, i32
from hexcute_core.simulator import simulate
from hexcute_core.thread import Prim

N = 64


def square(t):
    return hx.global_view(t, ((N, N), (N, 1)))


def overwritten(a: f16[N, N], c: f16[N, N]):
    """TMA writes what threads wrote before."""
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 128
    s, full = hx.shared_tensor(f16, (N, N)), hx.mbarrier(1)
    ra, rb = hx.register_tensor(f16, (N, N)), hx.register_tensor(f16, (N, N))
    hx.fill(ra, 7.0)
    hx.copy(ra, s)
    hx.syncthreads()
    hx.copy(s, rb)
    hx.syncthreads()
    if hx.threadIdx.x == 0:
        full.expect(s.nbytes)
    hx.copy(square(a), s, mbarrier=full)
    full.wait(0)
    hx.copy(s, ra)
    hx.copy(ra + rb, square(c))


def shared_by_tensors(a: f16[N, N], b: f16[N, N], c: f16[N, N]):
    """TMA writes bytes of the arena that were another tensor's, which threads wrote."""
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 256
    before, ring = hx.shared_tensor(f16, (N, N)), hx.shared_tensor(f16, (N, N, 1))
    pipe = hx.pipeline(1)
    ra, rb = hx.register_tensor(f16, (N, N)), hx.register_tensor(f16, (N, N))
    hx.copy(square(a), ra)
    hx.copy(ra + 7.0, before)
    hx.syncthreads()
    hx.copy(before, rb)
    hx.copy(rb, square(b))
    with hx.warp_groups_producer():
        with pipe.produce() as slot:
            hx.copy(square(a), ring[:, :, slot])
    with hx.warp_groups_consumer():
        r = hx.register_tensor(f16, (N, N))
        with pipe.consume() as slot:
            hx.copy(ring[:, :, slot], r)
        hx.copy(r + 7.0, square(c))


def slot_in_place(a: f16[N, N], c: f16[N, N]):
    """A reader of a pipeline changes its slot, which TMA fills again."""
    hx.attrs.cuda.grid_dim = 1
    ring, pipe = hx.shared_tensor(f16, (N, N, 1)), hx.pipeline(1)
    with hx.warp_groups_producer():
        for _ in range(2):
            with pipe.produce() as slot:
                hx.copy(square(a), ring[:, :, slot])
    with hx.warp_groups_consumer():
        r, total = hx.register_tensor(f16, (N, N)), hx.register_tensor(f16, (N, N))
        hx.fill(total, 7.0)
        for _ in range(2):
            with pipe.consume() as slot:
                hx.copy(ring[:, :, slot], r)
                hx.sync_role()
                hx.copy(r + 1.0, ring[:, :, slot])
                hx.sync_role()
                hx.copy(ring[:, :, slot], r)
            total = r
        hx.copy(total + 6.0, square(c))


def read_back(a: f16[N, N], t: f16[N, N], c: f16[N, N]):
    """TMA loads from global memory what threads stored there."""
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 128
    s, r, full = hx.shared_tensor(f16, (N, N)), hx.register_tensor(f16, (N, N)), hx.mbarrier(1)
    hx.copy(square(a), r)
    hx.copy(r + 7.0, square(t))
    hx.syncthreads()
    if hx.threadIdx.x == 0:
        full.expect(s.nbytes)
    hx.copy(square(t), s, mbarrier=full)
    full.wait(0)
    hx.copy(s, r)
    hx.copy(r, square(c))


def added_to_what_threads_set(a: f32[N, N], c: f32[N, N]):
    """TMA adds to global memory that threads set before."""
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 128
    s, r = hx.shared_tensor(f32, (N, N)), hx.register_tensor(f32, (N, N))
    hx.fill(r, 7.0)
    hx.copy(r, square(c))
    hx.copy(square(a), r)
    hx.copy(r, s)
    hx.syncthreads()
    hx.copy(s, square(c), reduce="add")


def stored_and_read_by_threads(a: f16[N, N], t: f16[N, N], c: f16[N, N]):
    """Threads load from global memory what TMA stored there."""
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 128
    s, r = hx.shared_tensor(f16, (N, N)), hx.register_tensor(f16, (N, N))
    hx.copy(square(a), r)
    hx.copy(r + 7.0, s)
    hx.syncthreads()
    hx.copy(s, square(t))
    hx.syncthreads()
    hx.copy(square(t), r)
    hx.copy(r, square(c))


def gathered(a: f16[N, N], c: f16[N, N]):
    """TMA stores, and adds 7 to, what a role only started to copy: rows that numbers name."""
    hx.attrs.cuda.grid_dim = 1
    ring, pipe, rows = hx.shared_tensor(f16, (N, N, 2)), hx.pipeline(2), hx.shared_tensor(i32, (N,))
    with hx.warp_groups_producer():
        hx.copy(hx.iota((N,), 0), rows)
        hx.sync_role()
        for _ in range(3):
            with pipe.produce() as slot:
                hx.copy(hx.global_view(a, ((N, N), (rows, 1))), ring[:, :, slot])
    with hx.warp_groups_consumer():
        seven, r = hx.shared_tensor(f16, (N, N)), hx.register_tensor(f16, (N, N))
        hx.fill(r, 7.0)
        for _ in range(3):
            with pipe.consume() as slot:
                hx.copy(ring[:, :, slot], square(c))
                hx.sync_role()
        hx.copy(r, seven)
        hx.sync_role()
        hx.copy(seven, square(c), reduce="add")


def seldom_gathered(a: f16[N, N], c: f16[N, N]):
    """The same, where most slots come by TMA."""
    hx.attrs.cuda.grid_dim = 1
    ring, pipe, rows = hx.shared_tensor(f16, (N, N, 2)), hx.pipeline(2), hx.shared_tensor(i32, (N,))
    with hx.warp_groups_producer():
        hx.copy(hx.iota((N,), 0), rows)
        hx.sync_role()
        for i in range(4):
            if i == 2:
                with pipe.produce() as slot:
                    hx.copy(hx.global_view(a, ((N, N), (rows, 1))), ring[:, :, slot])
            else:
                with pipe.produce() as slot:
                    hx.copy(square(a), ring[:, :, slot])
    with hx.warp_groups_consumer():
        seven, r = hx.shared_tensor(f16, (N, N)), hx.register_tensor(f16, (N, N))
        hx.fill(r, 7.0)
        for i in range(4):
            with pipe.consume() as slot:
                if i >= 2:
                    hx.copy(ring[:, :, slot], square(c))
                    hx.sync_role()
        hx.copy(r, seven)
        hx.sync_role()
        hx.copy(seven, square(c), reduce="add")


KERNELS = {
    kernel.__name__: hx.kernel(kernel, cache=False)
    for kernel in (
        overwritten, shared_by_tensors, slot_in_place, read_back, added_to_what_threads_set,
        stored_and_read_by_threads, gathered, seldom_gathered,
    )
}  # fmt: skip


def arguments(kernel):
    count = len(kernel.definition.tensors)
    kind = np.float32 if kernel is KERNELS["added_to_what_threads_set"] else np.float16
    a = (np.arange(N * N) % 50).reshape(N, N).astype(kind)
    return a, [a.copy(), *(np.zeros_like(a) for _ in range(count - 1))]


def fences(program):
    return [s.name for s in walk(program.body) if isinstance(s, Prim) and "fence.proxy" in s.name]


@pytest.mark.parametrize("name", KERNELS)
def test_what_both_proxies_touch_is_ordered(name):
    a, arrays = arguments(KERNELS[name])
    compiled = KERNELS[name].compile("sm_90", verify=True)
    assert not compiled.simulate(*arrays, schedules=4).findings
    np.testing.assert_array_equal(arrays[-1], a + 7)


@pytest.mark.parametrize("name, fence", [
    ("overwritten", "fence.proxy"), ("shared_by_tensors", "fence.proxy"),
    ("slot_in_place", "fence.proxy"), ("gathered", "fence.proxy"),
    ("seldom_gathered", "fence.proxy"),
    ("read_back", "fence.proxy.global"), ("added_to_what_threads_set", "fence.proxy.global"),
])  # fmt: skip
def test_a_fence_that_is_missing_is_found(name, fence):
    program = KERNELS[name].compile("sm_90").thread
    found = fences(program)
    assert fence in found
    for mutant, gone in mutants(program):
        if gone.name == fence:
            kinds = set()
            for seed in range(4):
                _, arrays = arguments(KERNELS[name])
                names = {p.name: x for p, x in zip(program.params, arrays)}
                report = simulate(mutant, names, {}, seed=seed, check=False)
                kinds |= {f.kind for f in report.findings}
            assert "missing fence" in kinds, gone.span


@pytest.mark.parametrize("name, fence", [
    ("overwritten", "fence.proxy.async.shared::cta;"), ("read_back", "fence.proxy.async.global;"),
])  # fmt: skip
def test_the_machine_has_the_fence(name, fence):
    compiled = KERNELS[name].compile("sm_90")
    assert fence in compiled.source() and len(compiled.built.cubin)


def test_copies_that_arrive_by_themselves_are_fenced_by_whoever_waited():
    names = [s.name for s in walk(KERNELS["gathered"].compile("sm_90").thread.body)
             if isinstance(s, Prim)]  # fmt: skip
    assert names[names.index("cp.async.16") + 1] == "cp.async.mbarrier", "nobody waits before"
    waits = [i for i, name in enumerate(names) if name == "mbarrier.wait"]
    assert [names[i + 1] == "fence.proxy" for i in waits] == [False, True], "empty, then full"


def test_where_most_come_by_tma_the_thread_that_copied_fences():
    """Whoever waits for a slot is not held up by a fence, for which few of them would need it."""
    names = [s.name for s in walk(KERNELS["seldom_gathered"].compile("sm_90").thread.body)
             if isinstance(s, Prim)]  # fmt: skip
    at = names.index("cp.async.16")
    want = ["cp.async.16", "cp.async.commit", "cp.async.wait", "fence.proxy", "bar.warp.sync"]
    assert names[at : at + 5] == want and "cp.async.mbarrier" not in names
    waits = [i for i, name in enumerate(names) if name == "mbarrier.wait"]
    assert all(names[i + 1] != "fence.proxy" for i in waits)


def test_what_only_tma_touches_has_no_fence():
    def moved(a: f16[N, N], c: f16[N, N]):
        hx.attrs.cuda.grid_dim = 1
        ring, pipe = hx.shared_tensor(f16, (N, N, 2)), hx.pipeline(2)
        with hx.warp_groups_producer():
            with pipe.produce() as slot:
                hx.copy(square(a), ring[:, :, slot])
        with hx.warp_groups_consumer():
            r = hx.register_tensor(f16, (N, N))
            with pipe.consume() as slot:
                hx.copy(ring[:, :, slot], r)
            hx.copy(r, square(c))

    assert not fences(hx.kernel(moved, cache=False).compile("sm_90").thread)
