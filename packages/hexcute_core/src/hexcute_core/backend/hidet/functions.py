"""Math functions on f32 and f64.

On f32 the special-function unit is used where it is accurate enough for tiles; results below
2^-126 are flushed to zero there. Bounds from the PTX and CUDA manuals:

| function | f32 as | largest error |
|---|---|---|
| exp2, exp | ex2.approx (exp: of x * log2 e) | 2 ulp (exp: 2 + floor(1.16 abs(x)) ulp) |
| log2, log | lg2.approx (log: times ln 2) | 2^-22 absolute in (0.5, 2), else 2 ulp |
| sqrt, rsqrt, rcp | sqrt, rsqrt, rcp .approx | 2^-23, 2^-22.4, 1 ulp relative |
| div | div.full | 2 ulp; exact by powers of two |
| tanh, sin, cos, erf, pow | CUDA's full-range functions | 2, 2, 2, 2, 4 ulp |
"""

from __future__ import annotations

import math
from typing import Any

from hidet.ir import expr as he
from hidet.ir.type import data_type

from hexcute_core.backend.hidet.asm import Instruction
from hexcute_core.backend.hidet.scope import Scope, call
from hexcute_core.dtypes import DType


def _approx(name: str, ptx: str) -> Instruction:
    template = f"{ptx} %0, %1;"
    return Instruction(name, template, ("float32",), ("float32",), result=True, volatile=False)


_APPROX = {
    "exp2": _approx("hx_exp2", "ex2.approx.ftz.f32"),
    "log2": _approx("hx_log2", "lg2.approx.ftz.f32"),
    "sqrt": _approx("hx_sqrt", "sqrt.approx.ftz.f32"),
    "rsqrt": _approx("hx_rsqrt", "rsqrt.approx.ftz.f32"),
    "rcp": _approx("hx_rcp", "rcp.approx.ftz.f32"),
}
_DIV = Instruction(
    "hx_div", "div.full.f32 %0, %1, %2;", ("float32",), ("float32", "float32"), result=True,
    volatile=False,
)  # fmt: skip
_LIBRARY = {"abs": "fabs"}
_NAMED = ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "tanh", "sin", "cos", "erf", "floor",
          "ceil", "abs")  # fmt: skip


def unary(scope: Scope, op: str, a: Any, dtype: DType) -> Any:
    """`op(a)` for `a` of f32 or f64; `isnan` gives a bool."""
    double = dtype.bits == 64
    if op == "neg":
        return he.Neg(a)
    if op == "isnan":
        return he.NotEqual(a, a)
    if not double:
        if op == "exp":
            return scope.instruction(_APPROX["exp2"], [he.Multiply(a, _f32(math.log2(math.e)))])
        if op == "log":
            return he.Multiply(scope.instruction(_APPROX["log2"], [a]), _f32(math.log(2)))
        if op in _APPROX:
            return scope.instruction(_APPROX[op], [a])
    if op == "rcp":
        return he.Div(he.Constant(1.0, data_type("float64")), a)
    if op in _NAMED:
        return call(_LIBRARY.get(op, op) + ("" if double else "f"), [a])
    raise scope.error(f"{op} is not defined on {dtype}", fix="cast the operand to an integer type")


def binary(scope: Scope, op: str, a: Any, b: Any, dtype: DType, constant: float | None) -> Any:
    """`op(a, b)` on f32 or f64; `constant` is b's value where it is known."""
    double = dtype.bits == 64
    match op:
        case "div":
            if constant is not None and _reciprocal_is_exact(constant):
                return he.Multiply(a, he.Constant(1.0 / constant, data_type(_name(dtype))))
            return he.Div(a, b) if double else scope.instruction(_DIV, [a, b])
        case "min" | "max" | "pow":
            name = op if op == "pow" else f"f{op}"
            return call(name + ("" if double else "f"), [a, b])
        case "floordiv":
            return call("trunc" if double else "truncf", [binary(scope, "div", a, b, dtype, None)])
        case "mod":
            return call("fmod" if double else "fmodf", [a, b])
        case _:
            raise scope.error(
                f"{op} is not defined on {dtype}", fix="cast the operands to an integer type"
            )


def _reciprocal_is_exact(value: float) -> bool:
    """Whether `value` is a power of two whose reciprocal is a normal f32."""
    mantissa, exponent = math.frexp(value)
    return abs(mantissa) == 0.5 and abs(exponent) <= 120


def _name(dtype: DType) -> str:
    return "float64" if dtype.bits == 64 else "float32"


def _f32(value: float) -> Any:
    return he.Constant(value, data_type("float32"))
