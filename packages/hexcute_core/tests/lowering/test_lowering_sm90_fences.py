"""Asynchronous copies by threads are there, and visible to TMA and wgmma, where they are read."""

import numpy as np
import pytest
from sm90_reading import prims, walk

import hexcute_core as hx
from hexcute_core import f16, f32
from hexcute_core.thread import Prim

m, n, k = hx.dims("m n k")


@hx.kernel(cache=False)
def copied(a: f16[m, k], c: f16[m, k]):
    """Through shared memory, no group named."""
    hx.attrs.cuda.grid_dim = hx.cdiv(m, 64)
    hx.attrs.cuda.block_dim = 128
    bm = hx.blockIdx.x * 64
    ga = hx.global_view(a[bm:, :], ((64, 64), (k, 1)))
    sa, ra = hx.shared_tensor(f16, (64, 64)), hx.register_tensor(f16, (64, 64))
    hx.copy(ga, sa)
    hx.syncthreads()
    hx.copy(sa, ra)
    hx.copy(ra, hx.global_view(c[bm:, :], ((64, 64), (k, 1))))


@hx.kernel(cache=False)
def multiplied(a: f16[m, k], b: f16[n, k], c: f16[m, n], *, GROUPED: bool = True):
    """wgmma by a whole block of one role, its operands brought by cp.async."""
    hx.attrs.cuda.grid_dim = 1
    hx.attrs.cuda.block_dim = 128
    tiles = hx.cdiv(k, 64)
    ga = hx.global_view(a, ((64, 64, tiles), (k, 1, 64)))
    gb = hx.global_view(b, ((64, 64, tiles), (k, 1, 64)))
    sa, sb = hx.shared_tensor(f16, (64, 64, 3)), hx.shared_tensor(f16, (64, 64, 3))
    rc = hx.register_tensor(f32, (64, 64))
    hx.fill(rc, 0.0)
    if GROUPED:
        for s in hx.static_range(2):
            hx.copy(ga[:, :, s], sa[:, :, s])
            hx.copy(gb[:, :, s], sb[:, :, s])
            hx.cp_async_commit()
        for i in range(tiles):
            hx.cp_async_wait(1)
            hx.syncthreads()
            hx.gemm(rc, sa[:, :, i % 3], sb[:, :, i % 3], asynchronous=True)
            hx.wait_gemm(0)
            hx.copy(ga[:, :, i + 2], sa[:, :, (i + 2) % 3])
            hx.copy(gb[:, :, i + 2], sb[:, :, (i + 2) % 3])
            hx.cp_async_commit()
    else:
        for i in range(tiles):
            hx.copy(ga[:, :, i], sa[:, :, 0])
            hx.copy(gb[:, :, i], sb[:, :, 0])
            hx.syncthreads()
            hx.gemm(rc, sa[:, :, 0], sb[:, :, 0])
            hx.syncthreads()
    hx.copy(hx.cast(rc, f16), hx.global_view(c, ((64, 64), (n, 1))))


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_a_barrier_finishes_copies_in_no_group(target):
    compiled = copied.compile(target, verify=True)
    a = np.arange(64 * 64, dtype=np.float16).reshape(64, 64) % 61
    c = np.zeros_like(a)
    report = compiled.simulate(a, c, schedules=3)
    assert not report.findings and np.array_equal(a, c)
    names = [s.name for s in walk(compiled.thread.body) if isinstance(s, Prim)]
    at = names.index("bar.sync")
    assert names[at - 2 : at] == ["cp.async.commit", "cp.async.wait"]


@pytest.mark.parametrize("grouped", [True, False])
def test_what_wgmma_reads_is_fenced_once_it_is_there(grouped):
    compiled = multiplied.compile("sm_90", verify=True, GROUPED=grouped)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (64, 320)).astype(np.float16) for _ in range(2))
    c = np.zeros((64, 64), np.float16)
    report = compiled.simulate(a, b, c, schedules=3)
    assert not report.findings
    assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)
    names = [s.name for s in walk(compiled.thread.body) if isinstance(s, Prim)]
    assert prims(compiled.thread, "cp.async.16")
    fences = [i for i, name in enumerate(names) if name == "fence.proxy"]
    assert all(names[i - 1] == "cp.async.wait" for i in fences)
    assert all(names[i + 1] == "bar.sync" for i in fences)


def test_the_authors_groups_are_not_finished_by_a_barrier():
    thread = multiplied.compile("sm_90").thread
    waits = [p.operands[0].value for p in prims(thread, "cp.async.wait")]
    assert waits == [1]
