"""The GEMM of thin results, every lane of every block, and its machine code."""

from __future__ import annotations

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_kernels.gemm.candidates import THIN
from hexcute_kernels.gemm.configs import ThinConfig
from hexcute_kernels.gemm.product import Product, operands_fit
from hexcute_kernels.gemm.thin import thin_gemm
from hexcute_kernels.tables import constants

SMALL = ThinConfig(64, 16, 64, 2, 1)


@pytest.mark.parametrize(
    ("shape", "orders", "turned", "config"),
    [
        ((128, 16, 256), "kk", True, SMALL),
        ((200, 24, 520), "kk", True, ThinConfig(64, 16, 64, 3, 1, 2)),
        ((200, 9, 1000), "kk", True, ThinConfig(128, 8, 64, 2, 2, 4)),
        ((72, 40, 136), "mk", True, ThinConfig(64, 32, 64, 2, 1, 2, EARLY=True)),
        ((72, 8, 136), "kn", False, SMALL),
        ((136, 24, 136), "mn", False, ThinConfig(128, 32, 64, 2, 2, 2)),
        ((64, 8, 64), "kk", True, ThinConfig(64, 8, 64, 2, 1, 4)),
        ((64, 8, 0), "kk", True, ThinConfig(64, 8, 64, 2, 1, 2)),
        ((100, 200, 520), "kk", False, ThinConfig(128, 96, 64, 2, 2, 2, FLAT=True)),
        ((200, 33, 328), "mk", True, ThinConfig(64, 32, 64, 2, 1, 4)),
        ((72, 40, 328), "kk", True, ThinConfig(64, 48, 64, 2, 1, 3)),
    ],
    ids=str,
)
@pytest.mark.parametrize("bias", [False, True])
def test_against_numpy(
    shape: tuple[int, int, int], orders: str, turned: bool, config: ThinConfig, bias: bool
) -> None:
    m, n, k = shape
    rng = np.random.default_rng(m + n)
    a, b = (rng.integers(-2, 3, (rows, k)).astype(np.float16) for rows in (m, n))
    added = rng.integers(-9, 9, m if turned else n).astype(np.float16)
    stored = [x if order == "k" else np.ascontiguousarray(x.T) for x, order in zip((a, b), orders)]
    want = a.astype(np.float32) @ b.astype(np.float32).T
    want = (want.T if turned else want) + added * np.float32(bias)
    c = np.full(want.shape, np.nan, np.float16)
    kernel = thin_gemm(hx.f16, *orders, turned=turned, bias=bias)
    kernel.simulate(*stored, *[added] * bias, c, target="sm_90", **constants(config))
    np.testing.assert_array_equal(c, want.astype(np.float16))


@pytest.mark.parametrize("config", list(THIN)[::11], ids=str)
def test_configurations_compile_without_local_memory(config: ThinConfig) -> None:
    compiled = thin_gemm(hx.f16, turned=True).compile("sm_90", constants=constants(config))
    assert not compiled.built.local_memory
    assert compiled.built.dependent == config.EARLY


def test_the_result_may_lie_as_it_likes() -> None:
    def product(m: int, n: int, k: int = 64) -> Product:
        return Product(m=m, n=n, k=k, dtype=hx.f16, a_major="k", b_major="k")

    assert operands_fit(product(8, 9)) is None, "threads write the result"
    assert "the first operand and the second" in (operands_fit(product(8, 8, 9)) or "")


def test_choices_of_an_h200() -> None:
    """A block or two a multiprocessor, whatever the layer."""
    for m in (1, 8, 16, 32, 48, 64):
        for n, k in ((6144, 4096), (4096, 14336), (4096, 4096), (8192, 28672), (8192, 8192)):
            problem = Product(m=m, n=n, k=k, dtype=hx.f16, a_major="k", b_major="k")
            config = THIN.choose("h200", problem)
            assert 64 <= config.blocks(problem) <= 264, (m, n, config)
