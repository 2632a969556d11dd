"""L with L(A(i)) = i where the strides of A form no divisible chain: search over radix chains.

A layout L reads mixed-radix digits of its argument, L(x) = sum of sigma_j digit_j(x). For a given
radix chain the conditions L(A(i)) = i are linear in the sigma_j; the search refines the chain one
prime at a time and stops where they contradict each other.
"""

from __future__ import annotations

from collections.abc import Iterator

from cute_layout.coalesce import merge_modes
from cute_layout.errors import DivisibilityError, UnsupportedError
from cute_layout.layout import Layout, from_modes
from cute_layout.table import values

__all__ = ["search_left_inverse"]

BUDGET = 20_000
"""The number of radix chains tried before the search gives up."""

WORK = 256
"""Digits of points that cost as much as a chain more."""

Point = tuple[int, list[int], int]
Row = tuple[list[int], int]


def search_left_inverse(layout: Layout) -> Layout:
    """The left inverse of an injective layout, by search.

    Raises:
        DivisibilityError: there is none.
        UnsupportedError: none was found within the budget.
    """
    search = _Search()
    modes = search.extend([(v, [], i) for i, v in enumerate(values(layout)) if i], [])
    if modes is not None:
        shapes, strides = zip(*modes, strict=True)
        return from_modes(merge_modes(shapes, strides))
    if search.left <= 0:
        raise UnsupportedError(f"no left inverse of {layout} among the first {BUDGET} radix chains")
    raise DivisibilityError(f"{layout} is injective, but no layout undoes it")


class _Search:
    """Depth-first over chains of primes, counting the chains that may still be tried."""

    def __init__(self) -> None:
        self.left = BUDGET

    def extend(self, points: list[Point], radices: list[int]) -> list[tuple[int, int]] | None:
        """Modes that give every point its wanted value.

        A point is (remaining quotient, digits so far, wanted value). Points whose quotients agree
        will have all further digits in common, so their difference is a condition already.
        """
        self.left -= 1 + len(points) * len(radices) // WORK
        if self.left <= 0:
            return None
        strides = solve_integers([([*digits, x], v) for x, digits, v in points])
        if strides is not None:
            top = max([abs(x) for x, _, _ in points], default=0) + 1
            return list(zip([*radices, top], strides, strict=True)) if points else [(1, 0)]
        if all(-1 <= x <= 0 for x, _, _ in points):
            return None
        fixed: list[Row] = [(digits, v) for x, digits, v in points if x == 0]
        first: dict[int, Row] = {}
        for x, digits, v in points:
            other, w = first.setdefault(x, (digits, v))
            if other is not digits:
                fixed.append(([a - b for a, b in zip(digits, other, strict=True)], v - w))
        if solve_integers(fixed) is None:
            return None
        low = min(x for x, _, _ in points)
        top = max(abs(x) for x, _, _ in points)
        for p in _primes(2 * top + 1 if low < 0 else top):
            step = [(x // p, [*digits, x % p], v) for x, digits, v in points]
            found = self.extend(step, [*radices, p])
            if found is not None or self.left <= 0:
                return found
            if p > top:
                break
        return None


def _primes(top: int) -> Iterator[int]:
    p = 2
    while p <= top:
        if all(p % q for q in range(2, int(p**0.5) + 1)):
            yield p
        p += 1


def solve_integers(rows: list[Row]) -> list[int] | None:
    """An integer solution x of ``row . x = value`` for all rows, or None.

    Column operations (kept in `basis`) bring one row after the other to a single entry, so each row
    fixes one more combination of the unknowns.
    """
    width = len(rows[0][0]) if rows else 0
    basis = [[int(i == j) for j in range(width)] for i in range(width)]
    free = list(range(width))
    solution = [0] * width
    for coefficients, value in rows:
        rest = value - sum(c * x for c, x in zip(coefficients, solution, strict=True))
        entries = {k: sum(map(int.__mul__, coefficients, basis[k])) for k in free}
        while True:
            live = [k for k in free if entries[k]]
            if len(live) < 2:
                break
            least = min(live, key=lambda k: abs(entries[k]))
            for k in live:
                if k != least:
                    times = entries[k] // entries[least]
                    entries[k] -= times * entries[least]
                    basis[k] = [a - times * b for a, b in zip(basis[k], basis[least], strict=True)]
        if not live:
            if rest:
                return None
            continue
        steps, remainder = divmod(rest, entries[live[0]])
        if remainder:
            return None
        solution = [x + steps * b for x, b in zip(solution, basis[live[0]], strict=True)]
        free.remove(live[0])
    return solution
