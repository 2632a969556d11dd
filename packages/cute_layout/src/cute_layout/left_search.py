"""L with L(A(i)) = i where the strides of A form no divisible chain: search over radix chains.

A layout L reads mixed-radix digits of its argument, L(x) = sum of sigma_j digit_j(x). For a given
radix chain the conditions L(A(i)) = i are linear in the sigma_j; the search refines the chain one
prime at a time and stops where they contradict each other.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from cute_layout.coalesce import merge_modes
from cute_layout.errors import DivisibilityError, UnsupportedError
from cute_layout.layout import Layout, from_modes
from cute_layout.table import values

__all__ = ["search_left_inverse"]

BUDGET = 20_000
"""The number of radix chains tried before the search gives up."""


def search_left_inverse(layout: Layout) -> Layout:
    """The left inverse of an injective layout, by search; raises where there is none."""
    search = _Search(layout)
    modes = search.run()
    if modes is not None:
        shapes, strides = zip(*modes, strict=True)
        return from_modes(merge_modes(shapes, strides))
    if search.left <= 0:
        raise UnsupportedError(f"no left inverse of {layout} among the first {BUDGET} radix chains")
    raise DivisibilityError(f"{layout} is injective, but no layout undoes it")


class _Search:
    """Depth-first over chains of primes; `conditions` keeps the linear system in echelon form."""

    def __init__(self, layout: Layout) -> None:
        self.left = BUDGET
        self.table = [(v, i) for i, v in enumerate(values(layout))]

    def run(self) -> list[tuple[int, Any]] | None:
        points: list[tuple[int, list[int], int]] = [(x, [], v) for x, v in self.table if x or v]
        return self.extend(points, [])

    def extend(
        self, points: list[tuple[int, list[int], int]], radices: list[int]
    ) -> list[tuple[int, Any]] | None:
        """Points are (remaining quotient, digits so far, wanted value)."""
        self.left -= 1
        if self.left <= 0:
            return None
        solved = _solve([([*digits, x], v) for x, digits, v in points])
        if solved is not None:
            top = max([abs(x) for x, _, _ in points], default=0) + 1
            return list(zip([*radices, top], solved, strict=True))
        known: dict[int, tuple[list[int], int]] = {}
        exact = [(digits, v) for x, digits, v in points if x == 0]
        for x, digits, v in points:
            if x in known:
                other, w = known[x]
                exact.append(([a - b for a, b in zip(digits, other, strict=True)], v - w))
            else:
                known[x] = (digits, v)
        if radices and _solve(exact) is None:
            return None
        top = max([abs(x) for x, _, _ in points], default=0)
        for p in _primes(top):
            step = [(x // p, [*digits, x % p], v) for x, digits, v in points]
            found = self.extend(step, [*radices, p])
            if found is not None or self.left <= 0:
                return found
        return None


def _primes(top: int) -> list[int]:
    return [p for p in range(2, top + 1) if all(p % q for q in range(2, int(p**0.5) + 1))]


def _solve(rows: list[tuple[list[int], int]]) -> list[int] | None:
    """An integer solution of the linear system, free unknowns 0; None if there is none."""
    if not rows:
        return []
    width = len(rows[0][0])
    pivots: dict[int, list[Fraction]] = {}
    for coefficients, value in rows:
        row = [Fraction(c) for c in coefficients] + [Fraction(value)]
        for column, pivot in pivots.items():
            if row[column]:
                factor = row[column]
                row = [a - factor * b for a, b in zip(row, pivot, strict=True)]
        lead = next((c for c in range(width) if row[c]), None)
        if lead is None:
            if row[width]:
                return None
            continue
        inverse = 1 / row[lead]
        row = [a * inverse for a in row]
        for column, pivot in pivots.items():
            if pivot[lead]:
                factor = pivot[lead]
                pivots[column] = [a - factor * b for a, b in zip(pivot, row, strict=True)]
        pivots[lead] = row
    solution = [pivots[c][width] if c in pivots else Fraction(0) for c in range(width)]
    if any(x.denominator != 1 for x in solution):
        return None
    return [int(x) for x in solution]
