"""hx.reduce by a function of the author's: associative, of one tile or several, in every type."""

import linecache

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import bf16, boolean, f16, f32, f64, i8, i32, i64, u8
from hexcute_core.dtypes import DType
from hexcute_core.errors import FrontendError
from hexcute_core.frontend import define, trace
from hexcute_core.simulator.lanes.values import storage
from hexcute_core.tile.promise import Promise

m = hx.dim("m")


def product(left, right):
    return left * right


def leftmost(left, right):
    return left


def rightmost(left, right):
    return right


def greater(left, right):
    return hx.maximum(left, right)


def welford(ln, lm, ls, rn, rm, rs):
    """Counts, means and sums of squares of two parts, as one's."""
    count, apart = ln + rn, rm - lm
    return count, lm + apart * rn / count, ls + rs + apart * apart * ln * rn / count


def along(function: object, dtype: DType, columns: int, threads: int) -> hx.Kernel:
    @hx.kernel(cache=False)
    def kernel(x: dtype[m, columns], y: dtype[m, 1]):
        hx.attrs.cuda.grid_dim = hx.cdiv(m, 8)
        hx.attrs.cuda.block_dim = threads
        first = hx.blockIdx.x * 8
        r = hx.register_tensor(dtype, (8, columns))
        hx.copy(hx.global_view(x[first:, :], ((8, columns), (columns, 1))), r)
        found = hx.reduce(r, 1, function)
        hx.copy(found, hx.global_view(y[first:, :], ((8, 1), (1, 1))))

    return kernel


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("function, meant", [
    (product, lambda x: x.prod(1, keepdims=True)), (leftmost, lambda x: x[:, :1]),
    (rightmost, lambda x: x[:, -1:]), (greater, lambda x: x.max(1, keepdims=True)),
])  # fmt: skip
@pytest.mark.parametrize("columns, threads", [(64, 32), (20, 64), (1, 32)])
def test_a_mode_is_reduced_in_order(
    function: object, meant: object, columns: int, threads: int, target: str
) -> None:
    x = np.random.default_rng(0).choice([-1.0, 1.0, 2.0], (11, columns)).astype(np.float32)
    y = np.zeros((11, 1), np.float32)
    kernel = along(function, f32, columns, threads)
    kernel.simulate(x, y, target=target, compare=True, schedules=2)
    assert np.array_equal(y, meant(x))
    assert kernel.compile(target, verify=True, aligned=False).thread.params


@pytest.mark.parametrize("dtype", [f16, bf16, f64, i8, i32, i64, u8, boolean], ids=str)
def test_every_type_keeps_its_bits(dtype: DType) -> None:
    x = np.random.default_rng(1).integers(0, 2, (9, 24)).astype(np.float32).astype(storage(dtype))
    if dtype.is_float:
        x[0, -1], x[1, -1], x[2, -1] = -0.0, np.nan, np.inf
    elif dtype.kind != "bool":
        x[0, -1], x[1, -1] = np.iinfo(x.dtype).min, np.iinfo(x.dtype).max
    y = np.zeros((9, 1), x.dtype)
    along(rightmost, dtype, 24, 32).simulate(x, y, target="sm_90")
    assert y.tobytes() == np.ascontiguousarray(x[:, -1:]).tobytes()


def test_several_tiles_are_reduced_together() -> None:
    @hx.kernel(cache=False)
    def moments(x: f32[m, 96], mean: f32[m, 1], squares: f32[m, 1]):
        hx.attrs.cuda.grid_dim = hx.cdiv(m, 4)
        hx.attrs.cuda.block_dim = 64
        first = hx.blockIdx.x * 4
        r, ones = hx.register_tensor(f32, (4, 96)), hx.register_tensor(f32, (4, 96))
        hx.copy(hx.global_view(x[first:, :], ((4, 96), (96, 1))), r)
        hx.fill(ones, 1.0)
        _, middle, spread = hx.reduce((ones, r, 0.0 * r), 1, welford)
        hx.copy(middle, hx.global_view(mean[first:, :], ((4, 1), (1, 1))))
        hx.copy(spread, hx.global_view(squares[first:, :], ((4, 1), (1, 1))))

    x = np.random.default_rng(2).normal(100, 1, (7, 96)).astype(np.float32)
    mean, squares = np.zeros((7, 1), np.float32), np.zeros((7, 1), np.float32)
    moments.simulate(x, mean, squares, target="sm_80")
    wide = x.astype(np.float64)
    assert np.allclose(mean, wide.mean(1, keepdims=True), rtol=1e-6)
    assert np.allclose(squares / 96, wide.var(1, keepdims=True), rtol=1e-4)


def kept(x: f32[m]):
    hx.reduce(hx.register_tensor(f32, (8, 8)), 1, product, 2)


def unknown(x: f32[m]):
    hx.reduce(hx.register_tensor(f32, (8, 8)), 1, "product")


REFUSED = {
    kept: ("hx.reduce by a function with keep=2", 'reduce the whole mode, or by "sum", "max" or'),
    unknown: ("hx.reduce has no operation 'product'", "use sum, max or min, or a function"),
}


@pytest.mark.parametrize("body", REFUSED, ids=lambda body: body.__name__)
def test_what_is_no_reduction_is_refused(body: object) -> None:
    with pytest.raises(FrontendError) as caught:
        trace(define(body), {}, Promise())
    message, fix = REFUSED[body]
    assert message in caught.value.message and str(caught.value.fix).startswith(fix)
    assert "hx.reduce(" in linecache.getline(caught.value.span.file, caught.value.span.line)
