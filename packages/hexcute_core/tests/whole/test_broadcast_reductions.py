"""A reduction of one tile that is broadcast over another: legal whatever the extents, with a
rearrange where their layouts cannot meet and none where nothing is reduced."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import i32
from hexcute_core.errors import RearrangeWarning


def subtracted(m, n, k, axis, op, threads, scanned):
    """o = a - (reduction of b along `axis` + 1), and p what was subtracted, or its running sum."""
    shape, out = ((m, k), (m, 1)) if axis == 1 else ((k, n), (1, n))

    @hx.kernel(cache=False)
    def kernel(a: i32[m, n], b: i32[shape], o: i32[m, n], p: i32[out]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = threads
        x, y = hx.register_tensor(i32, (m, n)), hx.register_tensor(i32, shape)
        hx.copy(hx.global_view(a, ((m, n), (n, 1))), x)
        hx.copy(hx.global_view(b, (shape, (shape[1], 1))), y)
        z = hx.reduce(y, axis, op) + 1
        hx.copy(x - z, hx.global_view(o, ((m, n), (n, 1))))
        if scanned:
            hx.copy(hx.cumsum(z, 1 - axis), hx.global_view(p, (out, (out[1], 1))))
        else:
            hx.copy(z, hx.global_view(p, (out, (out[1], 1))))

    return kernel, shape


@pytest.mark.parametrize("m, n, k, threads", [
    (32, 40, 1, 192), (32, 40, 3, 192), (7, 40, 5, 96), (33, 17, 1, 64), (16, 64, 8, 256),
])  # fmt: skip
@pytest.mark.parametrize("axis, op, scanned", [(1, "sum", True), (0, "max", False)])
def test_a_broadcast_reduction_has_a_layout(m, n, k, threads, axis, op, scanned):
    kernel, shape = subtracted(m, n, k, axis, op, threads, scanned)
    with warnings.catch_warnings():
        warnings.simplefilter("error" if k == 1 else "ignore", RearrangeWarning)
        compiled = kernel.compile("sm_80", verify=True)
        assert compiled.solution
    rng = np.random.default_rng(m + n)
    a, b = (rng.integers(-9, 9, s).astype(np.int32) for s in ((m, n), shape))
    z = getattr(np, op)(b, axis=axis, keepdims=True).astype(np.int32) + 1
    o, p = np.zeros_like(a), np.zeros_like(z)
    compiled.simulate(a, b, o, p)
    assert np.array_equal(o, a - z)
    assert np.array_equal(p, np.cumsum(z, 1 - axis) if scanned else z)


def folded(m, n, axis, keep, op, threads):
    """y: of every place of `axis` modulo `keep` the sum, maximum or minimum; z: of all of them."""
    shape = tuple(keep if d == axis else extent for d, extent in enumerate((m, n)))
    one = tuple(1 if d == axis else extent for d, extent in enumerate((m, n)))

    @hx.kernel(cache=False)
    def kernel(x: i32[m, n], y: i32[shape], z: i32[one]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = threads
        r = hx.register_tensor(i32, (m, n))
        hx.copy(hx.global_view(x, ((m, n), (n, 1))), r)
        part = hx.reduce(r, axis, op, keep)
        hx.copy(part, hx.global_view(y, (shape, (shape[1], 1))))
        hx.copy(hx.reduce(part, axis, op), hx.global_view(z, (one, (one[1], 1))))

    return kernel, shape, one


@pytest.mark.parametrize("m, n, axis, keep, threads", [
    (16, 64, 1, 8, 128), (16, 64, 1, 1, 128), (16, 64, 1, 64, 128), (16, 64, 0, 4, 64),
    (7, 96, 1, 8, 96), (7, 96, 1, 3, 96), (33, 40, 1, 5, 64), (32, 24, 0, 8, 192), (4, 2, 1, 2, 32),
])  # fmt: skip
@pytest.mark.parametrize("op", ["sum", "max", "min"])
def test_a_reduction_keeps_places_apart(m, n, axis, keep, op, threads):
    kernel, shape, one = folded(m, n, axis, keep, op, threads)
    x = np.random.default_rng(m * n + keep).integers(-99, 99, (m, n)).astype(np.int32)
    y, z = np.zeros(shape, np.int32), np.zeros(one, np.int32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RearrangeWarning)
        kernel.compile("sm_80", verify=True).simulate(x, y, z)
    cut = (x.shape[axis] // keep, keep)
    meant = x.reshape(*cut, n) if axis == 0 else x.reshape(m, *cut)
    assert np.array_equal(y, getattr(np, op)(meant, axis=axis))
    assert np.array_equal(z, getattr(np, op)(x, axis=axis, keepdims=True))


def test_threads_of_a_product_keep_their_sums_to_themselves():
    f16, f32 = hx.f16, hx.f32

    @hx.kernel(cache=False)
    def kernel(a: f16[64, 64], b: f16[32, 64], y: f32[64, 8], *, KEEP: int = 8):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 128
        sa, sb = hx.shared_tensor(f16, (64, 64)), hx.shared_tensor(f16, (32, 64))
        hx.copy(hx.global_view(a, ((64, 64), (64, 1))), sa)
        hx.copy(hx.global_view(b, ((32, 64), (64, 1))), sb)
        hx.syncthreads()
        r = hx.register_tensor(f32, (64, 32))
        hx.gemm(r, sa, sb, accumulate=False)
        part = hx.sum(r, 1, keep=KEEP)
        hx.copy(part, hx.global_view(y, ((64, KEEP), (8, 1))))

    a, b = (np.random.default_rng(s).integers(-3, 4, (s, 64)).astype(np.float16) for s in (64, 32))
    y = np.zeros((64, 8), np.float32)
    compiled = kernel.compile("sm_90", verify=True)
    report = compiled.simulate(a, b, y)
    assert np.array_equal(y, (a.astype(np.float32) @ b.T).reshape(64, 4, 8).sum(1))
    assert not [name for name in report.counters.instructions if name.startswith("shfl")]
    fewer = kernel.compile("sm_90", KEEP=4).simulate(a, b, np.zeros_like(y))
    assert [name for name in fewer.counters.instructions if name.startswith("shfl")]


@pytest.mark.parametrize("keep", [0, 3, -1, 2.0])
def test_what_cannot_be_kept_is_told(keep):
    @hx.kernel(cache=False)
    def kernel(x: i32[8, 64]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        r = hx.register_tensor(i32, (8, 64))
        hx.fill(r, 1)
        hx.copy(hx.sum(r, 1, keep=keep), hx.global_view(x, ((8, 1), (64, 1))))

    with pytest.raises(hx.errors.HexcuteError, match=f"with keep={keep}") as raised:
        kernel.compile("sm_80").tile  # noqa: B018
    assert "divides the 64 places" in raised.value.fix
