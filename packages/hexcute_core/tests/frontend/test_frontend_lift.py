"""Strides of views become coordinate steps that address the same elements."""

import itertools

import pytest

import hexcute_core as hx
from hexcute_core import f16, i32
from hexcute_core.errors import FrontendError, SourceSpan
from hexcute_core.frontend import define, trace
from hexcute_core.frontend.language.lift import Along, Lifted, Refused, lift, strides
from hexcute_core.scalar import Const, Var, as_scalar
from hexcute_core.scalar.poly import constant, difference, divide, poly
from hexcute_core.tile import GlobalTensor
from hexcute_core.tile.promise import Promise

b, m, n, k = (Var(name) for name in "bmnk")
NONE = frozenset()


def buffer(*shape):
    return GlobalTensor("x", f16, tuple(as_scalar(e) for e in shape), SourceSpan("x.py", 1, 0))


def lifted(stride, *shape, extent=8, fixed=NONE):
    return lift(stride, as_scalar(extent), buffer(*shape), fixed)


@pytest.mark.parametrize(
    "stride, shape, step, dim",
    [
        (k, (m, k), 1, 0),
        (1, (m, k), 1, 1),
        (32, (m, k), 32, 1),
        (k * 4, (m, k), 4, 0),
        (8 * k * 2, (m, k), 16, 0),
        (m * k, (b, m, k), 1, 0),
        (k * m * 3, (b, m, k), 3, 0),
        (k, (b, m, k), 1, 1),
        (k + k, (b, m, k), 2, 1),
        (2 * k - k, (m, k), 1, 0),
        (0, (m, k), 0, 0),
        (64, (m, 64), 1, 0),
        (128, (m, 64), 2, 0),
        (16, (m, 64), 16, 1),
        (64 * k, (m, 64, k), 1, 0),
        (3 * k, (m, 64, k), 3, 1),
        (k, (1, k), 1, 0),
        (7, (n,), 7, 0),
        (Along(1, 4), (m, k), 4, 1),
    ],
)
def test_strides_with_one_meaning(stride, shape, step, dim):
    assert lifted(stride, *shape) == Lifted(step, dim)


@pytest.mark.parametrize(
    "stride, shape, reason",
    [
        (m, (m, k), "ambiguous"),
        (n * k, (b, m, k), "ambiguous"),
        (k // 2, (m, k), "ambiguous"),
        (k + 1, (m, k), "ambiguous"),
        (96, (m, 64), "extent is only 64"),
        (-1, (m, k), "negative"),
        (Along(2, 1), (m, k), "no dimension 2"),
    ],
)
def test_strides_without_one_meaning_say_why(stride, shape, reason):
    found = lifted(stride, *shape)
    assert isinstance(found, Refused) and reason in found.reason and found.fix


def test_a_mode_of_extent_one_may_have_a_large_stride():
    assert lifted(96, m, 64, extent=1) == Lifted(96, 1)


def test_dimensions_indexed_by_an_integer_do_not_move():
    found = lifted(m * k, b, m, k, fixed=frozenset({0}))
    assert isinstance(found, Refused) and "indexed by an integer" in found.reason
    assert lifted(k, b, m, k, fixed=frozenset({0})) == Lifted(1, 1)


def test_every_lift_over_constant_shapes_addresses_the_same_elements():
    accepted = 0
    for shape in itertools.product((1, 2, 3, 6), repeat=3):
        units = [constant(unit) for unit in strides(buffer(*shape))]
        assert units == [shape[1] * shape[2], shape[2], 1]
        for stride in range(1, 13):
            found = lifted(stride, *shape, extent=2)
            inside = [
                d for d in range(3) if stride % units[d] == 0 and stride // units[d] < shape[d]
            ]
            if isinstance(found, Lifted):
                accepted += 1
                assert found.step * units[found.dim] == stride
                # Where a dimension can take the step without leaving its extent, it is that one.
                assert found.dim in inside or not inside or found.dim == 0
            else:
                assert not inside
    assert accepted > 300


def test_polynomials():
    assert poly((k + 2) * (k - 2)) == {(k, k): 1, (): -4}
    assert difference(k * 2 + 16, k + k) == 16
    assert difference(k, m) is None
    assert constant(poly(Const(3, i32) << 2)) == 12
    assert divide(poly(6 * k * m), poly(2 * m)) == {(k,): 3}
    assert divide(poly(k + 1), poly(k)) is None


mm, kk = hx.dims("m, k")


def view_error(body):
    def kernel(a: f16[mm, kk], s: i32):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 32
        body(a, s)

    with pytest.raises(FrontendError) as caught:
        trace(define(kernel), {}, Promise())
    assert caught.value.span is not None and caught.value.fix
    return str(caught.value)


def test_view_errors_name_the_stride_and_the_buffer():
    text = view_error(lambda a, s: hx.global_view(a, ((16, 16), (mm, 1))))
    assert "stride m is ambiguous" in text and "(k, 1)" in text and "hx.along" in text
    text = view_error(lambda a, s: hx.global_view(a[s, :], ((16, 16), (kk, 1))))
    assert "dimension 0, which was indexed" in text
    text = view_error(lambda a, s: hx.global_view(a, ((16, 16), (kk,))))
    assert "shape has 2 modes and its stride 1" in text
    text = view_error(lambda a, s: hx.global_view(a, (((2, 8), 16), (kk, 1))))
    assert "not congruent" in text
    text = view_error(lambda a, s: hx.global_view(a[0:16, :], ((16, 16), (kk, 1))))
    assert "only the start" in text
    text = view_error(lambda a, s: hx.global_view(a[0, 0, 0], ((16, 16), (kk, 1))))
    assert "3 subscripts" in text
    text = view_error(lambda a, s: hx.global_view(s, ((16, 16), (kk, 1))))
    assert "expects a tensor parameter" in text
