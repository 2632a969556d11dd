"""Integer polynomials over scalars: e = sum of coefficient * product of atoms, exactly.

An atom is a scalar that is no sum, product or constant. Two expressions with the same polynomial
are equal; the converse holds up to what the atoms hide (`//`, `%`, select).
"""

from __future__ import annotations

from functools import reduce
from math import gcd
from typing import TypeAlias

from hexcute_core import dtypes
from hexcute_core.scalar import Binary, Cast, Const, Scalar, Unary, as_scalar, binary

Monomial: TypeAlias = tuple[Scalar, ...]
Poly: TypeAlias = dict[Monomial, int]


def poly(e: object) -> Poly:
    """The polynomial of an integer scalar (or Python int)."""
    return _poly(as_scalar(e))


def _poly(e: Scalar) -> Poly:
    match e:
        case Const(value=int(value)):
            return {(): int(value)} if value else {}
        case Binary(op="add", a=a, b=b):
            return _sum(_poly(a), _poly(b), 1)
        case Binary(op="sub", a=a, b=b):
            return _sum(_poly(a), _poly(b), -1)
        case Binary(op="mul", a=a, b=b):
            return product(_poly(a), _poly(b))
        case Binary(op="shl", a=a, b=Const(value=int(bits))) if 0 <= bits < 63:
            return product(_poly(a), {(): 1 << int(bits)})
        case Unary(op="neg", a=a):
            return _sum({}, _poly(a), -1)
        case Cast(a=a, dtype=dtype) if _keeps_value(a.dtype, dtype):
            return _poly(a)
        case _:
            return {(e,): 1}


def _keeps_value(source: dtypes.DType, target: dtypes.DType) -> bool:
    return source.kind == target.kind == "int" and target.bits >= source.bits


def _sum(a: Poly, b: Poly, sign: int) -> Poly:
    total = dict(a)
    for monomial, coefficient in b.items():
        total[monomial] = total.get(monomial, 0) + sign * coefficient
    return {m: c for m, c in total.items() if c}


def product(a: Poly, b: Poly) -> Poly:
    """a * b."""
    total: Poly = {}
    for left, c in a.items():
        for right, d in b.items():
            monomial = tuple(sorted(left + right, key=repr))
            total[monomial] = total.get(monomial, 0) + c * d
    return {m: c for m, c in total.items() if c}


def constant(p: Poly) -> int | None:
    """The value of a constant polynomial, else None."""
    if not p:
        return 0
    return p[()] if set(p) == {()} else None


def difference(a: object, b: object) -> int | None:
    """a - b where it is one number whatever the variables hold, else None."""
    return constant(_sum(poly(a), poly(b), -1))


def divide(p: Poly, divisor: Poly) -> Poly | None:
    """p / divisor for a divisor of one monomial, or None where it does not divide exactly."""
    ((atoms, factor),) = divisor.items()
    quotient: Poly = {}
    for monomial, coefficient in p.items():
        rest = list(monomial)
        for atom in atoms:
            if atom not in rest:
                return None
            rest.remove(atom)
        if coefficient % factor:
            return None
        quotient[tuple(rest)] = coefficient // factor
    return quotient


def common_factor(e: Scalar) -> tuple[int, Scalar]:
    """(f, r) with e = f * r, f the largest constant that divides every term (1 for e = 0)."""
    terms = poly(e)
    factor = gcd(*terms.values()) or 1
    return (1, e) if factor == 1 else (factor, scalar({m: c // factor for m, c in terms.items()}))


def scalar(p: Poly) -> Scalar:
    """The polynomial as a scalar expression, constants on the right."""
    terms = [_term(monomial, coefficient) for monomial, coefficient in p.items()]
    return reduce(lambda a, b: binary("add", a, b), terms, as_scalar(0))


def _term(monomial: Monomial, coefficient: int) -> Scalar:
    if not monomial:
        return as_scalar(coefficient)
    return binary("mul", reduce(lambda a, b: binary("mul", a, b), monomial), coefficient)
