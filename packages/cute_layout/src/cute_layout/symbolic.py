"""Symbolic extents: integer polynomials in named sizes, with division where it is exact.

The algebra takes any object whose class sets ``__layout_extent__ = True`` and supports ``+ - * //
%``, ``==`` and hashing; `Symbol` is one. A question whose answer depends on the symbol's value
raises `UnsupportedError` instead of guessing.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import lcm
from typing import Any, Union

from cute_layout.answers import answers
from cute_layout.errors import DomainError, UnsupportedError

__all__ = ["Expression", "Symbol"]

Monomial = tuple[str, ...]
Operand = Union["Expression", int]


class Expression:
    """A polynomial in named positive integers with rational coefficients and integer values.

    ``terms`` maps sorted tuples of names to coefficients; ``multiples`` says what each name is a
    multiple of.
    """

    __layout_extent__ = True
    __slots__ = ("_hash", "multiples", "terms")

    def __init__(self, terms: Mapping[Monomial, Fraction], multiples: Mapping[str, int]) -> None:
        if not isinstance(terms, Mapping) or not isinstance(multiples, Mapping):
            raise DomainError("an expression is made of mappings; write Symbol(name) for one")
        self.terms = {m: c for m, c in terms.items() if c}
        self.multiples = dict(multiples)
        self._hash = hash(frozenset(self.terms.items()))

    def _with(self, other: Operand) -> tuple[dict[Monomial, Fraction], dict[str, int]]:
        if isinstance(other, Expression):
            merged = dict(self.multiples)
            for name, k in other.multiples.items():
                merged[name] = lcm(merged.get(name, 1), k)
            return other.terms, merged
        return {(): Fraction(other)}, self.multiples

    @staticmethod
    def _shrink(terms: Mapping[Monomial, Fraction], multiples: Mapping[str, int]) -> Any:
        kept = {m: c for m, c in terms.items() if c}
        if not kept:
            return 0
        if set(kept) == {()} and kept[()].denominator == 1:
            return int(kept[()])
        return Expression(kept, multiples)

    def __add__(self, other: Operand) -> Any:
        if not isinstance(other, (Expression, int)):
            return NotImplemented
        terms, multiples = self._with(other)
        total = dict(self.terms)
        for m, c in terms.items():
            total[m] = total.get(m, Fraction(0)) + c
        return self._shrink(total, multiples)

    __radd__ = __add__

    def __mul__(self, other: Operand) -> Any:
        if not isinstance(other, (Expression, int)):
            return NotImplemented
        terms, multiples = self._with(other)
        total: dict[Monomial, Fraction] = {}
        for m, c in self.terms.items():
            for n, e in terms.items():
                key = tuple(sorted(m + n))
                total[key] = total.get(key, Fraction(0)) + c * e
        return self._shrink(total, multiples)

    __rmul__ = __mul__

    def __neg__(self) -> Any:
        return self * -1

    def __sub__(self, other: Operand) -> Any:
        return self + (-other)

    def __rsub__(self, other: Operand) -> Any:
        return -self + other

    def _divided(self, divisor: Operand) -> Any:
        """The exact quotient as a whole-valued expression, or None."""
        terms, multiples = self._with(divisor)
        if len(terms) != 1:
            return 1 if isinstance(divisor, Expression) and divisor == self else None
        (names, factor), *_ = terms.items()
        quotient: dict[Monomial, Fraction] = {}
        for m, c in self.terms.items():
            rest = list(m)
            for name in names:
                if name not in rest:
                    return None
                rest.remove(name)
            quotient[tuple(rest)] = c / factor
        for m, c in quotient.items():
            for name in m:
                c = c * multiples.get(name, 1)
            if c.denominator != 1:
                return None
        return self._shrink(quotient, multiples)

    def __floordiv__(self, divisor: Operand) -> Any:
        exact = self._divided(divisor)
        if exact is None:
            raise UnsupportedError(
                f"whether {divisor} divides {self} is unknown; say so with Symbol(..., "
                f"multiple_of=)"
            )
        return exact

    def __mod__(self, divisor: Operand) -> Any:
        self // divisor
        return 0

    def __rfloordiv__(self, value: int) -> Any:
        if value == 0:
            return 0
        if value > 0 and _positive(self - value):
            return 0
        raise UnsupportedError(f"{value} // {self} depends on the symbol's value")

    def __rmod__(self, value: int) -> Any:
        if value == 0 or (value > 0 and _positive(self - value)):
            return value
        raise UnsupportedError(f"{value} % {self} depends on the symbol's value")

    def __divmod__(self, divisor: Operand) -> tuple[Any, Any]:
        return self // divisor, self % divisor

    def __rdivmod__(self, value: int) -> tuple[Any, Any]:
        return value // self, value % self

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Expression):
            return self.terms == other.terms
        if isinstance(other, int):
            return self.terms == ({(): Fraction(other)} if other else {})
        return NotImplemented

    def __hash__(self) -> int:
        return self._hash

    def __bool__(self) -> bool:
        return bool(self.terms)

    def __gt__(self, other: Operand) -> bool:
        gap = self - other
        if _positive(gap):
            return True
        if _positive(1 - gap):
            return False
        raise UnsupportedError(f"how {self} and {other} compare depends on the symbol's value")

    def __ge__(self, other: Operand) -> bool:
        return self > other - 1

    def __le__(self, other: Operand) -> bool:
        return not self > other

    def __lt__(self, other: Operand) -> bool:
        return not self > other - 1

    def __str__(self) -> str:
        parts = []
        for m, c in sorted(self.terms.items(), key=lambda item: (-len(item[0]), item[0])):
            factors = [*m] if c.numerator == 1 and m else [str(c.numerator), *m]
            over = f"/{c.denominator}" if c.denominator != 1 else ""
            parts.append("*".join(factors) + over)
        return "+".join(parts).replace("+-", "-") or "0"

    __repr__ = __str__


def _positive(value: Operand) -> bool:
    """Whether a value is at least 1 for all symbols that are at least what they are multiples
    of."""
    if isinstance(value, int):
        return value > 0
    least = Fraction(0)
    for m, c in value.terms.items():
        if m and c < 0:
            return False
        for name in m:
            c = c * value.multiples.get(name, 1)
        least += c
    return least >= 1


@answers((str,), (int,))
def Symbol(name: str, multiple_of: int = 1) -> Expression:
    """A named size, a positive integer that is a multiple of `multiple_of`.

    >>> from cute_layout import Layout, composition, logical_divide
    >>> n = Symbol("N", multiple_of=64)
    >>> print(composition(Layout((4096, 8192), (1, 4096)), Layout(n)))
    N:1
    >>> print(logical_divide(Layout((n, 32), (32, 1)), (64, None)))
    ((64,N/64),32):((32,2048),1)

    Raises:
        DomainError: the name is no identifier, or `multiple_of` is below 1.
    """
    if not name.isidentifier() or multiple_of < 1:
        raise DomainError(
            f"a symbol needs an identifier and multiple_of >= 1, not {name!r}, {multiple_of}"
        )
    return Expression({(name,): Fraction(1)}, {name: multiple_of})
