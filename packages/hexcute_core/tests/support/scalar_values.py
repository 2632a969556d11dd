"""The value of a scalar of whole numbers, by definition: quotients round down, remainders
have the sign of the divisor; conversions and unsigned arithmetic wrap."""

from __future__ import annotations

from hexcute_core.dtypes import DType
from hexcute_core.scalar import Binary, Cast, Compare, Const, Scalar, Select, Unary, Var

BINARY = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "cdiv": lambda a, b: -(-a // b),
    "mod": lambda a, b: a % b,
    "min": min,
    "max": max,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b,
    "land": lambda a, b: bool(a) and bool(b),
    "lor": lambda a, b: bool(a) or bool(b),
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}


def value(e: Scalar, names: dict[str, int]) -> int:
    """`e` with variables taken from `names`."""
    match e:
        case Const():
            return _wrapped(e.value, e.dtype) if e.dtype.kind == "uint" else e.value
        case Var():
            return names[e.name]
        case Cast():
            return _wrapped(value(e.a, names), e.dtype)
        case Select():
            return value(e.a if value(e.cond, names) else e.b, names)
        case Unary(op="neg"):
            found = -value(e.a, names)
            return _wrapped(found, e.dtype) if e.dtype.kind == "uint" else found
        case Compare():
            return BINARY[e.op](value(e.a, names), value(e.b, names))
        case Binary():
            found = BINARY[e.op](value(e.a, names), value(e.b, names))
            return _wrapped(found, e.dtype) if e.dtype.kind == "uint" else found
        case _:
            raise TypeError(f"no value of {e}")


def _wrapped(number: int, dtype: DType) -> int:
    low = 0 if dtype.kind == "uint" else -(2 ** (dtype.bits - 1))
    return (number - low) % 2**dtype.bits + low
