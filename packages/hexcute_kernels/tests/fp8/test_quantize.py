"""The FP8 quantizer, every lane of every block, against numpy, and what its operators say."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core.errors import LaunchError
from hexcute_kernels.fp8 import quantize_blockwise, quantize_weights
from hexcute_kernels.fp8.configs import QUANTIZE, QUANTIZE_WEIGHTS
from hexcute_kernels.fp8.quantize import quantize
from hexcute_kernels.tables import constants

E4M3 = ml_dtypes.float8_e4m3fn
TYPES: dict[str, Any] = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32}


def reference(x: Any, high: int, power_of_two: bool) -> tuple[np.ndarray, np.ndarray]:
    """Numbers as float32, and their scales, in float64 up to the one rounding."""
    many, m, k = x.shape
    lines, groups = -(-m // high), -(-k // 128)
    wide = np.zeros((many, lines * high, groups * 128))
    wide[:, :m, :k] = np.where(np.isnan(x.astype(np.float64)), 0, np.abs(x.astype(np.float64)))
    largest = wide.reshape(many, lines, high, groups, 128).max((2, 4))
    if power_of_two:
        largest = np.maximum(largest / 448, 2.0**-126)
        scales = np.where(np.isinf(largest), np.inf, 2 ** np.ceil(np.log2(largest)))
    else:
        scales = np.maximum(largest / 448, 2.0**-126)
    spread = np.repeat(np.repeat(scales, high, 1)[:, :m], 128, 2)[:, :, :k]
    q = x.astype(np.float64) / np.minimum(spread, 2.0**120)
    return np.clip(q, -448, 448).astype(np.float32), scales


@pytest.mark.parametrize(
    ("shape", "dtype", "high", "power_of_two", "major", "config"),
    [
        ((1, 70, 272), "bf16", 1, False, "m", QUANTIZE),
        ((2, 33, 300), "f16", 1, True, "k", QUANTIZE),
        ((3, 5, 128), "f32", 1, True, "m", QUANTIZE),
        ((1, 1, 7), "bf16", 1, False, "k", QUANTIZE),
        ((2, 200, 272), "bf16", 128, True, "k", QUANTIZE_WEIGHTS),
        ((1, 130, 136), "f32", 128, False, "k", QUANTIZE_WEIGHTS),
    ],
    ids=str,
)
def test_against_numpy(
    shape: tuple[int, ...], dtype: str, high: int, power_of_two: bool, major: str, config: Any
) -> None:
    rng = np.random.default_rng(0)
    many, m, k = shape
    x = (rng.normal(size=shape) * np.exp(3 * rng.normal(size=(many, m, 1)))).astype(TYPES[dtype])
    lines, groups = -(-m // high), -(-k // 128)
    q = np.zeros(shape, E4M3)
    s = np.full((many, groups, lines) if major == "m" else (many, lines, groups), np.nan, "f4")
    kernel = quantize(getattr(hx, dtype), high, power_of_two, major)
    kernel.simulate(x, q, s, target="sm_90", **constants(next(iter(config))))
    numbers, scales = reference(x, high, power_of_two)
    got = s.swapaxes(1, 2) if major == "m" else s
    np.testing.assert_allclose(got, scales, rtol=0 if power_of_two else 2.0**-22)
    # A number beside the middle of two may be either's.
    error = np.abs(q.astype(np.float32) - numbers.astype(E4M3).astype(np.float32))
    assert (error <= np.maximum(np.abs(numbers) / 8, 2.0**-9)).all()
    assert (error > 0).mean() < 0.01


@pytest.mark.parametrize("config", list(QUANTIZE), ids=str)
def test_every_configuration(config: Any) -> None:
    """The last tile may have fewer groups of columns than others; nothing spills."""
    x = np.random.default_rng(0).normal(size=(2, 37, 1300)).astype(TYPES["bf16"])
    q, s = np.zeros(x.shape, E4M3), np.full((2, 11, 37), np.nan, np.float32)
    kernel = quantize(hx.bf16, 1, True, "m")
    kernel.simulate(x, q, s, target="sm_90", **constants(config))
    numbers, scales = reference(x, 1, True)
    np.testing.assert_array_equal(s.swapaxes(1, 2), scales)
    np.testing.assert_array_equal(q, numbers.astype(E4M3))
    compiled = kernel.compile("sm_90", **constants(config))
    assert not compiled.built.local_memory
    loads = [line for line in compiled.explain(rejected=0).splitlines() if "view_x ->" in line]
    assert loads and all("ld.global.16" in line for line in loads)
    # Divisions by what is known at run time take as long as all the rest.
    sass = compiled.sass()
    assert sass.count("I2F") == 0 and sass.count("LDG.E.128") == config.BM * config.WIDE // (
        2 * config.WARPS
    )


@pytest.mark.parametrize("power_of_two", [False, True])
def test_numbers_that_are_special(power_of_two: bool) -> None:
    """Zeros have the least scale, NaN no part in one, and 448 times a power of two is exact."""
    x = np.ones((1, 6, 256), np.float32)
    x[0, 0] = 0
    x[0, 1, 5] = np.nan
    x[0, 2, 7], x[0, 2, 8] = np.inf, -np.inf
    x[0, 3, 130] = -448.0 * 4
    x[0, 4] = np.nan
    x[0, 5] = 1e-42
    q, s = np.zeros(x.shape, E4M3), np.zeros((1, 6, 2), np.float32)
    kernel = quantize(hx.f32, 1, power_of_two, "k")
    kernel.simulate(x, q, s, target="sm_90", BM=16, WARPS=1)
    one = 2.0**-8 if power_of_two else 1 / 448
    near = {"rtol": 2.0**-22}
    np.testing.assert_allclose(
        s[0, :4], [[2.0**-126] * 2, [one] * 2, [np.inf, one], [one, 4]], **near
    )
    assert (s[0, 4:] == np.float32(2.0**-126)).all()
    n = q.astype(np.float32)[0]
    assert (n[0] == 0).all() and np.isnan(n[1, 5]) and np.isnan(n).sum() == 1 + 256
    assert (n[2, 7], n[2, 8], n[2, 9]) == (448, -448, 0) and n[3, 130] == -448
    assert (n[1, 128:] == (256 if power_of_two else 448)).all()


def test_an_operator_gives_scales_as_the_products_take_them() -> None:
    torch = pytest.importorskip("torch")
    from stand_ins import gpu, on_gpu

    with gpu("h200", "sm_90") as launches:
        x = on_gpu(torch.zeros(100, 300, dtype=torch.bfloat16))
        q, s = quantize_blockwise(x)
        assert q.shape == x.shape and q.dtype == torch.float8_e4m3fn
        assert s.shape == (100, 3) and s.stride() == (1, 100)
        assert quantize_blockwise(x, scale_major="k")[1].stride() == (3, 1)
        q, s = quantize_blockwise(on_gpu(torch.zeros(2, 100, 300)), power_of_two=True)
        assert q.shape == (2, 100, 300) and s.shape == (2, 100, 3) and s.mT.is_contiguous()
        q, s = quantize_weights(on_gpu(torch.zeros(2, 300, 200, dtype=torch.float16)))
        assert q.shape == (2, 300, 200) and s.shape == (2, 3, 2) and s.is_contiguous()
        shapes = [tuple(t.shape for t in noted.prepared) for noted in launches]
        assert shapes[0] == ((1, 100, 300), (1, 100, 300), (1, 3, 100)) and len(shapes) == 4
        assert quantize_blockwise(x[:0])[1].shape == (0, 3) and len(launches) == 4
        for call, words in (
            (lambda: quantize_blockwise(x.double()), "takes bfloat16 or float16 or float32"),
            (lambda: quantize_blockwise(x[0]), r"\(m, k\) or \(batch, m, k\)"),
            (lambda: quantize_blockwise(x.t()), "is not row-major"),
            (lambda: quantize_blockwise(x, "n"), "scale_major is 'm' or 'k', got 'n'"),
            (lambda: quantize_blockwise(x.expand(65536, 100, 300)[:, :1, :1].contiguous()),
             "a stack has at most 65535 matrices, not 65536"),
        ):
            with pytest.raises(LaunchError, match=words):
                call()
