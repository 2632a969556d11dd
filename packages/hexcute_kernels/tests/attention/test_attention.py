"""The attention kernels, every lane of every block, against the definition."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
from attention_reference import attention

import hexcute_core as hx
from hexcute_core.errors import FrontendError
from hexcute_kernels.attention.pipelined import pipelined_attention
from hexcute_kernels.attention.warp_specialized import warp_specialized_attention


class Sizes(NamedTuple):
    b: int
    h: int
    hk: int
    sq: int
    sk: int
    d: int
    dv: int


class Mask(NamedTuple):
    right: int | None = None
    left: int | None = None
    cap: float = 0.0


WGMMA = {
    "turns": {"BN": 64},
    "narrow": {"BN": 48, "STAGES": 3, "GUESS": True},
    "three": {"BM": 192, "BN": 64, "GROUPS": 3, "GUESS": True},
    "one": {"BM": 64, "BN": 64, "GROUPS": 1, "STAGES": 3},
    "heads": {"BN": 64, "ORDER": "heads", "EARLY": True, "AHEAD": True},
    "guess": {"BN": 64, "GUESS": True},
    "early": {"BM": 64, "BN": 48, "GROUPS": 1, "EARLY": True, "GUESS": True},
    "four": {"BM": 256, "BN": 32, "GROUPS": 4, "EARLY": True, "GUESS": True},
    "skip": {"BM": 192, "BN": 48, "GROUPS": 3, "STAGES": 3, "GUESS": True, "SKIP": True},
    "skip exact": {"BN": 32, "STAGES": 3, "ORDER": "heads", "SKIP": True},
    # The first group would skip six blocks, which two slots do not hold.
    "skip few": {"BM": 256, "BN": 32, "GROUPS": 4, "GUESS": True, "SKIP": True},
}
MMA = {"four": {}, "eight": {"BM": 128, "BN": 32, "WARPS": 8, "HELD": False}}
CASES = (
    ("wgmma", "turns", Sizes(1, 2, 1, 132, 300, 64, 64), Mask()),
    ("wgmma", "narrow", Sizes(1, 2, 2, 132, 132, 64, 64), Mask(right=0)),
    ("wgmma", "three", Sizes(1, 1, 1, 200, 100, 64, 64), Mask(right=0)),
    ("wgmma", "one", Sizes(2, 2, 1, 4, 1, 128, 128), Mask()),
    ("wgmma", "one", Sizes(1, 1, 1, 60, 200, 64, 64), Mask(left=3)),
    ("wgmma", "heads", Sizes(2, 4, 2, 132, 140, 24, 40), Mask(right=0, left=70)),
    ("wgmma", "heads", Sizes(1, 2, 1, 100, 300, 128, 128), Mask(right=20, left=70, cap=5.0)),
    ("wgmma", "turns", Sizes(1, 1, 1, 72, 200, 192, 128), Mask()),
    ("wgmma", "turns", Sizes(1, 1, 1, 72, 90, 256, 256), Mask(right=0)),
    ("wgmma", "guess", Sizes(1, 2, 1, 132, 300, 64, 64), Mask(right=0)),
    ("wgmma", "guess", Sizes(1, 2, 1, 132, 300, 72, 64), Mask(left=70, cap=5.0)),
    ("wgmma", "heads", Sizes(1, 1, 1, 132, 200, 72, 64), Mask(left=70)),
    ("wgmma", "four", Sizes(1, 1, 1, 264, 100, 64, 64), Mask(right=0)),
    ("wgmma", "early", Sizes(2, 2, 1, 132, 140, 64, 64), Mask(right=20, left=70)),
    ("wgmma", "narrow", Sizes(1, 2, 1, 132, 300, 64, 64), Mask(cap=5.0)),
    ("wgmma", "early", Sizes(1, 1, 1, 72, 200, 192, 256), Mask(right=0)),
    ("wgmma", "skip", Sizes(1, 2, 1, 400, 400, 64, 64), Mask(right=0)),
    ("wgmma", "skip", Sizes(1, 1, 1, 200, 330, 128, 128), Mask(right=0)),
    ("wgmma", "skip", Sizes(1, 1, 1, 240, 130, 64, 64), Mask(right=0)),
    ("wgmma", "skip", Sizes(1, 1, 1, 200, 200, 64, 64), Mask(right=9, left=30)),
    ("wgmma", "skip", Sizes(1, 1, 1, 200, 200, 64, 64), Mask(left=70)),
    ("wgmma", "skip", Sizes(1, 1, 1, 72, 200, 64, 64), Mask()),
    ("wgmma", "skip exact", Sizes(1, 2, 1, 260, 260, 64, 64), Mask(right=0)),
    ("wgmma", "skip exact", Sizes(1, 1, 1, 132, 132, 128, 128), Mask(right=0, left=70)),
    ("wgmma", "skip few", Sizes(1, 1, 1, 400, 400, 64, 64), Mask(right=0)),
    ("wgmma", "skip few", Sizes(1, 1, 1, 256, 290, 64, 64), Mask(right=3, cap=5.0)),
    ("mma", "four", Sizes(1, 2, 1, 132, 300, 64, 64), Mask()),
    ("mma", "four", Sizes(2, 2, 1, 100, 130, 64, 64), Mask(right=0, left=40)),
    ("mma", "four", Sizes(1, 2, 1, 100, 70, 40, 24), Mask(right=0, cap=3.0)),
    ("mma", "eight", Sizes(1, 1, 1, 72, 70, 128, 128), Mask()),
    ("mma", "four", Sizes(1, 1, 1, 4, 1, 256, 256), Mask()),
    ("mma", "four", Sizes(1, 1, 1, 16, 50, 33, 33), Mask(right=0)),
)
NUMPY: dict[str, Any] = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
# One width is enough for the second type.
TYPED = [(hx.f16, *case) for case in CASES] + [(hx.bf16, *c) for c in CASES if c[2].d == 64]


@pytest.mark.parametrize(("dtype", "variant", "config", "sizes", "mask"), TYPED, ids=str)
def test_against_the_definition(
    dtype: hx.DType, variant: str, config: str, sizes: Sizes, mask: Mask
) -> None:
    b, h, hk, sq, sk, d, dv = sizes
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32).astype(NUMPY[dtype.name])

    q, k, v = normal(b, sq, h, d), normal(b, sk, hk, d), normal(b, sk, hk, dv)
    o = np.full((b, sq, h, dv), np.nan, q.dtype)
    lse = np.full((b, h, sq), np.nan, np.float32)
    make, table, target = (
        (warp_specialized_attention, WGMMA, "sm_90")
        if variant == "wgmma"
        else (pipelined_attention, MMA, "sm_80")
    )
    flags = (mask.right is not None, mask.left is not None, mask.cap > 0, True)
    compiled = make(dtype, d, dv, *flags).compile(
        target, constants=table[config], aligned=d % 8 == 0
    )
    scale = d**-0.5
    compiled.simulate(q, k, v, o, lse, scale, mask.right or 0, mask.left or 0, mask.cap)
    want, logs = attention(q, k, v, scale, mask.right, mask.left, mask.cap)
    bits = 11 if dtype is hx.f16 else 8
    np.testing.assert_allclose(o.astype(np.float64), want, atol=3 * 2.0**-bits, rtol=2.0**-bits)
    np.testing.assert_allclose(lse, logs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("seed", range(12))
def test_random_problems(seed: int) -> None:
    """Shapes, heads, masks and configurations as they are drawn."""
    draw = random.Random(seed)
    hk = draw.choice([1, 2])
    sizes = Sizes(
        b=draw.choice([1, 2]), h=hk * draw.choice([1, 2]), hk=hk, sq=4 * draw.randrange(1, 40),
        sk=draw.randrange(1, 200), d=8 * draw.randrange(2, 12), dv=8 * draw.randrange(2, 12),
    )  # fmt: skip
    bounds = [None, 0, draw.randrange(1, 100)]
    mask = Mask(draw.choice(bounds), draw.choice(bounds), draw.choice([0.0, 0.0, 4.0]))
    test_against_the_definition(hx.f16, "wgmma", draw.choice(list(WGMMA)), sizes, mask)


@pytest.mark.parametrize("config", ["turns", "one", "guess"])
@pytest.mark.parametrize("growth", [-0.5, 0.02, 0.5])
def test_scores_that_grow_along_the_keys(config: str, growth: float) -> None:
    """A maximum follows where it has to, keys being walked from either side: rows whose scores grow
    by 2^80, or slowly past what stays unscaled."""
    rng = np.random.default_rng(1)
    q, k, v = (rng.normal(size=(1, n, 1, 64)).astype(np.float32) for n in (96, 260, 260))
    q[..., 0] = np.where(np.arange(96)[None, :, None] % 3 == 1, 1.0, -1.0)
    k[..., 0] = growth * np.arange(260)[None, :, None]
    q, k, v = (x.astype(np.float16) for x in (q, k, v))
    o, lse = np.full(q.shape, np.nan, np.float16), np.full((1, 1, 96), np.nan, np.float32)
    kernel = warp_specialized_attention(hx.f16, 64, 64, with_lse=True)
    compiled = kernel.compile("sm_90", constants=WGMMA[config])
    compiled.simulate(q, k, v, o, lse, 0.5, 0, 0, 0.0)
    want, logs = attention(q, k, v, 0.5)
    np.testing.assert_allclose(o.astype(np.float64), want, atol=3 * 2.0**-11, rtol=2.0**-11)
    np.testing.assert_allclose(lse, logs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("config", ["one", "guess"])
@pytest.mark.parametrize("dtype", [hx.f16, hx.bf16], ids=str)
def test_a_late_key_that_outweighs_all_others_gives_its_value(
    dtype: hx.DType, config: str
) -> None:
    """Bit for bit, whatever its weight is rounded to: rows whose last walked key has 2^10 to 2^13
    times the weight of the first, and whose other keys have none."""
    kind = NUMPY[dtype.name]
    q, k = (np.zeros((1, n, 1, 64), kind) for n in (64, 128))
    q[..., 0], k[..., 0] = 1.0, -200.0
    q[..., 1] = np.linspace(10, 13, 64)[None, :, None]
    k[0, 120, 0, 0], k[0, 0, 0, :2] = 0.0, (0.0, 1.0)  # The same thread sums both.
    v = np.random.default_rng(2).uniform(1, 2, (1, 128, 1, 64)).astype(kind)
    v[0, 120] = 1.0 if dtype is hx.f16 else 0.0
    o, lse = np.full(q.shape, np.nan, kind), np.full((1, 1, 64), np.nan, np.float32)
    kernel = warp_specialized_attention(dtype, 64, 64, with_lse=True)
    compiled = kernel.compile("sm_90", constants=WGMMA[config])
    compiled.simulate(q, k, v, o, lse, np.log(2), 0, 0, 0.0)
    want, logs = attention(q, k, v, np.log(2))
    exact = want.astype(kind) if dtype is hx.f16 else np.broadcast_to(v[:, :1], o.shape)
    np.testing.assert_array_equal(o, exact)
    np.testing.assert_allclose(lse, logs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("config", "sq", "sk", "seed"), [("skip", 192, 240, 4), ("skip exact", 128, 200, 10)]
)
def test_no_warp_misses_a_slot_that_its_group_skips(
    config: str, sq: int, sk: int, seed: int
) -> None:
    """In orders of warps in which one comes to a slot when its group has passed on to others."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(1, n, 1, 64)).astype(np.float16) for n in (sq, sk, sk))
    o, none = np.full_like(q, np.nan), np.zeros((0, 0, 0), np.float32)
    warp_specialized_attention(hx.f16, 64, 64, True).simulate(
        q, k, v, o, none, 0.125, 0, 0, 0.0, target="sm_90", seed=seed, schedules=3, **WGMMA[config]
    )
    want, _ = attention(q, k, v, 0.125, 0)
    np.testing.assert_allclose(o.astype(np.float64), want, atol=3 * 2.0**-11, rtol=2.0**-11)


def test_queries_that_see_no_key_give_zeros() -> None:
    q = np.ones((1, 8, 1, 64), np.float16)
    k = v = np.ones((1, 4, 1, 64), np.float16)
    o, lse = np.full_like(q, np.nan), np.full((1, 1, 8), np.nan, np.float32)
    kernel = warp_specialized_attention(hx.f16, 64, 64, True, with_lse=True)
    constants = {"BM": 64, "BN": 64, "GROUPS": 1}
    kernel.compile("sm_90", constants=constants).simulate(q, k, v, o, lse, 0.125, 0, 0, 0.0)
    assert (o[0, :4] == 0).all() and (o[0, 4:] == 1).all()
    assert np.isneginf(lse[0, 0, :4]).all() and np.isfinite(lse[0, 0, 4:]).all()


def test_an_order_that_there_is_not_names_those_there_are() -> None:
    compiled = warp_specialized_attention(hx.f16, 64, 64).compile("sm_90", ORDER="sideways")
    with pytest.raises(FrontendError, match="ORDER is one of 'rows', 'heads', not 'sideways'"):
        _ = compiled.thread
