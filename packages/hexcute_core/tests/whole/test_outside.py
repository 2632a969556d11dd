"""What registers get where a view leaves its tensor, and tiles of coordinates."""

from __future__ import annotations

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import bf16, boolean, f16, f32, i8, i32

m, n, rows = hx.dims("m n rows")


@hx.kernel(cache=False)
def first_maximum(x: f32[m, n], at: i32[m, 1], low: f32, *, BM: int = 6, BN: int = 80):
    """The column of each row's first maximum."""
    hx.attrs.cuda.grid_dim = hx.cdiv(m, BM)
    hx.attrs.cuda.block_dim = 96
    bm = hx.blockIdx.x * BM
    r = hx.register_tensor(f32, (BM, BN))
    hx.copy(hx.global_view(x[bm:, :], ((BM, BN), (n, 1))), r, outside=low)
    hx.copy(hx.argmax(r, 1), hx.global_view(at[bm:, :], ((BM, 1), (1, 1))))


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("width", [80, 64, 37])
def test_a_maximum_leaves_out_what_is_outside(target, width):
    x = np.random.default_rng(0).integers(-9, -1, (8, width)).astype(np.float32)
    at = np.zeros((8, 1), np.int32)
    compiled = first_maximum.compile(target, aligned=width % 4 == 0, verify=True)
    compiled.simulate(x, at, -1e30, compare=True)
    assert np.array_equal(at[:, 0], x.argmax(1))
    assert len(compiled.built.cubin) > 0


TYPES = [
    (f16, np.float16, 2.5), (bf16, "bfloat16", -3.0), (i8, np.int8, -7), (boolean, np.bool_, True),
]  # fmt: skip


@pytest.mark.parametrize("dtype, cells, other", TYPES, ids=lambda x: str(x))
def test_any_type_has_another_number(dtype, cells, other):
    @hx.kernel(cache=False)
    def shifted(x: dtype[m, n], y: dtype[rows, 32]):
        hx.attrs.cuda.grid_dim = hx.cdiv(rows, 8)
        hx.attrs.cuda.block_dim = 64
        bm = hx.blockIdx.x * 8
        r = hx.register_tensor(dtype, (8, 32))
        hx.copy(hx.global_view(x[bm - 2 :, :], ((8, 32), (n, 1))), r, outside=other)
        hx.copy(r, hx.global_view(y[bm:, :], ((8, 32), (32, 1))))

    if cells == "bfloat16":
        cells = pytest.importorskip("ml_dtypes").bfloat16
    x = np.random.default_rng(1).integers(0, 2, (13, 27)).astype(cells)
    y = np.zeros((16, 32), cells)
    compiled = shifted.compile("sm_80", aligned=False, verify=True)
    compiled.simulate(x, y, compare=True)
    want = np.full((16, 32), other, cells)
    want[2:15, :27] = x
    assert np.array_equal(y, want)
    assert len(compiled.built.cubin) > 0


def test_coordinates_of_every_mode():
    @hx.kernel(cache=False)
    def counted(y: i32[2, 3, 20]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 64
        shape = (2, 3, 20)
        found = hx.iota(shape, 0) * 100 + hx.iota(shape, 1) * 1000 + hx.iota(shape, -1)
        hx.copy(found, hx.global_view(y, ((2, 3, 20), (60, 20, 1))))

    y = np.zeros((2, 3, 20), np.int32)
    counted.compile("sm_90", verify=True).simulate(y, compare=True)
    i, j, k = np.indices(y.shape)
    assert np.array_equal(y, 100 * i + 1000 * j + k)


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_extremes_are_found_along_any_mode(target):
    @hx.kernel(cache=False)
    def found(x: f32[6, 20], low: i32[1, 20], high: i32[6, 1], y: f32[6, 20]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 64
        r = hx.register_tensor(f32, (6, 20))
        hx.copy(hx.global_view(x, ((6, 20), (20, 1))), r)
        hx.copy(hx.argmin(r, 0), hx.global_view(low, ((1, 20), (20, 1))))
        hx.copy(hx.argmax(r, -1), hx.global_view(high, ((6, 1), (1, 1))))
        hx.copy(hx.clamp(r, -2.0, hx.clamp(5, 0, 3)), hx.global_view(y, ((6, 20), (20, 1))))

    x = np.random.default_rng(2).integers(-4, 5, (6, 20)).astype(np.float32)
    x[2, 3], x[4] = np.nan, np.nan
    low, high = np.zeros((1, 20), np.int32), np.zeros((6, 1), np.int32)
    y = np.zeros_like(x)
    compiled = found.compile(target, verify=True)
    compiled.simulate(x, low, high, y, compare=True)
    assert np.array_equal(low[0], np.where(np.isnan(x), np.inf, x).argmin(0))
    assert np.array_equal(high[:4, 0], np.where(np.isnan(x), -np.inf, x).argmax(1)[:4])
    # No number stands in row 4.
    assert high[4, 0] == 20
    assert np.array_equal(y, np.where(np.isnan(x), -2, np.clip(x, -2, 3)))
    assert len(compiled.built.cubin) > 0
