"""Packed parameters, casts by registers, nested views and bits by other names on a real GPU: the
kernels that are simulated elsewhere, launched, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu_mirror import bits_of, on_gpu
from test_backend_widening import BYTES, SOURCES, TARGETS, cast_kernel, numbers
from test_gallery import kernels
from test_nested_views import permuted, product_of
from test_packed import PACKED, WORDS, random_bytes, round_trip, sums, values
from test_relabel import NUMPY, WIDTHS, cast_of_bits

from hexcute_core import dtypes as dt
from hexcute_core import u4, u8
from hexcute_core.dtypes import DType
from hexcute_core.runtime import device_target

pytestmark = pytest.mark.gpu
torch: Any = pytest.importorskip("torch")
ml_dtypes = pytest.importorskip("ml_dtypes")


def launched(kernel: Any, *arrays: np.ndarray, **constants: object) -> None:
    """Launches on copies of the arrays, and brings what they hold then back."""
    tensors = [on_gpu(array) for array in arrays]
    kernel(*tensors, **constants)
    for array, tensor in zip(arrays, tensors, strict=True):
        array.reshape(-1).view(np.uint8)[:] = bits_of(tensor)


@pytest.mark.parametrize("staged", [False, True], ids=["direct", "staged"])
@pytest.mark.parametrize("dtype", PACKED, ids=str)
def test_bits_come_and_go_unchanged(dtype: DType, staged: bool) -> None:
    kernel = round_trip(dtype, staged)
    for rows, elements in ((16, 64), (5, 40), (33, 136), (300, 4096), (77, 24)):
        for word in WORDS:
            raw = random_bytes(rows, rows, elements, dtype)
            if raw.shape[1] % np.dtype(word).itemsize:
                continue
            x, z = raw.view(word), np.zeros((rows, elements), np.float16)
            y = np.zeros_like(x)
            launched(kernel, x, y, z)
            np.testing.assert_array_equal(x, y)
            np.testing.assert_array_equal(z, values(raw, dtype))


@pytest.mark.parametrize("dtype", [dt.u4, dt.i4, dt.u2, dt.u1], ids=str)
def test_tma_moves_packed_elements_as_bytes(dtype: DType) -> None:
    if device_target() != "sm_90":
        pytest.skip("needs a Hopper GPU")
    kernel = sums(dtype)
    for rows, elements in ((64, 256), (70, 896), (1000, 4096)):
        raw = random_bytes(3, rows, elements, dtype)
        for word in WORDS:
            x = raw.view(word)
            y, c = np.zeros_like(x), np.zeros((rows, 1), np.float32)
            launched(kernel, x, y, c)
            np.testing.assert_array_equal(x, y)
            np.testing.assert_array_equal(c[:, 0], values(raw, dtype).sum(axis=1))


@pytest.mark.parametrize("to", TARGETS, ids=str)
@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_every_pattern_is_cast_exactly(source: DType, to: DType) -> None:
    held = {"i8": np.int8, "f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2}
    raw = BYTES.reshape(-1)[: 128 * source.bits].reshape(16, -1)
    wide = {dt.f16: np.float16, dt.bf16: ml_dtypes.bfloat16}[to]
    y = np.zeros((16, 64), wide)
    launched(cast_kernel(source, to), raw.view(held.get(source.name, np.uint8)).copy(), y)
    np.testing.assert_array_equal(y.astype(np.float32), numbers(raw, source))


@pytest.mark.parametrize("staged", [False, True], ids=["direct", "staged"])
@pytest.mark.parametrize(("dtype", "steps"), [(u8, 4), (u4, 8)], ids=str)
def test_packed_weights(dtype: DType, steps: int, staged: bool) -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(-2, 3, (70, 320 * steps)).astype(np.float16)
    q = rng.integers(0, 16, (136, 320 * steps), np.uint8)
    held = permuted(q, steps)
    if dtype == u4:
        held = held[:, 0::2] | held[:, 1::2] << 4
    c = np.zeros((70, 136), np.float16)
    launched(product_of(dtype, steps, staged), a, held, c)
    np.testing.assert_array_equal(c, (a.astype(np.float64) @ (q - 8.0).T).astype(np.float16))


@pytest.mark.parametrize("names", WIDTHS, ids="-".join)
def test_bits_are_those_of_memory(names: tuple[str, str]) -> None:
    raw = np.random.default_rng(0).integers(0, 256, (100, 64)).astype(np.uint8)
    x, y = raw.view(NUMPY[names[0]]).copy(), np.zeros_like(raw).view(NUMPY[names[1]])
    launched(cast_of_bits(*(dt.BY_NAME[name] for name in names)), x, y)
    np.testing.assert_array_equal(y.view(np.uint8), raw)


def test_the_gallerys_weights_of_four_bits() -> None:
    rng = np.random.default_rng(0)
    for depth, word in ((256, np.uint8), (200, np.int32), (146, np.uint8), (4096, np.int32)):
        scale = rng.uniform(0.5, 1.5, (72, -(-depth // 128))).astype(np.float16)
        a, c = rng.normal(size=(37, depth)).astype(np.float16), np.zeros((37, 72), np.float16)
        q = rng.integers(0, 16, (72, depth), np.uint8)
        launched(kernels("w4a16").w4a16, a, (q[:, 0::2] | q[:, 1::2] << 4).view(word), scale, c)
        weights = (q - 8.0) * np.repeat(scale.astype(np.float64), 128, 1)[:, :depth]
        want = a.astype(np.float64) @ weights.T
        size = np.sqrt((want**2).mean())
        assert (np.abs(c - want) <= 2.0**-9 * (np.abs(want) + size)).all()
