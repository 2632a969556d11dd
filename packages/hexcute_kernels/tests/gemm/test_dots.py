"""The GEMM by dot products: every lane of every block, and its machine code."""

from __future__ import annotations

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_kernels.gemm.candidates import DOTS
from hexcute_kernels.gemm.configs import DotsConfig
from hexcute_kernels.gemm.dots import dots
from hexcute_kernels.tables import constants


@pytest.mark.parametrize(
    ("shape", "run", "turned", "config"),
    [
        ((33, 1, 1500), 1, False, DotsConfig(8, 1, 512)),
        ((20, 3, 1201), 1, True, DotsConfig(8, 4, 512, 2)),
        ((21, 2, 1202), 2, True, DotsConfig(8, 2, 512, 8)),
        ((20, 4, 1204), 4, False, DotsConfig(4, 4, 1024, 4)),
        ((9, 7, 104), 1, False, DotsConfig(2, 8, 1024, EARLY=True)),
        ((9, 1, 0), 1, True, DotsConfig(4, 1, 1024, 2)),
    ],
    ids=str,
)
@pytest.mark.parametrize("bias", [False, True])
def test_against_numpy(
    shape: tuple[int, int, int], run: int, turned: bool, config: DotsConfig, bias: bool
) -> None:
    m, n, k = shape
    rng = np.random.default_rng(m + n)
    a, b = (rng.integers(-2, 3, (rows, k)).astype(np.float16) for rows in (m, n))
    added = rng.integers(-9, 9, m if turned else n).astype(np.float16)
    want = a.astype(np.float32) @ b.astype(np.float32).T
    want = (want.T if turned else want) + added * np.float32(bias)
    c = np.full(want.shape, np.nan, np.float16)
    kernel = dots(hx.f16, run=run, turned=turned, bias=bias)
    kernel.simulate(a, b, *[added] * bias, c, target="sm_90", **constants(config))
    np.testing.assert_array_equal(c, want.astype(np.float16))


@pytest.mark.parametrize("config", list(DOTS)[::5], ids=str)
def test_configurations_compile_without_local_memory(config: DotsConfig) -> None:
    compiled = dots(hx.f16).compile("sm_90", constants=constants(config), aligned=False)
    assert not compiled.built.local_memory
    assert compiled.built.dependent == config.EARLY
