"""Scalar -> hidet Expr, every node in the C type of its own dtype.

Floats below 32 bits compute in f32 and round once per node, except f16 add, sub and mul and the
16-bit min and max, which have an instruction of their own (and the same result).
"""

from __future__ import annotations

import math
from typing import Any

from hidet.ir import expr as he
from hidet.ir.type import data_type

from hexcute_core import dtypes
from hexcute_core.backend.hidet import floats, functions, integers, registers
from hexcute_core.backend.hidet.asm import Instruction
from hexcute_core.backend.hidet.calls import call_by_name
from hexcute_core.backend.hidet.scope import Scope, call, integer
from hexcute_core.backend.hidet.storage import value_type
from hexcute_core.dtypes import DType
from hexcute_core.scalar import (
    Binary,
    Call,
    Cast,
    Compare,
    Const,
    Element,
    Scalar,
    Select,
    Unary,
    Var,
)
from hexcute_core.scalar.bounds import bounds
from hexcute_core.scalar.fold import MOST_PRODUCTS
from hexcute_core.scalar.inline import MEANT
from hexcute_core.scalar.numbers import fits, limits
from hexcute_core.unions import assert_never

_FLOAT = {"add": he.Add, "sub": he.Sub, "mul": he.Multiply}
_COMPARE = {"lt": he.LessThan, "le": he.LessEqual, "eq": he.Equal, "ne": he.NotEqual}
_SWAPPED = {"gt": he.LessThan, "ge": he.LessEqual}
_KEEPING: dict[str, Instruction] = {
    op: Instruction(
        f"hx_{op}_or_nan", f"{op}.NaN.f32 %0, %1, %2;", ("float32",), ("float32", "float32"),
        result=True, volatile=False,
    )
    for op in ("min", "max")
}  # fmt: skip
"""The extreme of two numbers, or what is none if one is."""
_NARROW = ("f16", "bf16", "f8e4m3", "f8e5m2")


def emit(scope: Scope, e: Scalar) -> Any:
    """The Hidet expression of `e`."""
    match e:
        case Const():
            return constant(scope, e.value, e.dtype)
        case Var():
            return scope.variable(e.name)
        case Unary():
            return _unary(scope, e)
        case Binary():
            made = scope.quotients.get(e) if scope.quotients else None
            return _binary(scope, e) if made is None else made
        case Compare():
            return _compare(scope, e)
        case Select(cond=Unary(op="isnan", a=seen), a=kept, b=Binary(a=x) as other) if (
            seen == kept == x and _keeps(other)
        ):
            operands = [emit(scope, x), emit(scope, other.b)]
            return scope.instruction(_KEEPING[other.op], operands)
        case Select():
            a, b = emit(scope, e.a), emit(scope, e.b)
            return _fit(he.IfThenElse(condition(scope, e.cond), a, b), e.dtype)
        case Cast(a=a) if e.dtype == dtypes.f16 and _is_small(scope, a, 0):
            return floats.small_to_f16(scope, emit(scope, a))
        case Cast(a=a) if e.dtype == dtypes.f16 and _is_small(scope, a, -512):
            return floats.small_to_f16(scope, emit(scope, a), signed=True)
        case Cast():
            return convert(scope, emit(scope, e.a), e.a.dtype, e.dtype)
        case Element():
            if len(e.indices) != 1:
                raise scope.error(f"{e} has {len(e.indices)} indices, a register array has one")
            return registers.element(scope, e.array, index_of(scope, e.indices[0]))
        case Call():
            # What instructions mean is for those who do not run them.
            given = e.args[:-1] if e.name.startswith(MEANT) else e.args
            args = [(emit(scope, a), a.dtype) for a in given]
            return call_by_name(scope, e.name, args, e.dtype)
        case _:
            assert_never(e)


def _keeps(e: Binary) -> bool:
    """Whether an instruction gives `e`, an extreme of a number and a constant, or the number where
    it is none."""
    limit = e.b.value if isinstance(e.b, Const) else math.nan
    return e.op in _KEEPING and e.dtype == dtypes.f32 and not math.isnan(limit)


def _is_small(scope: Scope, e: Scalar, least: int) -> bool:
    """Whether `e` is an integer of the 1024 from `least` on."""
    low, high = bounds(e, scope.known) if e.dtype.is_integer else (least - 1, 0)
    return low >= least and high < least + 1024


def place(scope: Scope, e: Scalar) -> Any:
    """`e` as an offset in memory: its sums and products are places of a tensor, which its type
    has, so they are C's own."""
    if isinstance(e, Binary) and e.op in ("add", "sub", "mul") and e.dtype.is_integer:
        return integers.PLAIN[e.op](place(scope, e.a), place(scope, e.b))
    return emit(scope, e)


def index_of(scope: Scope, e: Scalar) -> Any:
    """`e` as an array index: a Python int where it is constant."""
    return int(e.value) if isinstance(e, Const) else place(scope, e)


def condition(scope: Scope, e: Scalar) -> Any:
    """`e` as a C++ bool."""
    return convert(scope, emit(scope, e), e.dtype, dtypes.boolean)


def constant(scope: Scope, value: int | float | bool, dtype: DType) -> Any:
    """A literal of `dtype`."""
    if dtype.is_float:
        return floats.literal(scope, float(value), dtype)
    if dtype.kind == "bool":
        return he.Constant(bool(value), data_type("bool"))
    if not fits(int(value), dtype):
        raise scope.error(f"the constant {value} does not fit {dtype}")
    return he.Constant(int(value), value_type(dtype))


def convert(scope: Scope, value: Any, source: DType, target: DType) -> Any:
    """`value` of `source` converted to `target`: floats round to nearest, float to integer
    truncates and saturates, integers wrap."""
    if source == target:
        return value
    if target.kind == "bool":
        if source.name in _NARROW:
            value = floats.to_f32(scope, value, source)
        return he.NotEqual(value, integer(0))
    if source.name in _NARROW or source == dtypes.tf32:
        return convert(scope, floats.to_f32(scope, value, source), dtypes.f32, target)
    if target.is_float:
        if target.bits == 64:
            return he.Cast(value, data_type("float64"))
        if source.is_integer and source.bits <= 8 and target.bits == 16:
            value = floats.byte_to_f32(value)
        elif source != dtypes.f32:
            value = he.Cast(value, data_type("float32"))
        return floats.from_f32(scope, value, target)
    if source.is_float:
        # A conversion to 32 or 64 bits saturates by itself; narrower types saturate like it.
        wide = target if target.bits >= 32 else dtypes.i32
        value = floats.to_integer(scope, value, source, wide)
        if target.bits < 32:
            low, high = limits(target)
            value = call("min", [call("max", [value, integer(low)]), integer(high)])
    return _fit(he.Cast(value, value_type(target)), target)


def _fit(value: Any, dtype: DType) -> Any:
    """`value`, computed in C's int, wrapped to the width of `dtype`."""
    if dtype.is_float or dtype.kind == "bool":
        narrow = dtype.kind == "bool" or dtype.name in _NARROW
        return he.Cast(value, value_type(dtype)) if narrow else value
    if dtype.bits >= 32:
        return value
    if dtype.bits >= 8:
        return he.Cast(value, value_type(dtype))
    if dtype.kind == "uint":
        return he.BitwiseAnd(value, integer((1 << dtype.bits) - 1, "uint32"))
    up = he.LeftShift(he.Cast(value, data_type("uint32")), integer(32 - dtype.bits))
    return he.RightShift(he.Cast(up, data_type("int32")), integer(32 - dtype.bits))


def _unary(scope: Scope, e: Unary) -> Any:
    if e.op == "not":
        return he.LogicalNot(condition(scope, e.a))
    a, dtype = emit(scope, e.a), e.a.dtype
    if dtype.is_float:
        if dtype.name in ("f16", "bf16") and e.op in ("neg", "abs"):
            flip = he.BitwiseXor(a, integer(0x8000))
            return _fit(flip if e.op == "neg" else he.BitwiseAnd(a, integer(0x7FFF)), dtype)
        wide = dtypes.f64 if dtype.bits == 64 else dtypes.f32
        result = functions.unary(scope, e.op, convert(scope, a, dtype, wide), wide)
        return result if e.op == "isnan" else convert(scope, result, wide, e.dtype)
    match e.op:
        case "neg":
            return _fit(integers.negative(a, e.dtype), e.dtype)
        case "inv":
            return _fit(he.LogicalNot(a) if dtype.kind == "bool" else he.BitwiseNot(a), e.dtype)
        case "abs":
            return _fit(integers.absolute(scope, a, dtype), e.dtype)
        case "isnan":
            return constant(scope, False, dtypes.boolean)
        case "floor" | "ceil":
            return a
        case _:
            raise scope.error(
                f"{e.op} is not defined on {dtype}", fix="cast the operand to f32 first"
            )


def _binary(scope: Scope, e: Binary) -> Any:
    if e.op in ("land", "lor"):
        node = he.LogicalAnd if e.op == "land" else he.LogicalOr
        return node(condition(scope, e.a), condition(scope, e.b))
    if e.op == "pow" and e.dtype.is_float:
        return _power(scope, e)
    a, b = emit(scope, e.a), emit(scope, e.b)
    if e.dtype.is_float:
        return _float_binary(scope, e, a, b)
    if e.op in ("min", "max"):
        return _fit(call(e.op, [a, b]), e.dtype)
    return _fit(integers.binary(scope, e, a, b), e.dtype)


def _float_binary(scope: Scope, e: Binary, a: Any, b: Any) -> Any:
    dtype = e.dtype
    direct = ("add", "sub", "mul", "min", "max") if dtype == dtypes.f16 else ("min", "max")
    if dtype.name in ("f16", "bf16") and e.op in direct:
        rounding = "" if e.op in ("min", "max") else ".rn"
        ptx = f"{e.op}{rounding}.{dtype} %0, %1, %2;"
        ins = Instruction(
            f"hx_{e.op}_{dtype}", ptx, ("uint16",), ("uint16", "uint16"), result=True,
            volatile=False,
        )  # fmt: skip
        return scope.instruction(ins, [a, b])
    wide = dtypes.f64 if dtype.bits == 64 else dtypes.f32
    a, b = convert(scope, a, dtype, wide), convert(scope, b, dtype, wide)
    if e.op in ("add", "sub", "mul"):
        result = _FLOAT[e.op](a, b)
    else:
        divisor = e.b.value if isinstance(e.b, Const) else None
        result = functions.binary(scope, e.op, a, b, wide, divisor)
    return convert(scope, result, wide, dtype)


def _power(scope: Scope, e: Binary) -> Any:
    """A small constant exponent multiplies; anything else is a power function."""
    base, dtype = emit(scope, e.a), e.dtype
    wide = dtypes.f64 if dtype.bits == 64 else dtypes.f32
    a = convert(scope, base, dtype, wide)
    if isinstance(e.b, Const) and e.b.value in range(1, MOST_PRODUCTS + 1):
        result = a
        for _ in range(int(e.b.value) - 1):
            result = he.Multiply(result, a)
        return convert(scope, result, wide, dtype)
    b = convert(scope, emit(scope, e.b), dtype, wide)
    return convert(scope, functions.binary(scope, "pow", a, b, wide, None), wide, dtype)


def _compare(scope: Scope, e: Compare) -> Any:
    a, b = emit(scope, e.a), emit(scope, e.b)
    if e.a.dtype.name in _NARROW:
        a, b = floats.to_f32(scope, a, e.a.dtype), floats.to_f32(scope, b, e.b.dtype)
    if e.op in _SWAPPED:
        return _SWAPPED[e.op](b, a)
    return _COMPARE[e.op](a, b)
