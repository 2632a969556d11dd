"""Folding constructors: a node is built only where constants and identities do not decide it.

Index arithmetic of the compiler is non-negative, so `floordiv` and `mod` by a power of two of a
value known to be non-negative become shifts and masks.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from hexcute_core import dtypes
from hexcute_core.dtypes import DType
from hexcute_core.scalar.expr import (
    Binary,
    BinaryOp,
    Call,
    Cast,
    Compare,
    CompareOp,
    Const,
    Scalar,
    ScalarBase,
    Select,
    Unary,
    UnaryOp,
    Var,
    as_scalar,
)

NON_NEGATIVE_PREFIXES = ("threadIdx.", "blockIdx.", "blockDim.", "gridDim.")
_RANK = {"bool": 0, "int": 1, "uint": 2, "float": 3}


def promote(a: DType, b: DType) -> DType:
    """The common type of two operands: float over integer, then the wider, then unsigned."""
    if a == b:
        return a
    if a.is_float != b.is_float:
        return a if a.is_float else b
    if a.bits != b.bits or a.is_float:
        # f16 with bf16 have equal width and no common 16-bit type.
        if a.bits == b.bits:
            return dtypes.f32
        return a if a.bits > b.bits else b
    return a if _RANK[a.kind] >= _RANK[b.kind] else b


def _operands(a: object, b: object) -> tuple[Scalar, Scalar, DType]:
    """Both operands as nodes; a Python number takes the other operand's type where it may."""
    if isinstance(a, ScalarBase) and not isinstance(b, ScalarBase):
        b = _weak(b, a.dtype)
    elif isinstance(b, ScalarBase) and not isinstance(a, ScalarBase):
        a = _weak(a, b.dtype)
    left, right = as_scalar(a), as_scalar(b)
    return left, right, promote(left.dtype, right.dtype)


def _weak(value: object, dtype: DType) -> Scalar:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return as_scalar(value)
    if dtype.is_float or (isinstance(value, int) and dtype.is_integer):
        if isinstance(value, int) and dtype.bits <= 32 and not -(2**31) <= value < 2**32:
            return as_scalar(value)
        if isinstance(value, int) and dtype.is_integer and dtype.bits < 32:
            # A number that a narrow type cannot hold widens the result instead of wrapping.
            held = range(2**dtype.bits) if dtype.kind == "uint" else _signed(dtype)
            return as_scalar(value, dtype if value in held else None)
        return as_scalar(value, dtype)
    return as_scalar(value)


_FOLD: dict[str, Callable[[float, float], float]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "min": min,
    "max": max,
    "and": lambda a, b: int(a) & int(b),
    "or": lambda a, b: int(a) | int(b),
    "xor": lambda a, b: int(a) ^ int(b),
    "shl": lambda a, b: int(a) << int(b),
    "shr": lambda a, b: int(a) >> int(b),
    "land": lambda a, b: bool(a) and bool(b),
    "lor": lambda a, b: bool(a) or bool(b),
}


def _fold(op: BinaryOp, a: Const, b: Const) -> int | float | bool | None:
    if op in _FOLD:
        return _FOLD[op](a.value, b.value)
    if op in ("floordiv", "mod") and b.value != 0:
        quotient = math.trunc(a.value / b.value) if a.dtype.is_float else _trunc_div(a, b)
        return quotient if op == "floordiv" else a.value - quotient * b.value
    if op == "div" and b.value != 0 and a.dtype.is_float:
        return a.value / b.value
    return None


def _trunc_div(a: Const, b: Const) -> int:
    quotient = abs(int(a.value)) // abs(int(b.value))
    return quotient if (a.value < 0) == (b.value < 0) else -quotient


def non_negative(e: Scalar) -> bool:
    """Whether `e` is certainly >= 0 (sound, not complete)."""
    match e:
        case Const():
            return e.value >= 0
        case Var():
            return e.dtype.kind == "uint" or e.name.startswith(NON_NEGATIVE_PREFIXES)
        case Binary(op="and"):
            return non_negative(e.a) or non_negative(e.b)
        case Binary(op="add" | "mul" | "floordiv" | "mod" | "shr" | "shl" | "min" | "or" | "xor"):
            return non_negative(e.a) and non_negative(e.b)
        case Binary(op="max"):
            return non_negative(e.a) or non_negative(e.b)
        case Select():
            return non_negative(e.a) and non_negative(e.b)
        case Cast():
            return e.dtype.kind == "uint" or (e.dtype.bits >= e.a.dtype.bits and non_negative(e.a))
        case Call():
            return False
        case _:
            return e.dtype.kind == "uint"


def _power_of_two(e: Scalar) -> int | None:
    """log2 of a positive power-of-two constant, else None."""
    if isinstance(e, Const) and e.dtype.is_integer and e.value > 0:
        value = int(e.value)
        if value & (value - 1) == 0:
            return value.bit_length() - 1
    return None


def _is(e: Scalar, value: int) -> bool:
    return isinstance(e, Const) and e.dtype.kind != "bool" and e.value == value


def binary(op: BinaryOp, a: object, b: object) -> Scalar:
    """`a op b`, constants folded and neutral elements dropped."""
    left, right, dtype = _operands(a, b)
    if op in ("land", "lor"):
        dtype = dtypes.boolean
    if op in ("shl", "shr"):
        dtype = left.dtype
    if isinstance(left, Const) and isinstance(right, Const):
        folded = _fold(op, left, right)
        if folded is not None:
            return Const(float(folded) if dtype.is_float else folded, dtype)
    left, right = _coerce(left, dtype, op), _coerce(right, dtype, op)
    simple = _identity(op, left, right, dtype)
    return simple if simple is not None else Binary(op, left, right, dtype)


def _coerce(e: Scalar, dtype: DType, op: BinaryOp) -> Scalar:
    return e if op in ("shl", "shr", "land", "lor") else cast(e, dtype)


def _identity(op: BinaryOp, a: Scalar, b: Scalar, dtype: DType) -> Scalar | None:
    match op:
        case "add":
            if _is(a, 0):
                return b
            if _is(b, 0):
                return a
            # (x + c1) + c2: constants gather on the right, so offsets stay foldable.
            if (
                isinstance(b, Const)
                and isinstance(a, Binary)
                and a.op == "add"
                and isinstance(a.b, Const)
                and not dtype.is_float
            ):
                return binary("add", a.a, Const(a.b.value + b.value, dtype))
            if isinstance(a, Const) and not dtype.is_float:
                return binary("add", b, a)
        case "sub" if isinstance(b, Const) and dtype.kind == "int" and -b.value in _signed(dtype):
            return binary("add", a, Const(-int(b.value), dtype))
        case "sub" | "shl" | "shr" if _is(b, 0):
            return a
        case "xor" | "or":
            if _is(a, 0):
                return b
            if _is(b, 0):
                return a
        case "mul":
            if _is(a, 1):
                return b
            if _is(b, 1):
                return a
            if not dtype.is_float and (_is(a, 0) or _is(b, 0)):
                return Const(0, dtype)
        case "floordiv" | "mod" if dtype.is_integer:
            return _divide(op, a, b, dtype)
        case "land":
            for known, other in ((a, b), (b, a)):
                if isinstance(known, Const):
                    return other if known.value else Const(False, dtypes.boolean)
        case "lor":
            for known, other in ((a, b), (b, a)):
                if isinstance(known, Const):
                    return Const(True, dtypes.boolean) if known.value else other
        case _:
            return None
    return None


def _divide(op: BinaryOp, a: Scalar, b: Scalar, dtype: DType) -> Scalar | None:
    if _is(b, 1):
        return a if op == "floordiv" else Const(0, dtype)
    if (
        isinstance(a, Binary)
        and a.op == "mul"
        and isinstance(a.b, Const)
        and isinstance(b, Const)
        and b.value > 0
        and a.b.value % b.value == 0
    ):
        # x * (c * d) / c: exact whatever the sign of x, barring overflow of the product.
        whole = Const(int(a.b.value) // int(b.value), dtype)
        return binary("mul", a.a, whole) if op == "floordiv" else Const(0, dtype)
    bits = _power_of_two(b)
    if bits is None or not non_negative(a):
        return None
    if op == "floordiv":
        return binary("shr", a, Const(bits, dtype))
    return Binary("and", a, Const((1 << bits) - 1, dtype), dtype)


def unary(op: UnaryOp, a: object, dtype: DType | None = None) -> Scalar:
    """`op a`; the result has `a`'s type (bool for `not` and `isnan`)."""
    operand = as_scalar(a)
    result = dtype or (dtypes.boolean if op in ("not", "isnan") else operand.dtype)
    if isinstance(operand, Const):
        if op == "neg":
            return Const(-operand.value, result)
        if op == "not":
            return Const(not operand.value, result)
    return Unary(op, operand, result)


_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}


def compare(op: CompareOp, a: object, b: object) -> Scalar:
    """`a op b` as a boolean."""
    left, right, dtype = _operands(a, b)
    if isinstance(left, Const) and isinstance(right, Const):
        return Const(_COMPARE[op](left.value, right.value), dtypes.boolean)
    return Compare(op, cast(left, dtype), cast(right, dtype))


def select(cond: object, a: object, b: object) -> Scalar:
    """`a if cond else b`, both sides evaluated."""
    condition = as_scalar(cond)
    left, right, dtype = _operands(a, b)
    if isinstance(condition, Const):
        return cast(left if condition.value else right, dtype)
    return Select(condition, cast(left, dtype), cast(right, dtype), dtype)


def cast(a: object, dtype: DType) -> Scalar:
    """`a` converted to `dtype`; integer constants convert at once."""
    operand = as_scalar(a)
    if operand.dtype == dtype:
        return operand
    if isinstance(operand, Const):
        if dtype.is_float:
            return Const(float(operand.value), dtype)
        if dtype.is_integer and not operand.dtype.is_float:
            value = int(operand.value)
            if value in (range(2**dtype.bits) if dtype.kind == "uint" else _signed(dtype)):
                return Const(value, dtype)
    return Cast(operand, dtype)


def _signed(dtype: DType) -> range:
    """Values of a signed integer type."""
    return range(-(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1))


def add(*terms: object) -> Scalar:
    """The sum of all terms, 0 for none."""
    total: Scalar = Const(0, dtypes.i32)
    for term in terms:
        total = binary("add", total, term)
    return total


def sub(a: object, b: object) -> Scalar:
    return binary("sub", a, b)


def mul(a: object, b: object) -> Scalar:
    return binary("mul", a, b)


def floordiv(a: object, b: object) -> Scalar:
    return binary("floordiv", a, b)


def mod(a: object, b: object) -> Scalar:
    return binary("mod", a, b)


def xor(a: object, b: object) -> Scalar:
    return binary("xor", a, b)


def minimum(a: object, b: object) -> Scalar:
    return binary("min", a, b)


def maximum(a: object, b: object) -> Scalar:
    return binary("max", a, b)


def land(*terms: object) -> Scalar:
    """The conjunction of all terms, true for none."""
    result: Scalar = Const(True, dtypes.boolean)
    for term in terms:
        result = binary("land", result, term)
    return result


def cdiv(a: object, b: object) -> Scalar | int:
    """ceil(a / b) for a >= 0, b > 0; an int for two ints."""
    if isinstance(a, int) and isinstance(b, int):
        return -(-a // b)
    return binary("floordiv", binary("add", a, binary("sub", b, 1)), b)
