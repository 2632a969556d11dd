"""The GEMM that takes rows of any length: every lane of every block, and its machine code."""

from __future__ import annotations

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_kernels.gemm.candidates import STAGED
from hexcute_kernels.gemm.configs import StagedConfig
from hexcute_kernels.gemm.staged import staged_gemm
from hexcute_kernels.tables import constants


@pytest.mark.parametrize(
    ("shape", "orders", "run", "config"),
    [
        ((33, 70, 50), "kk", 1, StagedConfig(32, 32, 32, 4)),
        ((33, 70, 50), "kk", 2, StagedConfig(64, 64, 32, 4, EARLY=True)),
        ((65, 9, 333), "kk", 1, StagedConfig(64, 8, 128, 4, 4)),
        ((3, 200, 90), "kk", 2, StagedConfig(16, 128, 64, 4, 2)),
        ((40, 30, 68), "kk", 4, StagedConfig(16, 32, 32, 4)),
        ((40, 30, 67), "mk", 1, StagedConfig(32, 32, 32, 4, 2)),
        ((40, 31, 67), "kn", 1, StagedConfig(64, 16, 64, 4)),
        ((71, 24, 36), "mn", 1, StagedConfig(16, 16, 128, 4, EARLY=True)),
        ((5, 7, 1), "kk", 1, StagedConfig(16, 8, 128, 4)),
        ((5, 7, 0), "kk", 1, StagedConfig(16, 8, 128, 4, 2)),
        ((72, 80, 64), "kk", 1, StagedConfig(64, 64, 64, 4)),
        ((72, 131, 9), "kk", 1, StagedConfig(64, 128, 16, 4, EARLY=True)),
    ],
    ids=str,
)
@pytest.mark.parametrize("bias", [False, True])
def test_against_numpy(
    shape: tuple[int, int, int], orders: str, run: int, config: StagedConfig, bias: bool
) -> None:
    m, n, k = shape
    rng = np.random.default_rng(m + n)
    a, b = (rng.integers(-2, 3, (rows, k)).astype(np.float16) for rows in (m, n))
    added = rng.integers(-9, 9, n).astype(np.float16)
    stored = [x if order == "k" else np.ascontiguousarray(x.T) for x, order in zip((a, b), orders)]
    want = a.astype(np.float32) @ b.astype(np.float32).T + added * np.float32(bias)
    c = np.full(want.shape, np.nan, np.float16)
    kernel = staged_gemm(hx.f16, *orders, run=run, bias=bias)
    kernel.simulate(*stored, *[added] * bias, c, target="sm_90", **constants(config))
    np.testing.assert_array_equal(c, want.astype(np.float16))


def test_batches_against_numpy() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, (3, rows, 37)).astype(np.float16) for rows in (20, 11))
    c = np.full((3, 20, 11), np.nan, np.float16)
    kernel = staged_gemm(hx.f16, batched=True)
    kernel.simulate(a, b, c, target="sm_90", **constants(StagedConfig(16, 8, 128, 4, 2)))
    want = a.astype(np.float32) @ b.astype(np.float32).transpose(0, 2, 1)
    np.testing.assert_array_equal(c, want.astype(np.float16))


@pytest.mark.parametrize("config", list(STAGED)[::8], ids=str)
def test_configurations_compile_without_local_memory(config: StagedConfig) -> None:
    compiled = staged_gemm(hx.f16).compile("sm_90", constants=constants(config), aligned=False)
    assert not compiled.built.local_memory
    assert compiled.built.dependent == config.EARLY
