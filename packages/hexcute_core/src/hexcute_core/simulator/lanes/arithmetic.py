"""op(x, y) on values, as the language means it: integers that wrap, quotients rounded down, floats
rounded once per operation (those of fewer than 32 bits from f32).

Each maker returns a function of values of one type. Integers that are the same for all lanes are
Python ints and stay so; anything per lane is a numpy array of the storage type. Functions get the
machine to report a division by zero of an executing lane.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from hexcute_core import dtypes
from hexcute_core.dtypes import DType
from hexcute_core.errors import SimulationError
from hexcute_core.simulator.lanes.state import LaneState
from hexcute_core.simulator.lanes.values import (
    Array,
    Value,
    bounds,
    convert,
    storage,
    wrap_cells,
    wrap_int,
)

Binary = Callable[[LaneState, Value, Value], Value]
Unary = Callable[[Value], Value]


_INT_SCALAR: dict[str, Callable[[int, int], int]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul,
    "floordiv": operator.floordiv, "mod": operator.mod, "cdiv": lambda a, b: -(-a // b),
    "min": min, "max": max,
    "and": operator.and_, "or": operator.or_, "xor": operator.xor, "pow": operator.pow,
}  # fmt: skip
_INT_ARRAY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply,
    "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "pow": np.power,
}  # fmt: skip
_FLOAT: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    "min": lambda a, b: smallest(a, b), "max": lambda a, b: largest(a, b), "pow": np.power,
}  # fmt: skip
MOST_PRODUCTS = 4
"""x ** n is products up to this n, as the code generator writes it."""


def largest(a: Any, b: Any) -> Any:
    """The larger of two floats: a number rather than NaN, 0 rather than -0."""
    return np.where((a == 0) & (b == 0), a + b, np.fmax(a, b)).astype(a.dtype)[()]


def smallest(a: Any, b: Any) -> Any:
    """The smaller of two floats: a number rather than NaN, -0 rather than 0."""
    return -largest(-a, -b)


def binary_function(op: str, dtype: DType) -> Binary:
    """`op` on two values of `dtype` (the amount of a shift may have another integer type)."""
    if op in ("land", "lor"):
        return _logical(op)
    if op in ("shl", "shr"):
        return _shift(op, dtype)
    if dtype.is_float:
        return _float_binary(op, dtype)
    if dtype.kind == "bool":
        return _bool_binary(op)
    if op in ("floordiv", "cdiv", "mod"):
        return _division(op, dtype)
    if op not in _INT_SCALAR:
        raise SimulationError(f"`{op}` has no meaning on {dtype}", fix="cast to f32 first")
    scalar, vector = _INT_SCALAR[op], _INT_ARRAY[op]
    low, high = bounds(dtype)

    def run(m: LaneState, a: Value, b: Value) -> Value:
        # Most integers are places in tiles: equal for all lanes, and small.
        if type(a) is int and type(b) is int:
            found = scalar(a, b)
            return found if low <= found <= high else wrap_int(found, dtype)
        if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
            return wrap_cells(vector(a, b), dtype)
        return wrap_int(scalar(int(a), int(b)), dtype)

    return run


def _logical(op: str) -> Binary:
    vector = np.logical_and if op == "land" else np.logical_or

    def run(m: LaneState, a: Value, b: Value) -> Value:
        if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
            result: Array = vector(a, b)
            return result
        return bool(a and b) if op == "land" else bool(a or b)

    return run


def _bool_binary(op: str) -> Binary:
    names = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor,
             "min": np.logical_and, "max": np.logical_or}  # fmt: skip
    if op not in names:
        raise SimulationError(f"`{op}` has no meaning on booleans", fix="cast to i32 first")
    vector = names[op]

    def run(m: LaneState, a: Value, b: Value) -> Value:
        result = vector(a, b)
        return result if isinstance(result, np.ndarray) else bool(result)

    return run


def _float_binary(op: str, dtype: DType) -> Binary:
    if op not in _FLOAT:
        raise SimulationError(f"`{op}` has no meaning on {dtype}", fix="cast to an integer first")
    function, wide = _FLOAT[op], dtypes.f64 if dtype.bits == 64 else dtypes.f32

    def run(m: LaneState, a: Value, b: Value) -> Value:
        if wide != dtype:
            a, b = convert(a, dtype, wide), convert(b, dtype, wide)
        result: Value = function(a, b)
        return result if wide == dtype else convert(result, wide, dtype)

    return run


def power_function(n: int, dtype: DType) -> Unary:
    """`x ** n` of floats as n - 1 products, rounded to `dtype` at the end."""
    wide = dtypes.f64 if dtype.bits == 64 else dtypes.f32

    def run(a: Value) -> Value:
        base = convert(a, dtype, wide)
        total = base
        for _ in range(n - 1):
            total = total * base  # type: ignore[operator]
        return convert(total, wide, dtype)

    return run


def _division(op: str, dtype: DType) -> Binary:
    scalar = _INT_SCALAR[op]

    def run(m: LaneState, a: Value, b: Value) -> Value:
        if not isinstance(a, np.ndarray) and not isinstance(b, np.ndarray):
            if b == 0:
                if len(m.active()):
                    m.fail("integer division by zero")
                return 0
            return wrap_int(scalar(int(a), int(b)), dtype)
        divisor = np.asarray(b, dtype=storage(dtype))
        zero = divisor == 0
        if zero.any():
            lanes = m.active()
            bad = lanes[np.broadcast_to(zero, m.lanes)[lanes]]
            if len(bad):
                m.fail("integer division by zero", int(bad[0]))
            divisor = np.where(zero, storage(dtype).type(1), divisor)
        dividend = np.asarray(a, dtype=storage(dtype))
        rest: Array = np.remainder(dividend, divisor)
        if op == "mod":
            return rest
        whole: Array = np.floor_divide(dividend, divisor)
        return wrap_cells(whole + (rest != 0) if op == "cdiv" else whole, dtype)

    return run


def _shift(op: str, dtype: DType) -> Binary:
    bits = dtype.bits

    def run(m: LaneState, a: Value, b: Value) -> Value:
        if isinstance(b, int):
            # An amount that is negative or past the width moves every bit out.
            amount = b if 0 <= b < bits else bits
            if isinstance(a, int):
                return wrap_int(a << amount if op == "shl" else a >> amount, dtype)
            b = np.full(1, amount, np.int64)
        cells = np.broadcast_to(np.asarray(a, dtype=storage(dtype)), m.lanes)
        amounts = np.asarray(b)
        beyond = (amounts < 0) | (amounts >= bits)
        places = np.where(beyond, bits - 1, amounts).astype(cells.dtype)
        shifted = cells << places if op == "shl" else cells >> places
        if beyond.any() and not (op == "shr" and dtype.kind == "int"):
            shifted = np.where(beyond, cells.dtype.type(0), shifted)
        return wrap_cells(shifted, dtype)

    return run


COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "eq": operator.eq, "ne": operator.ne,
}  # fmt: skip

_erf = np.vectorize(math.erf, otypes=[np.float64])
_FLOAT_UNARY: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "rcp": lambda x: 1 / x, "tanh": np.tanh,
    "sin": np.sin, "cos": np.cos, "erf": _erf, "floor": np.floor, "ceil": np.ceil,
    "neg": np.negative, "abs": np.abs,
}  # fmt: skip


_INT_UNARY: dict[str, tuple[Callable[[int], int], Callable[[Any], Any]]] = {
    "neg": (operator.neg, np.negative),
    "inv": (operator.invert, np.invert),
    "abs": (abs, np.abs),
}


def unary_function(op: str, source: DType, target: DType) -> Unary:
    """`op` on a value of `source`, giving `target` (float functions compute in float32)."""
    if op == "not" or (op == "inv" and source.kind == "bool"):
        return lambda a: ~(a != 0) if isinstance(a, np.ndarray) else not a
    if source.is_float:
        return _float_unary(op, source, target)
    if op == "isnan":
        return lambda a: np.zeros(a.shape, dtype=np.bool_) if isinstance(a, np.ndarray) else False
    if op in ("neg", "inv", "abs"):
        return _int_unary(op, source)
    if op in ("floor", "ceil"):
        return lambda a: a
    function = _float_unary(op, dtypes.f32, target)
    return lambda a: function(convert(a, source, dtypes.f32))


def _float_unary(op: str, source: DType, target: DType) -> Unary:
    if op == "isnan":
        return lambda a: np.isnan(a)
    if op == "inv":
        raise SimulationError(f"`~` has no meaning on {source}", fix="cast to an integer first")
    function = _FLOAT_UNARY[op]
    wide = dtypes.f64 if source.bits == 64 else dtypes.f32
    cell = storage(wide)

    def run(a: Value) -> Value:
        result = np.asarray(function(np.asarray(a, dtype=cell)), dtype=cell)
        return convert(result if isinstance(a, np.ndarray) else result[()], wide, target)

    return run


def _int_unary(op: str, dtype: DType) -> Unary:
    scalar, vector = _INT_UNARY[op]

    def run(a: Value) -> Value:
        if isinstance(a, np.ndarray):
            return wrap_cells(vector(a), dtype)
        return wrap_int(scalar(int(a)), dtype)

    return run
