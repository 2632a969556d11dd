"""What is chosen by sizes alone, beside what was measured."""

from __future__ import annotations

import numpy as np
import pytest

from hexcute_kernels.moe.configs import DENSE, ROUTED
from hexcute_kernels.moe.cost import tiles_of
from hexcute_kernels.moe.layer_operator import Routed
from hexcute_kernels.moe.operators import Dense

MEASURED = {
    (64, 4096, 4096): {(64, 128, 4): 10.3, (32, 256, 4): 12.4, (32, 128, 2): 12.6},
    (128, 4096, 4096): {(64, 128, 2): 15.4, (64, 256, 4): 16.2, (32, 256, 2): 18.5},
    (128, 14336, 4096): {(128, 128, 1): 32.3, (64, 256, 1): 33.0, (128, 256, 2): 33.7},
    (1024, 14336, 4096): {(152, 256, 1): 166.6, (128, 256, 1): 186.8},
    (4096, 14336, 4096): {(128, 256, 1): 668.5, (136, 256, 1): 704.4},
    (4096, 28672, 8192): {(152, 256, 1): 2591, (144, 256, 1): 2669, (128, 256, 1): 2700},
    (1024, 8192, 28672): {(128, 256, 1): 641.3, (152, 256, 1): 694.2},
}
"""Microseconds on an H200 by rows and columns of a tile and parts of k."""


@pytest.mark.parametrize(("m", "n", "k"), MEASURED)
def test_of_measured_tiles_the_fastest_are_chosen(m: int, n: int, k: int) -> None:
    times, cost = MEASURED[m, n, k], DENSE.cost
    tiles = {(c.BM, c.BN, c.SPLIT): c for c in DENSE}
    assert cost is not None
    chosen = min(times, key=lambda tile: cost(tiles[tile], Dense(m=m, n=n, k=k), "h200"))
    assert times[chosen] <= 1.01 * min(times.values())


@pytest.mark.parametrize("rows", [16, 80, 152])
@pytest.mark.parametrize("share", [8, 60, 128, 500])
def test_tiles_that_experts_fill(share: int, rows: int) -> None:
    """The mean over experts that a router without favourites chooses among, to a twentieth."""
    rng = np.random.default_rng(0)
    counts = rng.poisson(share, 20000)
    assert tiles_of(share, rows) == pytest.approx(np.mean(-(-counts // rows)), rel=0.05)


def test_tiles_are_as_high_as_most_experts_need() -> None:
    """One tile an expert where it holds nearly all of them."""

    def high(tokens: int, width: int) -> int:
        sizes = {"hidden": 7168, "experts": 256, "top_k": 8, "scope": "gemms"}
        return ROUTED.choose("h200", Routed(m=tokens, width=width, **sizes)).first.BM

    assert [high(tokens, 2048) for tokens in (2048, 4096, 8192)] == [80, 152, 144]
    assert [high(tokens, 768) for tokens in (256, 2048, 4096)] == [16, 80, 152]
