"""fill(C): the flat modes of a bijection onto a contiguous range that C admits.

A layout is such a bijection exactly when its modes, sorted by stride, form a chain 1, s1, s1*s2,
... (the smallest mode must start at 1, and everything else is then a multiple of its extent;
induct). So the known modes must form a divisible chain whose gaps are filled by factors of the
unknown extents. An unknown may be split at any divisor, hence only its prime factors count; a
linear unknown goes into one gap as a whole, and the few of them are placed by search.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from cute_layout.coalesce import merge_modes
from cute_layout.errors import UnificationError
from cute_layout.partial import Mode, PartialLayout, Unknown

__all__ = ["fill"]

Flat = list[tuple[int, int]]


def fill(partial: PartialLayout) -> list[Flat]:
    """For every dimension, the (extent, stride) modes of a solution, coalesced.

    Raises:
        UnificationError: there is none.
    """
    known: list[tuple[int, int]] = []
    unknown: list[tuple[int, int, Mode]] = []
    for k, modes in enumerate(partial.dimensions):
        for j, mode in enumerate(modes):
            if mode.extent == 1:
                continue
            if isinstance(mode.stride, Unknown):
                unknown.append((k, j, mode))
            else:
                known.append((abs(mode.stride), mode.extent))
    known.sort()
    gaps = _gaps(partial, known)
    placed = _place(gaps, unknown)
    if placed is None:
        free = [m.extent for _, _, m in unknown]
        raise UnificationError(
            f"no layout satisfies {partial}: the unknown extents {free} cannot fill the gaps "
            f"{[g for g, _ in gaps[:-1]]} below and between the known strides"
        )
    out: list[Flat] = []
    for k, modes in enumerate(partial.dimensions):
        flat: Flat = []
        for j, mode in enumerate(modes):
            if isinstance(mode.stride, Unknown):
                flat.extend(placed.get((k, j), []))
            else:
                flat.append((mode.extent, mode.stride))
        if flat:
            shapes, strides = zip(*flat, strict=True)
            flat = merge_modes(shapes, strides)
        out.append(flat or [(1, 0)])
    return out


def _gaps(partial: PartialLayout, known: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """(factor, stride) of every gap below and between the known modes; the last one is open (0)."""
    gaps: list[tuple[int, int]] = []
    current = 1
    below = ""
    for d, s in known:
        if d == 0:
            raise UnificationError(
                f"no layout satisfies {partial}: {s}:0 maps {s} elements to one offset"
            )
        if d < current:
            raise UnificationError(
                f"no layout satisfies {partial}: {s}:{d} overlaps {below}, so two elements share "
                f"an offset"
            )
        if d % current:
            raise UnificationError(
                f"no layout satisfies {partial}: the stride of {s}:{d} is no multiple of "
                f"{current}, "
                f"the end of {below}"
            )
        if d != current:
            gaps.append((d // current, current))
        current = d * s
        below = f"{s}:{d}"
    gaps.append((0, current))
    return gaps


def _place(
    gaps: list[tuple[int, int]], unknown: list[tuple[int, int, Mode]]
) -> dict[tuple[int, int], Flat] | None:
    """The pieces of every unknown mode, by (dimension, position)."""
    rigid = [u for u in unknown if isinstance(u[2].stride, Unknown) and u[2].stride.linear]
    for homes in _homes([g for g, _ in gaps], rigid):
        placed = _fill_gaps(gaps, unknown, homes)
        if placed is not None:
            return placed
    return None


def _homes(
    room: list[int], rigid: list[tuple[int, int, Mode]]
) -> Iterator[dict[tuple[int, int], int]]:
    """Every way to give each linear mode a gap that its extent divides; the last gap is open."""
    if not rigid:
        yield {}
        return
    (k, j, mode), *rest = rigid
    for index, factor in enumerate(room):
        if factor % mode.extent == 0:
            left = list(room)
            left[index] = factor // mode.extent
            for homes in _homes(left, rest):
                yield {(k, j): index, **homes}


def _fill_gaps(
    gaps: list[tuple[int, int]],
    unknown: list[tuple[int, int, Mode]],
    homes: dict[tuple[int, int], int],
) -> dict[tuple[int, int], Flat] | None:
    left = {(k, j): m.extent for k, j, m in unknown}
    placed: dict[tuple[int, int], Flat] = {(k, j): [] for k, j, _ in unknown}
    for index, (factor, stride) in enumerate(gaps):
        is_open = factor == 0
        for k, j, _ in unknown:
            if (k, j) in homes and homes[k, j] == index and not is_open:
                factor //= left[k, j]
        for key, extent in left.items():
            if key in homes:
                piece = extent if homes[key] == index else 1
            else:
                piece = extent if is_open else gcd(extent, factor)
                factor //= 1 if is_open else piece
            if piece > 1:
                placed[key].append((piece, stride))
                stride *= piece
                left[key] = extent // piece
        if factor != 1 and not is_open:
            return None
    return placed
