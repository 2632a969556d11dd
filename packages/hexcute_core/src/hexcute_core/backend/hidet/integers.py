"""op(a, b) on integers -> C++ that wraps, rounds down and shifts out, where C leaves it undefined.

| language | C++ |
|---|---|
| a + b, a - b, a * b, -a | through the unsigned type, unless bounds prove that nothing wraps |
| a // b, a % b | / and %, one less and b more where the remainder's sign is not the divisor's |
| hx.cdiv(a, b) | one more where something is left and the signs agree |
| a << n, a >> n | n compared with the width as unsigned, unless it is a constant |
| a ** n | squares and products |

Types of fewer than 32 bits compute in C's int; what calls these cuts the result to its type.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from hidet.ir import expr as he
from hidet.ir import stmt as hs
from hidet.ir.func import Function
from hidet.ir.type import data_type

from hexcute_core.backend.hidet.asm import OWN
from hexcute_core.backend.hidet.scope import Scope, call, integer
from hexcute_core.dtypes import DType
from hexcute_core.scalar import Binary, Const, Scalar
from hexcute_core.scalar.bounds import bounds, stays_inside

PLAIN = {"add": he.Add, "sub": he.Sub, "mul": he.Multiply}
_BITS = {"and": he.BitwiseAnd, "or": he.BitwiseOr, "xor": he.BitwiseXor}


def computed_in(dtype: DType) -> str:
    """The C type in which an operation on `dtype` is computed."""
    if dtype.bits < 32:
        return "uint32" if dtype.kind == "uint" and dtype.bits < 8 else "int32"
    return f"{dtype.kind}{dtype.bits}"


def _unsigned(name: str) -> str:
    return name if name.startswith("u") else f"u{name}"


def _as(value: Any, name: str) -> Any:
    return he.Cast(value, data_type(name))


def binary(scope: Scope, e: Binary, a: Any, b: Any) -> Any:
    """`e` of the emitted operands, before it is cut to a type narrower than 32 bits."""
    name = computed_in(e.dtype)
    match e.op:
        case "add" | "sub" | "mul":
            node = PLAIN[e.op]
            # Two numbers of 16 bits have a product that C's int does not.
            short = e.dtype.bits < 16 or (e.dtype.bits == 16 and e.op != "mul")
            if short or name.startswith("u") or stays_inside(e, scope.known):
                return node(a, b)
            wide = _unsigned(name)
            return _as(node(_as(a, wide), _as(b, wide)), name)
        case "and" | "or" | "xor":
            return _BITS[e.op](a, b)
        case "shl" | "shr":
            return _shift(scope, e, a, b, name)
        case "floordiv" | "cdiv" | "mod":
            return _divide(scope, e, a, b, name)
        case "pow":
            if not isinstance(e.b, Const) or e.b.value < 0:
                raise scope.error(
                    f"an integer power needs a constant exponent, not negative, got {e.b}",
                    fix="cast the base to f32, or multiply in a loop",
                )
            return _call(scope, _power(name, int(e.b.value)), [_as(a, name)])
        case _:
            raise scope.error(
                f"true division of {e.a.dtype} is not defined",
                fix="write // for the integer quotient, or cast the operands to f32",
            )


def negative(a: Any, dtype: DType) -> Any:
    """-a."""
    name = computed_in(dtype)
    if dtype.bits < 32:
        return he.Neg(a)
    return _opposite(a, name)


def _opposite(a: Any, name: str) -> Any:
    wide = _unsigned(name)
    return _as(he.Sub(integer(0, wide), _as(a, wide)), name)


def absolute(scope: Scope, a: Any, dtype: DType) -> Any:
    """abs(a), the least number being its own."""
    if dtype.kind != "int":
        return a
    name = computed_in(dtype)
    return _call(scope, _absolute(name), [_as(a, name) if dtype.bits < 32 else a])


def _shift(scope: Scope, e: Binary, a: Any, b: Any, name: str) -> Any:
    left = e.op == "shl"
    if isinstance(e.b, Const):
        if not left:
            return he.RightShift(a, integer(int(e.b.value)))
        if name.startswith("u") or stays_inside(e, scope.known):
            return he.LeftShift(a, integer(int(e.b.value)))
        return _as(he.LeftShift(_as(a, _unsigned(name)), integer(int(e.b.value))), name)
    # Places that are negative are many as unsigned ones.
    wide = _unsigned(computed_in(e.b.dtype))
    count = _as(call("min", [_as(b, wide), integer(e.dtype.bits, wide)]), "int32")
    return _call(scope, _shifted(left, name), [_as(a, name), count])


def _divide(scope: Scope, e: Binary, a: Any, b: Any, name: str) -> Any:
    divisor = int(e.b.value) if isinstance(e.b, Const) else 0
    power = divisor > 0 and divisor & (divisor - 1) == 0
    if power and e.op != "cdiv":
        if e.op == "mod":
            return he.BitwiseAnd(a, integer(divisor - 1, name))
        return he.RightShift(a, integer(divisor.bit_length() - 1))
    if e.op == "cdiv":
        return _rounded_up(scope, e, a, b, name)
    if e.dtype.kind == "uint" or (_counts(scope, e.a) and _counts(scope, e.b)):
        return he.Div(a, b) if e.op == "floordiv" else he.Mod(a, b)
    return _call(scope, _division(e.op, name), [_as(a, name), _as(b, name)])


def _rounded_up(scope: Scope, e: Binary, a: Any, b: Any, name: str) -> Any:
    if _counts(scope, e.a) and isinstance(e.b, Const) and e.b.value > 0 and name == "int32":
        # A number of 31 bits and a divisor less one fit 32 bits.
        above = he.Add(_as(a, "uint32"), integer(int(e.b.value) - 1, "uint32"))
        return _as(he.Div(above, integer(int(e.b.value), "uint32")), "int32")
    return _call(scope, _division("cdiv", name), [_as(a, name), _as(b, name)])


def _counts(scope: Scope, e: Scalar) -> bool:
    return bounds(e, scope.known)[0] >= 0


def _call(scope: Scope, func: Function, args: list[Any]) -> Any:
    scope.functions.setdefault(func.name, func)
    return call(func.name, args)


def _function(
    name: str, types: tuple[str, ...], result: str, body: Callable[..., list[Any]]
) -> Function:
    """`result name(types...)`; `body` gives its statements from its parameters."""
    params = [he.Var(letter, data_type(t)) for letter, t in zip("abc", types)]
    statements = hs.SeqStmt(body(*params))
    return Function(name, params, statements, data_type(result), "cuda_internal", {OWN: True})


@functools.cache
def _division(op: str, name: str) -> Function:
    """Quotient rounded down or up, or the remainder that has the divisor's sign."""
    zero, signed = integer(0, name), not name.startswith("u")

    def body(a: Any, b: Any) -> list[Any]:
        rest = he.Var("rest", data_type(name))
        whole, remainder = he.Div(a, b), he.Mod(a, b)
        apart = he.Constant(False, data_type("bool"))
        if signed:
            # The least number has no quotient by -1 in C.
            turns = he.Equal(b, integer(-1, name))
            whole = he.IfThenElse(turns, _opposite(a, name), whole)
            remainder = he.IfThenElse(turns, zero, remainder)
            # The remainder has the dividend's sign.
            apart = he.LessThan(he.BitwiseXor(rest, b), zero)
        left = he.NotEqual(rest, zero)
        if op == "mod":
            value = he.IfThenElse(he.LogicalAnd(left, apart), he.Add(rest, b), rest)
        elif op == "floordiv":
            value = he.Sub(whole, _as(he.LogicalAnd(left, apart), name))
        else:
            value = he.Add(whole, _as(he.LogicalAnd(left, he.LogicalNot(apart)), name))
        return [hs.DeclareStmt(rest, remainder), hs.ReturnStmt(value)]

    return _function(f"hx_{op}_{name}", (name, name), name, body)


@functools.cache
def _shifted(left: bool, name: str) -> Function:
    """a shifted by b places, 0 <= b <= the width of the type in which it is not computed."""
    bits = 64 if name.endswith("64") else 32
    last = integer(bits - 1)

    def body(a: Any, b: Any) -> list[Any]:
        inside = he.LessThan(b, integer(bits))
        if left:
            wide = _unsigned(name)
            value = _as(he.LeftShift(_as(a, wide), b), name)
        else:
            value = he.RightShift(a, b)
        if left or name.startswith("u"):
            return [hs.ReturnStmt(he.IfThenElse(inside, value, integer(0, name)))]
        return [hs.ReturnStmt(he.RightShift(a, he.IfThenElse(inside, b, last)))]

    return _function(f"hx_{'shl' if left else 'shr'}_{name}", (name, "int32"), name, body)


@functools.cache
def _absolute(name: str) -> Function:
    def body(a: Any) -> list[Any]:
        below = he.LessThan(a, integer(0, name))
        return [hs.ReturnStmt(he.IfThenElse(below, _opposite(a, name), a))]

    return _function(f"hx_abs_{name}", (name,), name, body)


@functools.cache
def _power(name: str, n: int) -> Function:
    """a ** n by squares: the bits of n, the highest first."""
    wide = _unsigned(name)

    def body(a: Any) -> list[Any]:
        base = he.Var("base", data_type(wide))
        steps: list[Any] = [hs.DeclareStmt(base, _as(a, wide))]
        last: Any = base
        for bit in bin(n)[3:]:
            square = he.Multiply(last, last)
            last = he.Var("power", data_type(wide))
            steps.append(hs.DeclareStmt(last, he.Multiply(square, base) if bit == "1" else square))
        return [*steps, hs.ReturnStmt(_as(last, name))]

    return _function(f"hx_pow{n}_{name}", (name,), name, body)
