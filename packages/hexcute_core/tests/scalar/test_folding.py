"""Folding is right or does not happen: constants and identities against the simulator's lanes."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hexcute_core import dtypes as dt
from hexcute_core.errors import FrontendError
from hexcute_core.scalar import Binary, Cast, Compare, Const, Unary, Var, binary, cast, compare
from hexcute_core.scalar.bounds import bounds
from hexcute_core.scalar.fold import fold_binary, fold_unary
from hexcute_core.scalar.numbers import limits, typed
from hexcute_core.scalar.promotion import holds, promote
from hexcute_core.simulator.lanes.scalars import compile_scalar
from hexcute_core.simulator.lanes.state import LaneState
from hexcute_core.simulator.lanes.values import storage

ml_dtypes = pytest.importorskip("ml_dtypes")

OPS = [
    "add", "sub", "mul", "floordiv", "cdiv", "mod", "min", "max", "and", "or", "xor", "shl", "shr",
]  # fmt: skip
FLOAT_OPS = ["add", "sub", "mul", "min", "max"]
BYTES = [dt.i8, dt.u8]
WIDER = [dt.i16, dt.u16, dt.i32, dt.u32, dt.i64, dt.u64]
FLOATS = [dt.f8e4m3, dt.f8e5m2, dt.f16, dt.bf16, dt.tf32, dt.f32, dt.f64]


def lanes_of(e, **values):
    """The cells of `e` for variables given as arrays of one length."""
    count = len(next(iter(values.values())))
    with np.errstate(all="ignore"):
        result = compile_scalar(e)(LaneState(values, count, [(0, 0, 0)]))
    return np.broadcast_to(np.asarray(result, dtype=storage(e.dtype)), count)


def same(a, b):
    """Whether two numbers are one: NaN is NaN, and zeros have their signs."""
    a, b = float(a), float(b)
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b and math.copysign(1, a) == math.copysign(1, b)


@pytest.mark.parametrize("dtype", BYTES, ids=str)
@pytest.mark.parametrize("op", OPS)
def test_every_pair_of_bytes_folds_to_what_lanes_compute(op, dtype):
    low, high = limits(dtype)
    numbers = np.arange(low, high + 1, dtype=storage(dtype))
    a, b = (grid.ravel() for grid in np.meshgrid(numbers, numbers, indexing="ij"))
    if op in ("floordiv", "cdiv", "mod"):
        a, b = a[b != 0], b[b != 0]
    e = Binary(op, Var("a", dtype), Var("b", dtype), dtype)
    wanted = lanes_of(e, a=a, b=b).tolist()
    consts = {int(n): Const(int(n), dtype) for n in numbers}
    pairs = zip(a.tolist(), b.tolist(), wanted, strict=True)
    assert all(fold_binary(op, consts[x], consts[y], dtype).value == z for x, y, z in pairs)


@pytest.mark.parametrize("dtype", BYTES, ids=str)
@pytest.mark.parametrize("op", OPS)
def test_what_a_constant_makes_of_a_byte_is_the_same_for_each(op, dtype):
    """`binary` with one side known."""
    low, high = limits(dtype)
    x, cells = Var("x", dtype), np.arange(low, high + 1, dtype=storage(dtype))
    divides = op in ("floordiv", "cdiv", "mod")
    nonzero = cells[cells != 0] if divides else cells
    for number in range(low, high + 1):
        c = Const(number, dtype)
        sides = [(Binary(op, c, x, dtype), binary(op, number, x), nonzero)]
        if number or not divides:
            sides.append((Binary(op, x, c, dtype), binary(op, x, number), cells))
        for plain, made, some in sides:
            assert (lanes_of(made, x=some) == lanes_of(plain, x=some)).all(), str(plain)


@pytest.mark.parametrize("dtype", BYTES, ids=str)
@pytest.mark.parametrize("outer", ["floordiv", "cdiv", "mod", "add", "mul", "shr"])
@pytest.mark.parametrize("inner", ["mul", "add", "sub", "shl", "and"])
def test_operations_on_products_and_sums_that_wrap(inner, outer, dtype):
    x, cells = Var("x", dtype), np.arange(*limits(dtype), dtype=storage(dtype))
    for c in (1, 2, 3, 4, 6, 7):
        for d in (1, 2, 3, 4, 5, 6):
            first = Binary(inner, x, Const(c, dtype), dtype)
            made = binary(outer, binary(inner, x, c), d)
            plain = Binary(outer, first, Const(d, dtype), dtype)
            assert (lanes_of(made, x=cells) == lanes_of(plain, x=cells)).all(), str(plain)


def number_of(dtype):
    if dtype.is_float:
        plain = st.floats(allow_nan=True, allow_infinity=True)
        return st.one_of(plain, st.sampled_from([0.0, -0.0, 448.0, 57344.0, 65504.0, 65520.0])).map(
            lambda v: typed(v, dtype)
        )
    low, high = limits(dtype)
    return st.one_of(st.integers(low, high), st.sampled_from([low, high, 0, min(1, high)]))


@pytest.mark.parametrize("dtype", WIDER, ids=str)
@pytest.mark.parametrize("op", OPS)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_wider_integers_fold_to_what_lanes_compute(op, dtype, data):
    a, b = data.draw(number_of(dtype)), data.draw(number_of(dtype))
    if op in ("shl", "shr"):
        b = data.draw(st.integers(max(-2, limits(dtype)[0]), dtype.bits + 2))
    if op in ("floordiv", "cdiv", "mod") and b == 0:
        b = 1
    cells = {n: np.array([v], dtype=storage(dtype)) for n, v in (("a", a), ("b", b))}
    e = Binary(op, Var("a", dtype), Var("b", dtype), dtype)
    folded = fold_binary(op, Const(a, dtype), Const(b, dtype), dtype)
    assert folded.value == lanes_of(e, **cells)[0]
    # The same with one side known, and without arrays.
    x, y = Var("a", dtype), Var("b", dtype)
    for made in (binary(op, x, Const(b, dtype)), binary(op, Const(a, dtype), y)):
        assert lanes_of(made, **cells)[0] == folded.value
    uniform = compile_scalar(e)(LaneState({"a": a, "b": b}, 1, [(0, 0, 0)]))
    assert uniform == folded.value


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("op", FLOAT_OPS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_floats_fold_to_what_lanes_compute(op, dtype, data):
    a, b = data.draw(number_of(dtype)), data.draw(number_of(dtype))
    cells = {n: np.array([v]).astype(storage(dtype)) for n, v in (("a", a), ("b", b))}
    e = Binary(op, Var("a", dtype), Var("b", dtype), dtype)
    folded = fold_binary(op, Const(a, dtype), Const(b, dtype), dtype)
    assert same(folded.value, lanes_of(e, **cells)[0])
    assert same(lanes_of(binary(op, Var("a", dtype), b), **cells)[0], folded.value)
    for compared in ("lt", "le", "eq", "ne"):
        known = compare(compared, Const(a, dtype), Const(b, dtype)).value
        run = Compare(compared, Var("a", dtype), Var("b", dtype))
        assert known == bool(lanes_of(run, **cells)[0])


@pytest.mark.parametrize("source", dt.ALL, ids=str)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_constants_convert_as_lanes_do(source, data):
    value = data.draw(number_of(source))
    wide = np.float64 if source.is_float else storage(source)
    cells = np.array([value], dtype=wide).astype(storage(source))
    for target in dt.ALL:
        known = cast(Const(value, source), target).value
        assert same(known, lanes_of(Cast(Var("x", source), target), x=cells)[0]), (value, target)
    for op in ("neg", "abs", "inv", "isnan", "not"):
        if (op == "inv" and source.is_float) or (source.kind == "bool" and op in ("neg", "abs")):
            continue
        target = dt.boolean if op in ("isnan", "not") else source
        known = fold_unary(op, Const(value, source), target)
        assert same(known.value, lanes_of(Unary(op, Var("x", source), target), x=cells)[0]), op


@pytest.mark.parametrize("dtype", [dt.f8e4m3, dt.f8e5m2, dt.f16, dt.bf16], ids=str)
def test_every_code_of_a_narrow_float_is_its_own_constant(dtype):
    codes = np.arange(2**dtype.bits, dtype=f"u{dtype.bits // 8}").view(storage(dtype))
    for code in codes.astype(np.float64).tolist():
        if math.isfinite(code):
            assert typed(code, dtype) == code


def test_a_float_rounds_half_to_even_and_saturates_where_its_type_does():
    assert typed(1 + 2**-11, dt.f16) == 1 and typed(1 + 3 * 2**-11, dt.f16) == 1 + 2**-9
    assert typed(1 + 2**-11, dt.tf32) == 1 + 2**-10
    assert typed(65519.9, dt.f16) == 65504 and typed(65520.0, dt.f16) == math.inf
    assert typed(1e9, dt.f8e4m3) == 448 and typed(-math.inf, dt.f8e5m2) == -57344
    assert typed(2.0**-150, dt.f32) == 0 and typed(2.0**-149, dt.f32) == 2.0**-149
    assert math.copysign(1, typed(-1e-60, dt.f32)) == -1


def test_types_meet_where_one_holds_the_other():
    for a in dt.ALL:
        for b in dt.ALL:
            try:
                met = promote(a, b)
            except FrontendError as error:
                assert a.is_integer and b.is_integer and not holds(a, b) and not holds(b, a)
                assert "hx.cast" in error.fix
                continue
            assert met == promote(b, a)
            assert met in (a, b) or (met == dt.f32 and a.is_float and b.is_float)
            assert (holds(met, a) and holds(met, b)) or (a.is_float != b.is_float)
    assert promote(dt.u8, dt.i16) == dt.i16
    assert promote(dt.i64, dt.f16) == dt.f16 and promote(dt.f16, dt.bf16) == dt.f32


def test_bounds_hold_for_every_byte():
    rng = np.random.default_rng(0)
    for dtype in BYTES:
        low, high = limits(dtype)
        x, cells = Var("x", dtype), np.arange(low, high + 1, dtype=storage(dtype))
        for _ in range(400):
            e = x
            for _ in range(3):
                op = OPS[rng.integers(len(OPS))]
                number = int(rng.integers(low, high + 1)) or 1
                number = abs(number) % 9 if op in ("shl", "shr") else number
                e = Binary(op, e, Const(number, dtype), dtype)
            least, greatest = bounds(e)
            found = lanes_of(e, x=cells)
            assert least <= found.min() and found.max() <= greatest, str(e)


@pytest.mark.parametrize("number", [300, -1, 2**40, -(2**70)])
@pytest.mark.parametrize("op", ["lt", "le", "gt", "ge", "eq", "ne"])
def test_a_number_outside_a_type_compares_as_itself(op, number):
    for x in (0, 255):
        said = compare(op, Var("x", dt.u8), number), compare(op, number, Var("x", dt.u8))
        meant = [getattr(p, f"__{op}__")(q) for p, q in ((x, number), (number, x))]
        assert [c.value for c in said] == meant
