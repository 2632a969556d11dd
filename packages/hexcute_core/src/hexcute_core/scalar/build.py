"""Folding constructors: a node is built only where constants and identities do not decide it.

What is folded is what the machine would compute: a sum that wraps is folded wrapped, and an
identity is used only where it holds for every value.
"""

from __future__ import annotations

from hexcute_core import dtypes
from hexcute_core.dtypes import DType
from hexcute_core.errors import FrontendError
from hexcute_core.scalar.bounds import bounds, non_negative
from hexcute_core.scalar.expr import (
    Binary,
    BinaryOp,
    Cast,
    Compare,
    CompareOp,
    Const,
    Scalar,
    ScalarBase,
    Select,
    Unary,
    UnaryOp,
    as_scalar,
)
from hexcute_core.scalar.fold import (
    fold_binary,
    fold_cast,
    fold_compare,
    fold_unary,
    shifted,
)
from hexcute_core.scalar.numbers import fits, limits, wrap
from hexcute_core.scalar.promotion import promote

_LOGIC = ("and", "or", "xor", "land", "lor")
_BITS = ("and", "or", "xor", "shl", "shr")
_DIVISIONS = ("floordiv", "cdiv", "mod")
_SYMBOLS = {
    "and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>", "floordiv": "//", "mod": "%",
    "cdiv": "hx.cdiv", "div": "/", "inv": "~",
}  # fmt: skip
MOST_PRODUCTS = 64
"""x ** n of integers is products, up to this n."""


def _operands(a: object, b: object) -> tuple[Scalar, Scalar, DType]:
    """Both operands as nodes; a Python number takes the other operand's type where it may."""
    if isinstance(a, ScalarBase) and not isinstance(b, ScalarBase):
        b = _weak(b, a.dtype)
    elif isinstance(b, ScalarBase) and not isinstance(a, ScalarBase):
        a = _weak(a, b.dtype)
    left, right = as_scalar(a), as_scalar(b)
    return left, right, promote(left.dtype, right.dtype)


def _weak(value: object, dtype: DType) -> Scalar:
    """A number beside an operand of `dtype`: of that type; f32 for a float beside an integer."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if number and (dtype.is_float or (isinstance(value, int) and dtype.is_integer)):
        return as_scalar(value, dtype)
    return as_scalar(value)


def binary(op: BinaryOp, a: object, b: object) -> Scalar:
    """`a op b`, constants folded and neutral elements dropped.

    Raises FrontendError for types that do not meet and operators that their type does not have.
    """
    counted = op in ("shl", "shr") or (op == "pow" and _whole(a) and _whole(b))
    left, right, dtype = _counted(a, b) if counted else _operands(a, b)
    if op in ("land", "lor"):
        dtype = dtypes.boolean
    elif dtype.kind == "bool" and op in ("min", "max"):
        op = "and" if op == "min" else "or"
    elif dtype.kind == "bool" and op not in _LOGIC:
        # Conditions count as 0 and 1.
        dtype = dtypes.i32
    _check(op, dtype, left, right)
    if op not in ("land", "lor"):
        left = cast(left, dtype)
        right = right if counted else cast(right, dtype)
    if isinstance(left, Const) and isinstance(right, Const):
        folded = fold_binary(op, left, right, dtype)
        if folded is not None:
            return folded
    simple = _identity(op, left, right, dtype)
    return simple if simple is not None else Binary(op, left, right, dtype)


def _whole(value: object) -> bool:
    """Whether a scalar or number is an integer or a condition."""
    if isinstance(value, ScalarBase):
        return not value.dtype.is_float
    return isinstance(value, int)


def _counted(a: object, b: object) -> tuple[Scalar, Scalar, DType]:
    """Operands of a shift or an integer's power: the type is that of `a`, any integer counts."""
    if isinstance(b, int) and not isinstance(b, bool):
        # Any number of places is as good as another that is outside every width.
        b = min(max(b, -1), limits(dtypes.i32)[1])
    right = as_scalar(b)
    left = a if isinstance(a, ScalarBase) else _weak(a, right.dtype)
    value = as_scalar(left)
    dtype = dtypes.i32 if value.dtype.kind == "bool" else value.dtype
    if right.dtype.is_float:
        raise FrontendError(
            f"a shift by the {right.dtype} `{right}`", fix="count places by an integer"
        )
    return value, right, dtype


def _check(op: BinaryOp, dtype: DType, left: Scalar, right: Scalar) -> None:
    """Refuses operators that `dtype` does not have."""
    if op in _BITS and dtype.is_float:
        raise FrontendError(
            f"`{_SYMBOLS[op]}` on {dtype}", fix="convert to an integer first: hx.cast(x, i32)"
        )
    if op in _DIVISIONS and dtype.is_float:
        raise FrontendError(
            f"`{_SYMBOLS[op]}` on {dtype}", fix="write hx.floor(x / y) on floats"
        )
    if op == "div" and not dtype.is_float:
        raise FrontendError(
            f"`/` on the integers {left} and {right}",
            fix="use `//` for the integer quotient, or hx.cast(x, f32) first",
        )
    if op in _DIVISIONS and isinstance(right, Const) and right.value == 0:
        raise FrontendError(f"`{left}` is divided by zero", fix="divide by another number")
    if op == "pow" and not dtype.is_float:
        known = int(right.value) if isinstance(right, Const) else -1
        if not 0 <= known <= MOST_PRODUCTS:
            found = str(right) if isinstance(right, Const) else "a number known at run time"
            raise FrontendError(
                f"`**` of integers by {found}: the exponent is a number from 0 to "
                f"{MOST_PRODUCTS} known at compile time",
                fix="write 1 << n for a power of two, or hx.cast(x, f32) ** n",
            )


def _is(e: Scalar, value: int) -> bool:
    return isinstance(e, Const) and e.dtype.kind != "bool" and e.value == value


def _identity(op: BinaryOp, a: Scalar, b: Scalar, dtype: DType) -> Scalar | None:
    """What `a op b` is for every value of its variables, where that is simpler."""
    match op:
        # x + 0.0 is no x where x is -0.0.
        case "add" if not dtype.is_float:
            return _sum(a, b, dtype)
        case "sub" if isinstance(b, Const) and dtype.kind == "int" and fits(-int(b.value), dtype):
            return binary("add", a, Const(-int(b.value), dtype))
        case "sub" if _is(b, 0) and not dtype.is_float:
            return a
        case "shl" | "shr" if isinstance(b, Const):
            return _shift(op, a, b, dtype)
        case "xor" | "or":
            return b if _is(a, 0) else a if _is(b, 0) else None
        case "mul":
            if _is(a, 1) or _is(b, 1):
                return b if _is(a, 1) else a
            if not dtype.is_float and (_is(a, 0) or _is(b, 0)):
                return Const(0, dtype)
        case "floordiv" | "cdiv" | "mod":
            return _divide(op, a, b, dtype)
        case "pow" if not dtype.is_float and (_is(b, 0) or _is(b, 1)):
            return a if _is(b, 1) else Const(wrap(1, dtype), dtype)
        case "land" | "lor":
            for known, other in ((a, b), (b, a)):
                if isinstance(known, Const):
                    decides = bool(known.value) == (op == "lor")
                    return Const(op == "lor", dtypes.boolean) if decides else other
        case _:
            return None
    return None


def _sum(a: Scalar, b: Scalar, dtype: DType) -> Scalar | None:
    """Constants gather on the right, so that offsets stay foldable: (x + c) + d = x + (c + d)."""
    if _is(a, 0) or _is(b, 0):
        return b if _is(a, 0) else a
    if isinstance(b, Const) and isinstance(a, Binary) and a.op == "add":
        if isinstance(a.b, Const):
            return binary("add", a.a, Const(wrap(int(a.b.value) + int(b.value), dtype), dtype))
    elif isinstance(a, Const):
        return binary("add", b, a)
    return None


def _shift(op: BinaryOp, a: Scalar, b: Const, dtype: DType) -> Scalar | None:
    count = int(b.value)
    if count == 0:
        return a
    if 0 <= count < dtype.bits:
        return None
    if op == "shr" and dtype.kind == "int":
        return Binary("shr", a, Const(dtype.bits - 1, dtypes.i32), dtype)
    return Const(shifted(op, 0, count, dtype), dtype)


def _divide(op: BinaryOp, a: Scalar, b: Scalar, dtype: DType) -> Scalar | None:
    if _is(b, 1):
        return Const(0, dtype) if op == "mod" else a
    if not isinstance(b, Const) or b.value <= 0 or op == "cdiv":
        return None
    divisor = int(b.value)
    if isinstance(a, Binary) and a.op == "mul" and isinstance(a.b, Const):
        factor, (low, high) = int(a.b.value), bounds(a.a)
        if factor % divisor == 0 and all(fits(end * factor, dtype) for end in (low, high)):
            # x * (c * d) // d = x * c, for the product never wraps.
            return Const(0, dtype) if op == "mod" else binary("mul", a.a, factor // divisor)
    if divisor & (divisor - 1) or not non_negative(a):
        return None
    if op == "mod":
        return Binary("and", a, Const(divisor - 1, dtype), dtype)
    return binary("shr", a, Const(divisor.bit_length() - 1, dtype))


def unary(op: UnaryOp, a: object, dtype: DType | None = None) -> Scalar:
    """`op a`; the result has `a`'s type (bool for `not` and `isnan`, i32 for -c and abs(c) of a
    condition)."""
    operand = as_scalar(a)
    if operand.dtype.kind == "bool" and op in ("neg", "abs"):
        operand = cast(operand, dtypes.i32)
    if op == "inv" and operand.dtype.is_float:
        raise FrontendError(
            f"`~` on {operand.dtype}", fix="convert to an integer first: hx.cast(x, i32)"
        )
    result = dtypes.boolean if op in ("not", "isnan") else dtype or operand.dtype
    if isinstance(operand, Const):
        folded = fold_unary(op, operand, result)
        if folded is not None:
            return folded
    return Unary(op, operand, result)


def compare(op: CompareOp, a: object, b: object) -> Scalar:
    """`a op b` as a boolean; a Python integer that the other's type does not have decides it."""
    decided = _beyond(op, a, b)
    if decided is not None:
        return decided
    left, right, dtype = _operands(a, b)
    left, right = cast(left, dtype), cast(right, dtype)
    if isinstance(left, Const) and isinstance(right, Const):
        return fold_compare(op, left.value, right.value)
    return Compare(op, left, right)


def _beyond(op: CompareOp, a: object, b: object) -> Scalar | None:
    """The comparison of an integer scalar with a number outside its type: any value will do."""
    for scalar, number in ((a, b), (b, a)):
        if not isinstance(scalar, ScalarBase) or not scalar.dtype.is_integer:
            continue
        if isinstance(number, int) and not fits(number, scalar.dtype):
            low, _ = limits(scalar.dtype)
            return fold_compare(op, low, number) if scalar is a else fold_compare(op, number, low)
    return None


def select(cond: object, a: object, b: object) -> Scalar:
    """`a if cond else b`, both sides evaluated."""
    condition = cast(cond, dtypes.boolean)
    left, right, dtype = _operands(a, b)
    left, right = cast(left, dtype), cast(right, dtype)
    if isinstance(condition, Const):
        return left if condition.value else right
    return Select(condition, left, right, dtype)


def cast(a: object, dtype: DType) -> Scalar:
    """`a` converted to `dtype`; constants convert at once, as the machine converts."""
    operand = as_scalar(a)
    if operand.dtype == dtype:
        return operand
    return fold_cast(operand, dtype) if isinstance(operand, Const) else Cast(operand, dtype)


def add(*terms: object) -> Scalar:
    """The sum of all terms, 0 for none."""
    if not terms:
        return Const(0, dtypes.i32)
    total = as_scalar(terms[0])
    for term in terms[1:]:
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
    """a / b rounded up, whatever the signs; an int for two ints."""
    if isinstance(a, int) and isinstance(b, int):
        return -(-a // b)
    return binary("cdiv", a, b)
