"""Conditions that a role makes one: it learns at one barrier whether any of them holds, or all."""

from __future__ import annotations

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import f16, f32

m, k = hx.dims("m k")


@hx.device
def holds(conditions, every):
    rows, columns = conditions.shape
    flat = hx.reshape(conditions, (rows * columns,))
    one = hx.min(flat, 0) if every else hx.max(flat, 0)
    found = False
    for (i,) in hx.elements(one):
        found = one[i]
    return found


@hx.kernel
def loud_rows(a: f16[m, k], c: f32[m, 1], loud: f32, *, GROUPS: int = 1, EVERY: bool = False):
    """Sums of the blocks of 64 columns, of those alone in which a number of the tile is loud,
    or every one."""
    high = 64 * GROUPS
    hx.attrs.cuda.grid_dim = hx.cdiv(m, high)
    bm, tiles = hx.blockIdx.x * high, hx.cdiv(k, 64)
    ga = hx.global_view(a[bm:, :], ((high, 64, tiles), (k, 1, 64)))
    sa, pipe = hx.shared_tensor(f16, (high, 64, 2)), hx.pipeline(2)
    with hx.warp_groups_producer():
        for i in range(tiles):
            with pipe.produce() as s:
                hx.copy(ga[:, :, i], sa[:, :, s])
    with hx.warp_groups_consumer(GROUPS):
        total = hx.register_tensor(f32, (high, 1))
        hx.fill(total, 0.0)
        for _ in range(tiles):
            ra = hx.register_tensor(f16, (high, 64))
            with pipe.consume() as s:
                hx.copy(sa[:, :, s], ra)
            wide = hx.cast(ra, f32)
            if holds(wide > loud, EVERY):
                total += hx.sum(wide, 1)
        hx.copy(total, hx.global_view(c[bm:, :], ((high, 1), (1, 1))))


@pytest.mark.parametrize(
    ("groups", "every", "bound"), [(1, False, 5.0), (2, False, 5.0), (2, True, -2.5)]
)
def test_a_role_votes(groups: int, every: bool, bound: float) -> None:
    compiled = loud_rows.compile("sm_90", GROUPS=groups, EVERY=every, verify=True)
    rng = np.random.default_rng(0)
    a = rng.integers(-2, 3, (200, 328)).astype(np.float16)
    a[7, 70] = a[150, 200] = a[199, 327] = 9
    a[70, 130] = -9
    c = np.full((200, 1), np.nan, np.float32)
    compiled.simulate(a, c, bound, schedules=2)
    high = 64 * groups
    padded = np.pad(a.astype(np.float32), ((0, -200 % high), (0, -328 % 64)))
    blocks = padded.reshape(-1, high, 6, 64)
    told = (np.all if every else np.any)(blocks > bound, (1, 3), keepdims=True)
    want = (blocks * told).sum((2, 3)).reshape(-1, 1)[:200]
    np.testing.assert_array_equal(c, want)
    assert "bar.red.or" in compiled.source()
