"""fold(op, constants) = what the machine would compute, or None where only it can.

Integers of a type wrap to it, floats round to it once per operation, as numbers known only at run
time do. `//` and `%` round down, as Python's do; a shift by a count that is negative or not below
the width moves every bit out.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

from hexcute_core import dtypes
from hexcute_core.dtypes import DType
from hexcute_core.scalar.expr import BinaryOp, CompareOp, Const, UnaryOp
from hexcute_core.scalar.numbers import Number, converted, typed, wrap

MOST_PRODUCTS = 4
"""x ** n of floats is products up to this n, the power function beyond."""

_INTEGER: dict[str, Callable[[int, int], int]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "min": min, "max": max,
    "and": operator.and_, "or": operator.or_, "xor": operator.xor,
}  # fmt: skip
_DIVISION: dict[str, Callable[[int, int], int]] = {
    "floordiv": operator.floordiv, "mod": operator.mod, "cdiv": lambda a, b: -(-a // b),
}  # fmt: skip
_FLOAT: dict[str, Callable[[float, float], float]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul,
}  # fmt: skip
_COMPARE: dict[str, Callable[[Number, Number], bool]] = {
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "eq": operator.eq, "ne": operator.ne,
}  # fmt: skip


def fold_binary(op: BinaryOp, a: Const, b: Const, dtype: DType) -> Const | None:
    """`a op b` of type `dtype`, in which both are (but for the count of a shift)."""
    if op in ("land", "lor"):
        found = bool(a.value) and bool(b.value) if op == "land" else bool(a.value) or bool(b.value)
        return Const(found, dtypes.boolean)
    if dtype.is_float:
        value = _float(op, float(a.value), b.value, dtype)
    else:
        value = _integer(op, int(a.value), int(b.value), dtype)
    return None if value is None else Const(typed(value, dtype), dtype)


def _integer(op: BinaryOp, a: int, b: int, dtype: DType) -> int | None:
    if op in _INTEGER:
        return _INTEGER[op](a, b)
    if op in _DIVISION:
        return _DIVISION[op](a, b) if b else None
    if op == "pow":
        return pow(a, b, 1 << dtype.bits) if b >= 0 else None
    if op in ("shl", "shr"):
        return shifted(op, a, b, dtype)
    return None


def shifted(op: BinaryOp, a: int, count: int, dtype: DType) -> int:
    """`a << count` or `a >> count` in `dtype`."""
    places = count if 0 <= count < dtype.bits else dtype.bits
    return wrap(a << places if op == "shl" else a >> places, dtype)


def _float(op: BinaryOp, a: float, b: Number, dtype: DType) -> float | None:
    b = float(b)
    if op in _FLOAT:
        return _FLOAT[op](a, b)
    if op in ("min", "max"):
        return extreme(op, a, b)
    if op == "div":
        return _quotient(a, b)
    if op == "pow" and b in range(1, MOST_PRODUCTS + 1):
        wide = dtypes.f64 if dtype.bits == 64 else dtypes.f32
        total = a
        for _ in range(int(b) - 1):
            total = float(typed(total * a, wide))
        return total
    return None


def _quotient(a: float, b: float) -> float:
    if b:
        return a / b
    if a == 0 or math.isnan(a) or math.isnan(b):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def extreme(op: BinaryOp, a: float, b: float) -> float:
    """The smaller or larger of two floats: a number rather than NaN, and -0 below 0."""
    if math.isnan(a) or math.isnan(b):
        return b if math.isnan(a) else a
    if a == b == 0:
        negative = [math.copysign(1.0, x) < 0 for x in (a, b)]
        return -0.0 if (any(negative) if op == "min" else all(negative)) else 0.0
    return min(a, b) if op == "min" else max(a, b)


def fold_unary(op: UnaryOp, a: Const, dtype: DType) -> Const | None:
    """`op a` of type `dtype`."""
    value = a.value
    match op:
        case "not":
            return Const(not value, dtypes.boolean)
        case "isnan":
            return Const(isinstance(value, float) and math.isnan(value), dtypes.boolean)
        case "neg":
            return Const(typed(-value, dtype), dtype)
        case "abs":
            return Const(typed(abs(value), dtype), dtype)
        case "inv":
            flipped: Number = not value if dtype.kind == "bool" else ~int(value)
            return Const(typed(flipped, dtype), dtype)
        case _:
            return None


def fold_compare(op: CompareOp, a: Number, b: Number) -> Const:
    """`a op b` of two numbers."""
    return Const(_COMPARE[op](a, b), dtypes.boolean)


def fold_cast(a: Const, dtype: DType) -> Const:
    """`a` converted to `dtype`."""
    return Const(converted(a.value, a.dtype, dtype), dtype)
