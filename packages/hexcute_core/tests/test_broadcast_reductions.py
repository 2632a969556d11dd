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
