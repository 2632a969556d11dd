"""Coordinate-valued strides: elements of the free module over basis vectors, E(i) = ``1@i``.

A layout with strides ``1@0, 1@1`` maps an index to a coordinate instead of an offset. Source:
CuTe's `ScaledBasis` and arithmetic tuples; sums such as ``1@0+1@1`` (a diagonal) are allowed here.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from cute_layout.errors import CongruenceError, DomainError

__all__ = ["Basis", "E", "dense"]

Path = tuple[int, ...]


class Basis:
    """A sum of integer multiples of basis vectors; immutable and hashable.

    ``terms`` is a sorted tuple of ``(path, coefficient)`` without zero coefficients. Build one with
    `E`: ``8 * E(1)`` prints ``8@1``. A path of several numbers names a nested coordinate, outermost
    first: ``E(0, 1)`` is the second entry of the first entry, and prints ``1@1@0`` as in CuTe.
    """

    __slots__ = ("_hash", "terms")
    terms: tuple[tuple[Path, int], ...]

    def __init__(self, terms: Iterable[tuple[Path, int]]) -> None:
        total: dict[Path, int] = {}
        try:
            for path, coefficient in terms:
                total[path] = total.get(path, 0) + coefficient
        except (TypeError, ValueError):
            raise CongruenceError("a basis vector is pairs of a path and an int") from None
        kept = tuple(sorted((p, c) for p, c in total.items() if c))
        for (p, _), (q, _) in itertools.pairwise(kept):
            if q[: len(p)] == p:
                raise CongruenceError(
                    f"basis vectors {_spell(p, 1)} and {_spell(q, 1)} overlap: one contains the "
                    f"other"
                )
        object.__setattr__(self, "terms", kept)
        object.__setattr__(self, "_hash", hash(kept))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Basis is immutable; build a new one instead of setting {name}")

    def __reduce__(self) -> tuple[Any, ...]:
        return Basis, (self.terms,)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Basis):
            return self.terms == other.terms
        if isinstance(other, int):
            return not self.terms and other == 0
        return NotImplemented

    def __hash__(self) -> int:
        return self._hash if self.terms else hash(0)  # type: ignore[attr-defined]

    def __bool__(self) -> bool:
        return bool(self.terms)

    def __add__(self, other: Basis | int) -> Basis:
        if isinstance(other, Basis):
            return Basis(self.terms + other.terms)
        if isinstance(other, int) and other == 0:
            return self
        if isinstance(other, int):
            raise CongruenceError(f"cannot add the offset {other} to the coordinate {self}")
        return NotImplemented

    __radd__ = __add__

    def __mul__(self, factor: int) -> Basis:
        if not isinstance(factor, int):
            return NotImplemented
        return Basis((p, c * factor) for p, c in self.terms)

    __rmul__ = __mul__

    def __neg__(self) -> Basis:
        return self * -1

    def __sub__(self, other: Basis | int) -> Basis:
        return self + (-other)

    def __str__(self) -> str:
        return "+".join(_spell(p, c) for p, c in self.terms) or "0"

    def __repr__(self) -> str:
        return f"Basis({self})"


def _spell(path: Path, coefficient: int) -> str:
    return "@".join([str(coefficient), *(str(i) for i in reversed(path))])


def E(*path: int) -> Basis | int:
    """The basis vector of a coordinate: ``E(1)`` is ``1@1``, ``E(0, 1)`` is ``1@1@0``, ``E()`` is
    1.

    >>> print(8 * E(1))
    8@1
    """
    for i in path:
        if not isinstance(i, int) or i < 0:
            raise DomainError(f"a basis index is a non-negative int, not {i!r}")
    return Basis([(path, 1)]) if path else 1


def dense(value: Basis | int, template: Any) -> Any:
    """The coordinate as a nested tuple of ints shaped like `template` (see `template_of`)."""
    terms = dict(value.terms) if isinstance(value, Basis) else {}

    def build(node: Any, path: Path) -> Any:
        if node is None:
            return terms.get(path, 0)
        return tuple(build(child, (*path, i)) for i, child in enumerate(node))

    return build(template, ())


def template_of(values: Iterable[Any]) -> Any:
    """The profile that holds every basis path in `values`: None at a leaf, a tuple above it."""
    paths = {p for v in values if isinstance(v, Basis) for p, _ in v.terms}

    def build(prefix: Path) -> Any:
        below = [p for p in paths if p[: len(prefix)] == prefix]
        if prefix in paths:
            if len(below) > 1:
                raise CongruenceError(
                    f"basis path {prefix} is both a leaf and a branch of {sorted(paths)}"
                )
            return None
        if not below:
            return None
        width = 1 + max(p[len(prefix)] for p in below)
        return tuple(build((*prefix, i)) for i in range(width))

    return build(())
