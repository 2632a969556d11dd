"""Layouts of what is reduced or scanned: a warp a row, a few lanes, a run a thread."""

from __future__ import annotations

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import f16, f32

m, n = hx.dims("m n")


def normalized(dtype, shape, threads):
    """A softmax of each row."""
    block = (shape, (shape[1], 1))

    @hx.kernel(cache=False)
    def rows(x: dtype[shape], y: dtype[shape]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = threads
        r = hx.register_tensor(dtype, shape)
        hx.copy(hx.global_view(x, block), r)
        f = hx.exp(hx.cast(r, f32) - hx.max(hx.cast(r, f32), 1))
        hx.copy(hx.cast(f / hx.sum(f, 1), dtype), hx.global_view(y, block))

    return rows


def lanes_a_row(f):
    """How many threads hold parts of a row."""
    return int(np.prod([m.size for m in f.thread if m.step and m.dim == 1]))


@pytest.mark.parametrize(
    ("dtype", "shape", "threads", "lanes"),
    [
        (f16, (4, 1024), 128, 32),
        (f32, (4, 1024), 128, 32),
        (f16, (8, 1024), 128, 16),
        (f16, (8, 512), 256, 32),
        (f16, (2, 1024), 128, 64),
        (f16, (1, 1024), 128, 128),
        (f32, (16, 256), 128, 8),
        (f16, (64, 64), 64, 2),
        (f16, (4, 1000), 128, 32),
    ],
    ids=str,
)
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_rows_are_shared_by_as_few_threads_as_pays(dtype, shape, threads, lanes, target):
    made = normalized(dtype, shape, threads).compile(target, verify=True)
    assert made.solution.exact
    assert lanes_a_row(made.solution.fragments["r"]) == lanes
    numpy = {"f16": np.float16, "f32": np.float32}[dtype.name]
    x = np.random.default_rng(0).normal(size=shape).astype(numpy)
    y = np.full_like(x, np.nan)
    made.simulate(x, y)
    meant = np.exp(x.astype(np.float64))
    assert np.allclose(y, meant / meant.sum(1, keepdims=True), atol=1e-3, rtol=1e-2)


def step(al, bl, ar, br):
    return al * ar, ar * bl + br


@pytest.mark.parametrize("shape, axis", [((4, 64, 16), 1), ((8, 32, 4), 1), ((64, 4, 8), 0)])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_thread_scans_what_lies_side_by_side(shape, axis, reverse):
    """Along a dimension that memory does not have contiguous, each thread takes one run."""
    strides = (shape[1] * shape[2], shape[2], 1)

    @hx.kernel(cache=False)
    def recur(a: f32[shape], b: f32[shape], y: f32[shape]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 128
        ra, rb = hx.register_tensor(f32, shape), hx.register_tensor(f32, shape)
        hx.copy(hx.global_view(a, (shape, strides)), ra)
        hx.copy(hx.global_view(b, (shape, strides)), rb)
        _, ry = hx.scan((ra, rb), axis, step, reverse=reverse)
        hx.copy(ry, hx.global_view(y, (shape, strides)))

    made = recur.compile("sm_80", verify=True)
    f = made.solution.fragments["ra"]
    assert made.solution.exact
    held = [m for m in f.value if m.dim == axis]
    between = [m for m in f.thread if m.step and m.dim == axis]
    assert not held or all(m.step < t.step for m in held for t in between)
    rng = np.random.default_rng(0)
    a, b = rng.uniform(0.5, 1, (2, *shape)).astype(np.float32)
    y, meant = np.full_like(a, np.nan), np.zeros_like(a, np.float64)
    made.simulate(a, b, y)
    state = np.zeros_like(np.take(a, 0, axis), np.float64)
    places = range(shape[axis])
    for t in reversed(places) if reverse else places:
        state = np.take(a, t, axis) * state + np.take(b, t, axis)
        meant[(slice(None),) * axis + (t,)] = state
    assert np.allclose(y, meant, rtol=1e-5)


CONSUMERS = [(128, 128, 2), (256, 128, 2), (128, 256, 2), (192, 128, 3), (128, 64, 2)]


@pytest.mark.parametrize("bm, bn, groups", CONSUMERS, ids=str)
@pytest.mark.parametrize("biased", [False, True])
def test_of_wgmmas_that_take_as_long_the_wider_is_taken(bm, bn, groups, biased):
    """A bias, of which narrower parts of a row need less, does not decide."""
    k = hx.dim("k")

    @hx.kernel(cache=False)
    def product(a: f16[m, k], b: f16[n, k], bias: f16[n], c: f16[m, n]):
        hx.attrs.cuda.grid_dim = hx.cdiv(m, bm), hx.cdiv(n, bn)
        x, y, tiles = hx.blockIdx.x * bm, hx.blockIdx.y * bn, hx.cdiv(k, 64)
        ga = hx.global_view(a[x:, :], ((bm, 64, tiles), (k, 1, 64)))
        gb = hx.global_view(b[y:, :], ((bn, 64, tiles), (k, 1, 64)))
        sa, sb = hx.shared_tensor(f16, (bm, 64, 2)), hx.shared_tensor(f16, (bn, 64, 2))
        pipe = hx.pipeline(2)
        with hx.warp_groups_producer():
            for i in range(tiles):
                with pipe.produce() as s:
                    hx.copy(ga[:, :, i], sa[:, :, s])
                    hx.copy(gb[:, :, i], sb[:, :, s])
        with hx.warp_groups_consumer(groups):
            rc = hx.register_tensor(f32, (bm, bn))
            hx.fill(rc, 0.0)
            for _ in range(tiles):
                with pipe.consume() as s:
                    hx.gemm(rc, sa[:, :, s], sb[:, :, s])
            if biased:
                r = hx.register_tensor(f16, (1, bn))
                hx.copy(hx.global_view(bias[y:], ((1, bn), (0, 1))), r)
                rc = rc + hx.cast(r, f32)
            hx.copy(hx.cast(rc, f16), hx.global_view(c[x:, y:], ((bm, bn), (n, 1))))

    (plan,) = product.compile("sm_90").solution.wgmmas.values()
    assert plan.row.tile[1] == bn
