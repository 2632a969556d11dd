"""Views whose contiguous elements are digits of a mode, or of several, move as widely as rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hexcute_core as hx
from hexcute_core import f16, f32, u4, u8
from hexcute_core.arch import Fragment, Mode
from hexcute_core.dtypes import DType
from hexcute_core.synthesis import nested
from hexcute_core.synthesis.memory import GlobalTile
from hexcute_core.tile import Copy
from hexcute_core.tile.visit import statements

m, n, k = hx.dims("m n k")
FRAGMENT = (2, 4, 2)
"""A pair of an operand's columns, the lanes that share them, and the pair eight columns on."""


def product_of(dtype: DType, steps: int, staged: bool) -> hx.Kernel:
    """c = a (q - 8)^T, where the memory of q has, for each lane, what `steps` instructions take."""
    depth = 16 * steps

    @hx.kernel(cache=False)
    def packed(a: f16[m, k], q: dtype[n, k], c: f16[m, n]):
        hx.attrs.cuda.grid_dim = hx.cdiv(m, 32), hx.cdiv(n, 64)
        hx.attrs.cuda.block_dim = 128
        bm, bn, tiles = hx.blockIdx.x * 32, hx.blockIdx.y * 64, hx.cdiv(k, depth)
        ga = hx.global_view(a[bm:, :], ((32, depth, tiles), (k, 1, depth)))
        shape, stride = (*FRAGMENT, steps), (1, 4 * steps, 2, 4)
        gq = hx.global_view(q[bn:, :], ((64, shape, tiles), (k, stride, depth)))
        rc, sa = hx.register_tensor(f32, (32, 64)), hx.shared_tensor(f16, (32, depth))
        hx.fill(rc, 0.0)
        for i in range(tiles):
            ra, rq = hx.register_tensor(f16, (32, depth)), hx.register_tensor(dtype, (64, depth))
            hx.copy(ga[:, :, i], sa)
            if staged:
                sq = hx.shared_tensor(dtype, (64, depth))
                hx.copy(gq[:, :, i], sq)
                hx.syncthreads()
                hx.copy(sq, rq)
            else:
                hx.syncthreads()
                hx.copy(gq[:, :, i], rq)
            hx.copy(sa, ra)
            hx.gemm(rc, ra, hx.cast(rq, f16) - 8.0)
            hx.syncthreads()
        hx.copy(hx.cast(rc, f16), hx.global_view(c[bm:, bn:], ((32, 64), (n, 1))))

    return packed


def permuted(q: np.ndarray, steps: int) -> np.ndarray:
    """Weights in the order of lanes: of every tile, its digits turned."""
    tiles = q.reshape(len(q), -1, steps, 2, 4, 2)
    return np.ascontiguousarray(tiles.transpose(0, 1, 4, 2, 3, 5)).reshape(q.shape)


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("staged", [False, True], ids=["direct", "staged"])
@pytest.mark.parametrize(("dtype", "steps"), [(u8, 4), (u4, 8)], ids=str)
def test_packed_weights_move_16_bytes(dtype: DType, steps: int, staged: bool, target: str) -> None:
    kernel = product_of(dtype, steps, staged)
    compiled = kernel.compile(target, verify=True)
    moved = {
        op.src.tensor: compiled.solution.copies[op.id].row.bytes
        for op in statements(compiled.solution.program.body)
        if isinstance(op, Copy) and op.src.tensor in ("gq", "sq")
    }
    assert moved == ({"gq": 16, "sq": 16} if staged else {"gq": 16})
    rng = np.random.default_rng(0)
    a = rng.integers(-2, 3, (20, 32 * steps)).astype(np.float16)
    q = rng.integers(0, 16, (72, 32 * steps), np.uint8)
    held = permuted(q, steps)
    if dtype == u4:
        held = held[:, 0::2] | held[:, 1::2] << 4
    c = np.zeros((20, 72), np.float16)
    kernel.simulate(a, held, c, target=target, compare=True)
    np.testing.assert_array_equal(c, a.astype(np.float64) @ (q - 8.0).T)


# 32 threads have registers for eight rows of fewer than 4096 bytes.
SHAPES = st.lists(st.sampled_from([2, 2, 3, 4, 8]), min_size=2, max_size=4).filter(
    lambda shape: math.prod(shape) < 4096
)


@settings(max_examples=25, deadline=None)
@given(SHAPES, st.randoms(use_true_random=False), st.booleans(), st.integers(1, 40))
def test_any_order_of_digits_is_right(
    shape: list[int], rng: object, staged: bool, more: int
) -> None:
    """Every permutation of the digits of a row, and what is left of the last one."""
    order = list(range(len(shape)))
    rng.shuffle(order)  # type: ignore[attr-defined]
    strides, step = [0] * len(shape), 1
    for digit in order:
        strides[digit] = step
        step *= shape[digit]
    sizes, steps, size = tuple(shape), tuple(strides), step

    @hx.kernel(cache=False)
    def turned(x: u8[m, k], y: u8[m, k]):
        hx.attrs.cuda.grid_dim = hx.cdiv(k, size)
        hx.attrs.cuda.block_dim = 32
        bk = hx.blockIdx.x * size
        gx = hx.global_view(x[:, bk:], ((8, sizes), (k, steps)))
        r = hx.register_tensor(u8, (8, size))
        if staged:
            s = hx.shared_tensor(u8, (8, size))
            hx.copy(gx, s)
            hx.syncthreads()
            hx.copy(s, r)
        else:
            hx.copy(gx, r)
        hx.copy(r, hx.global_view(y[:, bk:], ((8, size), (k, 1))))

    assert turned.compile("sm_80", verify=True).thread
    x = np.random.default_rng(1).integers(1, 200, (7, size + more)).astype(np.uint8)
    y, want = np.zeros_like(x), np.zeros_like(x)
    turned.simulate(x, y, target="sm_80", compare=True)
    places = np.arange(size)
    offset = np.zeros(size, int)
    for extent, stride in zip(sizes, steps, strict=True):
        offset += places % extent * stride
        places = places // extent
    for block in range(0, size + more, size):
        for j in range(size):
            if block + j < size + more and block + offset[j] < size + more:
                want[:, block + j] = x[:, block + offset[j]]
    np.testing.assert_array_equal(y, want)


@given(SHAPES, st.randoms(use_true_random=False), st.sampled_from([1, 2, 4, 8]))
def test_spread_is_a_bijection(shape: list[int], rng: object, vector: int) -> None:
    """Every element of the tile is held, its thread's vectors by neighbours of memory."""
    order = list(range(len(shape)))
    rng.shuffle(order)  # type: ignore[attr-defined]
    places = [int(np.prod(shape[:i])) for i in range(len(shape))]
    run = tuple(Mode(shape[i], places[i], 1) for i in order)
    size = int(np.prod(shape))
    memory = GlobalTile((), None, vector, (1, 0), run=run)
    if nested.first(run, vector) is None:
        return
    f = nested.spread((8, size), memory, vector, 32)
    if f is None:
        return
    assert isinstance(f, Fragment) and f.threads <= 32
    held = {f.coord(t, v) for t in range(f.threads) for v in range(f.values)}
    assert held == {(i, j) for i in range(8) for j in range(size)}
    begins = [Mode(*digit) for digit in f.value]
    assert int(np.prod([d.size for d in begins])) % vector == 0
