"""The value of a scalar expression of whole numbers, by definition."""

from __future__ import annotations

from hexcute_core.scalar import Binary, Cast, Compare, Const, Scalar, Select, Var

BINARY = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
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
    """`e` with variables taken from `names`; all numbers are non-negative."""
    match e:
        case Const():
            return e.value
        case Var():
            return names[e.name]
        case Cast():
            return value(e.a, names)
        case Select():
            return value(e.a if value(e.cond, names) else e.b, names)
        case Binary() | Compare():
            return BINARY[e.op](value(e.a, names), value(e.b, names))
        case _:
            raise TypeError(f"no value of {e}")
