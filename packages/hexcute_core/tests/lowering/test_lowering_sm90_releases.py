"""Who releases a slot: one thread for its warp group where a product made the group meet, else each
warp for itself."""

import numpy as np
import pytest
from role_kernels import store, tiles_of
from sm90_reading import prims, value

import hexcute_core as hx
from hexcute_core import f16, f32

m, n, k = hx.dims("m n k")


@hx.kernel(cache=False)
def passing_by(a: f16[m, k], b: f16[n, k], c: f16[m, n], *, HOW: str = "alone", EVERY: int = 8):
    """c = a b^T of the first and then each EVERY-th tile of k; others are passed by: each warp for
    itself, a group that meets, or in a branch of the loop that multiplies."""
    hx.attrs.cuda.grid_dim = 1
    ga, gb = tiles_of(a, 64, 0), tiles_of(b, 64, 0)
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
        hx.fill(rc, 0.0)
        for i in range(hx.cdiv(k, 64)):
            s = pipe.wait()
            if i % EVERY == 0:
                hx.gemm(rc, sa[:, :, s], sb[:, :, s])
            elif HOW == "meeting":
                hx.sync_role()
            pipe.release()
        store(rc, c, 0, 0, sc)


def arrivals(**config: object) -> list[int]:
    """Arrivals of the full and the empty barriers of the two slots."""
    thread = passing_by.compile("sm_90", verify=True, **config).thread
    return sorted(value(p.operands[1], {}) for p in prims(thread, "mbarrier.init"))


def test_one_thread_releases_for_a_group_that_has_met():
    assert arrivals(HOW="meeting") == [1, 1, 1, 1]
    assert arrivals(EVERY=1) == [1, 1, 1, 1]


def test_each_warp_releases_what_it_may_pass_by():
    assert arrivals(HOW="alone") == [1, 1, 4, 4]


@pytest.mark.parametrize("how", ["alone", "meeting"])
def test_no_warp_misses_a_round(how):
    """With one release for the group, a warp that falls behind waits for a round that is over."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (64, 640)).astype(np.float16) for _ in range(2))
    c = np.full((64, 64), np.nan, np.float16)
    report = passing_by.simulate(a, b, c, target="sm_90", schedules=6, HOW=how)
    assert not report.findings
    kept = [i for start in (0, 512) for i in range(start, start + 64)]
    np.testing.assert_array_equal(c, a[:, kept].astype(float) @ b[:, kept].astype(float).T)
