"""New keys and values come to their places, and pairs are turned: lane by lane, and as it is
called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hexcute_core as hx
from hexcute_kernels.attention.appending import append_kernel


@dataclass(frozen=True)
class Case:
    """`turned` pairs of heads of width d; `page` rows a page of the cache."""

    lengths: tuple[int, ...]
    sq: int
    h: int
    hk: int
    d: int
    sk: int
    turned: int
    paired: bool = False
    page: int | None = None
    narrow: bool = False
    target: str = "sm_90"


CASES = (
    Case((5, 1, 32), 1, 8, 2, 64, 32, 32),
    Case((5, 1, 33), 2, 4, 4, 64, 32, 16, paired=True, page=16, target="sm_80"),
    Case((0, 9), 3, 6, 3, 96, 16, 48, paired=True, page=4, narrow=True),
    Case((3, 9), 1, 5, 1, 128, 16, 0, target="sm_80"),
    Case((16, 7), 8, 9, 1, 40, 16, 12, page=1),
)


def turned_pairs(x: np.ndarray, cos: np.ndarray, sin: np.ndarray, case: Case) -> np.ndarray:
    """Rows x (token, head, d) by the angles of their places (token, pairs)."""
    y, t = x.astype(np.float32), case.turned
    cuts = (np.s_[..., : 2 * t : 2], np.s_[..., 1 : 2 * t : 2])
    first, second = cuts if case.paired else (np.s_[..., :t], np.s_[..., t : 2 * t])
    a, b, c, s = y[first].copy(), y[second].copy(), cos[:, None], sin[:, None]
    y[first], y[second] = a * c - b * s, b * c + a * s
    return y


@pytest.mark.parametrize("case", CASES, ids=str)
def test_against_the_definition(case: Case) -> None:
    rng, b, sq, sk = np.random.default_rng(0), len(case.lengths), case.sq, case.sk
    kind: Any = ml_dtypes.float8_e4m3fn if case.narrow else np.float16
    tokens, page, most = b * sq, case.page or sk, sk // (case.page or sk)
    q, k, v = (
        rng.normal(size=(tokens, heads, case.d)).astype(np.float16)
        for heads in (case.h, case.hk, case.hk)
    )
    spare = 3 if case.page else 0
    table = np.arange(b * most)
    if case.page:
        table = rng.permutation(b * most + spare)[: b * most]
    table = table.astype(np.int32).reshape(b, most)
    caches = [
        rng.normal(size=((b * most + spare) * page, case.hk, case.d)).astype(kind)
        for _ in range(2)
    ]
    want = [c.astype(np.float32) for c in caches]
    cos, sin = rng.normal(size=(2, sk, case.turned)).astype(np.float32)
    out = np.full_like(q, np.nan)
    more = [table] * (case.page is not None) + [cos, sin] * (case.turned > 0)
    append_kernel(
        hx.f16, hx.f8e4m3 if case.narrow else hx.f16, case.d, sq, case.turned, case.paired,
        case.page,
    ).simulate(
        q, k, v, *caches, np.array(case.lengths, np.int32), *more, out, 0.5, 2.0, sk,
        target=case.target,
    )  # fmt: skip
    places = np.array([n - sq + i for n in case.lengths for i in range(sq)])
    there = (places >= 0) & (places < sk)
    angles = cos[np.where(there, places, 0)], sin[np.where(there, places, 0)]
    queries, keys = (turned_pairs(x, *angles, case) for x in (q, k))
    np.testing.assert_allclose(out[there].astype(float), queries[there], atol=2e-3, rtol=1e-3)
    for t in np.flatnonzero(there):
        row = table[t // sq, places[t] // page] * page + places[t] % page
        want[0][row], want[1][row] = keys[t] * 0.5, v[t].astype(np.float32) * 2.0
    # Three bits of a fraction, where the cache is of 8 bits.
    error = {"rtol": 2.0**-4, "atol": 2.0**-9} if case.narrow else {"rtol": 1e-3, "atol": 2e-3}
    for got, wanted in zip(caches, want):
        np.testing.assert_allclose(got.astype(float), wanted, **error)


def test_a_place_without_an_angle_gives_no_number() -> None:
    q, k = np.ones((1, 1, 64), np.float16), np.ones((1, 1, 64), np.float16)
    caches, out = np.zeros((2, 16, 1, 64), np.float16), np.zeros_like(q)
    angles = np.ones((4, 32), np.float32)
    append_kernel(hx.f16, hx.f16, 64, 1, 32, False, None).simulate(
        q, k, k, *caches, np.array([5], np.int32), angles, angles, out, 1.0, 1.0, 16,
        target="sm_80",
    )  # fmt: skip
    assert np.isnan(out).all() and np.isnan(caches[0, 4]).all() and (caches[1, 4] == 1).all()
