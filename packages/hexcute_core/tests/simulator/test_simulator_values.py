"""Element types and scalar arithmetic against Python's integers, fractions and struct."""

import math
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hexcute_core import dtypes as dt
from hexcute_core.scalar import Binary, Call, Cast, Compare, Const, Select, Unary, Var
from hexcute_core.simulator.lanes.scalars import compile_scalar
from hexcute_core.simulator.lanes.state import LaneState
from hexcute_core.simulator.lanes.values import (
    convert,
    from_bytes,
    round_tf32,
    storage,
    to_bytes,
    truncate_tf32,
)

INTEGERS = [dt.i8, dt.u8, dt.i16, dt.u16, dt.i32, dt.u32, dt.i64, dt.u64, dt.i4, dt.u4, dt.u1]
X, Y = "x", "y"


def wrap(value, dtype):
    """What `dtype` holds of a Python integer, by its definition modulo 2^bits."""
    value %= 2**dtype.bits
    return (
        value - 2**dtype.bits if dtype.kind == "int" and value >= 2 ** (dtype.bits - 1) else value
    )


def bounds(dtype):
    low = -(2 ** (dtype.bits - 1)) if dtype.kind == "int" else 0
    return low, low + 2**dtype.bits - 1


OPERATIONS = {
    "add": lambda a, b, bits: a + b,
    "sub": lambda a, b, bits: a - b,
    "mul": lambda a, b, bits: a * b,
    "floordiv": lambda a, b, bits: a // b,
    "mod": lambda a, b, bits: a % b,
    "cdiv": lambda a, b, bits: -(-a // b),
    "min": lambda a, b, bits: min(a, b),
    "max": lambda a, b, bits: max(a, b),
    "and": lambda a, b, bits: a & b,
    "or": lambda a, b, bits: a | b,
    "xor": lambda a, b, bits: a ^ b,
    "shl": lambda a, b, bits: a << b if 0 <= b < bits else 0,
    "shr": lambda a, b, bits: a >> (b if 0 <= b < bits else bits),
}


def evaluate(e, **values):
    return compile_scalar(e)(LaneState(values, 4, [(0, 0, 0)]))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("op", OPERATIONS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_integer_arithmetic_wraps_and_rounds_down(op, dtype, data):
    """Per lane, uniform and mixed operands all give what Python's integers give, wrapped."""
    low, high = bounds(dtype)
    second = st.integers(low, high)
    if op in ("floordiv", "mod", "cdiv"):
        second = second.filter(lambda b: b != 0)
    if op in ("shl", "shr"):
        second = st.integers(max(-3, low), min(2 * dtype.bits, high))
    a = data.draw(st.lists(st.integers(low, high), min_size=4, max_size=4))
    b = data.draw(st.lists(second, min_size=4, max_size=4))
    e = Binary(op, Var(X, dtype), Var(Y, dtype), dtype)
    cell = storage(dtype)
    lanes_a, lanes_b = np.array(a, dtype=cell), np.array(b, dtype=cell)

    def expected(pairs):
        return [wrap(OPERATIONS[op](p, q, dtype.bits), dtype) for p, q in pairs]

    with np.errstate(all="ignore"):
        both = evaluate(e, x=lanes_a, y=lanes_b)
        left = evaluate(e, x=lanes_a, y=b[0])
        right = evaluate(e, x=a[0], y=lanes_b)
        uniform = evaluate(e, x=a[0], y=b[0])
    assert both.dtype == left.dtype == right.dtype == cell
    assert both.tolist() == expected(zip(a, b, strict=True))
    assert left.tolist() == expected((p, b[0]) for p in a)
    assert right.tolist() == expected((a[0], q) for q in b)
    assert [uniform] == expected([(a[0], b[0])])


@given(st.sampled_from(INTEGERS), st.sampled_from(INTEGERS), st.integers(-(2**63), 2**64 - 1))
def test_integer_casts_keep_the_low_bits(source, target, value):
    value = wrap(value, source)
    lanes = convert(np.array([value], dtype=storage(source)), source, target)
    assert lanes.tolist() == [wrap(value, target)] == [convert(value, source, target)]


def test_floats_round_to_nearest_even():
    """f16 and bf16 bits of awkward float32 values, against struct and the definition."""
    values = [1 + 2**-11, 1 + 3 * 2**-11, 65504.0, 65519.9, 1e-8, -2.5, 3.14159]
    lanes = np.array(values, dtype=np.float32)
    got = convert(lanes, dt.f32, dt.f16)
    expected = [struct.unpack("<e", struct.pack("<e", v))[0] for v in lanes.tolist()]
    assert got.tolist() == expected
    pytest.importorskip("ml_dtypes")
    halfway = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF], dtype=np.uint32)
    got = convert(halfway.view(np.float32), dt.f32, dt.bf16)
    assert got.view(np.uint16).tolist() == [0x3F80, 0x3F82, 0x3F81, 0x7F80]


def test_tf32_rounds_ties_away_and_tensor_cores_truncate():
    ulp = 2.0**-10
    values = np.array([1 + ulp / 2, -1 - ulp / 2, 1 + ulp / 4, np.inf], dtype=np.float32)
    assert round_tf32(values).tolist() == [1 + ulp, -1 - ulp, 1, np.inf]
    assert truncate_tf32(values).tolist() == [1, -1, 1, np.inf]
    assert convert(values, dt.f32, dt.tf32).tolist() == [1 + ulp, -1 - ulp, 1, np.inf]


@pytest.mark.parametrize(("dtype", "limit"), [(dt.f8e4m3, 448), (dt.f8e5m2, 57344)])
def test_8_bit_floats_saturate(dtype, limit):
    pytest.importorskip("ml_dtypes")
    got = convert(np.array([1e9, -1e9, 1.0, np.nan], dtype=np.float32), dt.f32, dtype)
    np.testing.assert_array_equal(got.astype(np.float32), [limit, -limit, 1, np.nan])


@pytest.mark.parametrize("dtype", [dt.u4, dt.i4, dt.u2, dt.i2, dt.u1, dt.i1], ids=str)
def test_narrow_types_pack_from_the_lowest_bits(dtype):
    low, high = bounds(dtype)
    rng = np.random.default_rng(0)
    cells = rng.integers(low, high + 1, (3, 16)).astype(storage(dtype))
    raw = to_bytes(cells, dtype)
    numbers = [int.from_bytes(bytes(row), "little") for row in raw]
    for row, packed in zip(cells, numbers, strict=True):
        for i, cell in enumerate(row):
            assert packed >> (i * dtype.bits) & (2**dtype.bits - 1) == int(cell) % 2**dtype.bits
    np.testing.assert_array_equal(from_bytes(raw, dtype), cells)


@pytest.mark.parametrize("op", ["exp", "exp2", "log", "log2", "sqrt", "tanh", "sin", "cos", "erf"])
def test_float_functions(op):
    exact = {"exp2": lambda v: 2.0**v}.get(op) or getattr(math, op)
    values = [0.25, 1.0, 3.7, 10.0]
    e = Unary(op, Var(X, dt.f32), dt.f32)
    got = evaluate(e, x=np.array(values, dtype=np.float32))
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, [exact(v) for v in np.float32(values).tolist()], rtol=3e-7)
    one = evaluate(e, x=np.float32(3.7))
    assert one == got[2]


def test_float_min_and_max_drop_nan():
    lanes = np.array([np.nan, 1.0, 2.0, -1.0], dtype=np.float32)
    e = Binary("max", Var(X, dt.f32), Const(0.5, dt.f32), dt.f32)
    assert evaluate(e, x=lanes).tolist() == [0.5, 1.0, 2.0, 0.5]


def test_float_to_integer_truncates_and_saturates():
    e = Cast(Var(X, dt.f32), dt.i32)
    lanes = np.array([-1.9, 1e20, np.nan, 2.5], dtype=np.float32)
    assert evaluate(e, x=lanes).tolist() == [-1, 2**31 - 1, 0, 2]
    assert [evaluate(e, x=v) for v in lanes] == [-1, 2**31 - 1, 0, 2]


@pytest.mark.parametrize("op", ["inv", "not"])
def test_a_condition_is_negated_for_all_lanes_or_for_each(op):
    e = Unary(op, Var(X, dt.boolean), dt.boolean)
    assert [evaluate(e, x=True), evaluate(e, x=False)] == [False, True]
    assert evaluate(e, x=np.array([True, False])).tolist() == [False, True]


def test_a_uniform_condition_evaluates_one_side():
    divide = Binary("floordiv", Const(1, dt.i32), Var(X), dt.i32)
    e = Select(Compare("ne", Var(X), Const(0, dt.i32)), divide, Const(7, dt.i32), dt.i32)
    assert evaluate(e, x=0) == 7


@pytest.mark.parametrize(
    ("name", "operand", "expected"),
    [
        ("shfl.xor", 5, [lane ^ 5 for lane in range(32)]),
        ("shfl.idx", 3, [3] * 32),
        ("shfl.down", 4, [lane + 4 if lane < 28 else lane for lane in range(32)]),
        ("shfl.up", 4, [lane - 4 if lane >= 4 else lane for lane in range(32)]),
    ],
)
def test_shuffles(name, operand, expected):
    e = Call(name, (Var(X), Const(operand, dt.i32)), dt.i32)
    lanes = np.arange(64, dtype=np.int32)
    got = compile_scalar(e)(LaneState({"x": lanes}, 64, [(0, 0, 0)]))
    assert got.tolist() == expected + [32 + lane for lane in expected]


@pytest.mark.parametrize("dtype, numpy", [(dt.i64, np.int64), (dt.f64, np.float64)])
def test_a_shuffle_of_64_bits_is_two_instructions(dtype, numpy):
    state = LaneState({"x": np.arange(32).astype(numpy) * 2**40}, 32, [(0, 0, 0)])
    got = compile_scalar(Call("shfl.xor", (Var(X, dtype), Const(1, dt.i32)), dtype))(state)
    assert got.tolist() == [(lane ^ 1) * 2**40 for lane in range(32)]


def test_votes():
    lanes = np.arange(64, dtype=np.int32)
    for name, dtype, expected in [
        ("vote.any", dt.boolean, [True] * 32 + [False] * 32),
        ("vote.all", dt.boolean, [False] * 64),
        ("vote.ballot", dt.u32, [0b111] * 32 + [0] * 32),
    ]:
        e = Call(name, (Compare("lt", Var(X), Const(3, dt.i32)),), dtype)
        got = compile_scalar(e)(LaneState({"x": lanes}, 64, [(0, 0, 0)]))
        assert got.tolist() == expected
