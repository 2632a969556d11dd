"""Exact questions about a layout as a function: equal, injective, onto, bijective."""

from __future__ import annotations

from math import gcd
from typing import Any

from cute_layout.answers import answers
from cute_layout.basis import Basis
from cute_layout.coalesce import merge_modes
from cute_layout.composed import ComposedLayout
from cute_layout.errors import UnsupportedError
from cute_layout.layout import Layout
from cute_layout.table import offsets, values

__all__ = ["equivalent", "is_bijective", "is_injective", "is_surjective"]


@answers((Layout, ComposedLayout), (Layout, ComposedLayout))
def equivalent(a: Any, b: Any) -> bool:
    """Whether a and b have the same size and the same value at every index.

    Plain layouts are compared by their coalesced modes, which are unique; anything swizzled by its
    table.

    >>> equivalent(Layout((2, (1, 6)), (1, (6, 2))), Layout(12))
    True

    Raises:
        UnsupportedError: symbolic layouts whose coalesced modes differ (their values may still
            agree).
    """
    if a.size != b.size:
        return False
    if isinstance(a, Layout) and isinstance(b, Layout):
        if a.size == 0:
            return True
        same = merge_modes(a.flat_shape, a.flat_stride) == merge_modes(b.flat_shape, b.flat_stride)
        if not same and (a.is_symbolic or b.is_symbolic):
            raise UnsupportedError(f"whether {a} and {b} are equal depends on their symbols")
        return same
    if a == b:
        return True
    return bool(offsets(a) == offsets(b))


@answers((Layout, ComposedLayout))
def is_injective(layout: Any) -> bool:
    """Whether no two coordinates share a value. Decided by search over coordinate differences, so
    it needs no table for plain layouts.

    >>> is_injective(Layout((2, 2), (1, 5))), is_injective(Layout((4, 3), (3, 4)))
    (True, True)
    """
    if isinstance(layout, ComposedLayout):
        if not isinstance(layout.swizzle, Layout):
            return is_injective(layout.layout)
        table = layout.offsets()
        return len(set(table)) == len(table)
    modes = _scalar_modes(layout)
    if any(d == 0 for _, d in modes):
        return False
    modes = sorted([(s, abs(d)) for s, d in modes], key=lambda mode: -mode[1])
    reach = [0] * (len(modes) + 1)
    common = [0] * (len(modes) + 1)
    for k in range(len(modes) - 1, -1, -1):
        s, d = modes[k]
        reach[k] = reach[k + 1] + (s - 1) * d
        common[k] = gcd(common[k + 1], d)
    return not _collides(modes, reach, common, 0, 0, False)


def _collides(
    modes: list[tuple[int, int]],
    reach: list[int],
    common: list[int],
    k: int,
    target: int,
    moved: bool,
) -> bool:
    """Whether differences of the modes from k on can sum to -target, not all differences being
    0."""
    if k == len(modes):
        return moved and target == 0
    if not moved and all(d > r for (_, d), r in zip(modes[k:], reach[k + 1 :], strict=True)):
        return False
    if abs(target) > reach[k] or target % common[k]:
        return False
    s, d = modes[k]
    rest = reach[k + 1]
    low = max(-(s - 1), -((rest + target) // d)) if moved else 0
    high = min(s - 1, (rest - target) // d)
    return any(
        _collides(modes, reach, common, k + 1, target + step * d, moved or step != 0)
        for step in range(low, high + 1)
    )


def _scalar_modes(layout: Layout) -> list[tuple[int, int]]:
    """Coalesced modes; a coordinate is packed into one int, wide enough for all differences."""
    if layout.is_symbolic:
        raise UnsupportedError(f"whether {layout} is injective depends on its symbols")
    if layout.size == 0:
        return []
    modes = merge_modes(layout.flat_shape, layout.flat_stride)
    if not layout.is_coordinate:
        return modes
    width: dict[Any, int] = {}
    for s, d in modes:
        for path, c in d.terms if type(d) is Basis else ():
            width[path] = width.get(path, 0) + (s - 1) * abs(c)
    weight: dict[Any, int] = {}
    scale = 1
    for path, reach in width.items():
        weight[path] = scale
        scale *= 2 * reach + 1
    return [
        (s, sum(c * weight[p] for p, c in d.terms) if type(d) is Basis else 0) for s, d in modes
    ]


@answers((Layout, ComposedLayout), (int, type(None)))
def is_surjective(layout: Any, bound: int | None = None) -> bool:
    """Whether every offset of a range is taken: of ``0 .. bound-1``, or from the least value to the
    greatest where no bound is given.

    Exact: with strides sorted by magnitude, the values reach every offset up to r exactly when each
    stride is at most one more than what the smaller ones reach.

    >>> is_surjective(Layout((2, 2), (1, 5))), is_surjective(Layout((4, 3), (1, 2)))
    (False, True)
    """
    if isinstance(layout, ComposedLayout):
        return _covers(set(offsets(layout)), bound)
    if layout.is_coordinate:
        if bound is not None:
            raise UnsupportedError(f"{layout} gives coordinates; a bound on offsets does not apply")
        return bool(len(set(values(layout))) == layout.cosize)
    if layout.size == 0:
        return not bound
    modes = _scalar_modes(layout)
    if bound is not None and any(d < 0 for _, d in modes):
        if sum((s - 1) * d for s, d in modes if d > 0) < bound - 1:
            return False
        if not is_surjective(layout):
            return _covers(set(offsets(layout)), bound)
        return bound <= 0 or sum((s - 1) * d for s, d in modes if d < 0) <= 0
    reach = 0
    for d, s in sorted((abs(d), s) for s, d in modes):
        if d > reach + 1:
            break
        reach += d * (s - 1)
    wanted: int = layout.cosize if bound is None else bound
    return reach + 1 >= wanted


def _covers(table: set[int], bound: int | None) -> bool:
    if bound is None:
        return not table or len(table) == max(table) - min(table) + 1
    return bound <= len(table) and all(v in table for v in range(bound))


@answers((Layout, ComposedLayout), (int, type(None)))
def is_bijective(layout: Any, bound: int | None = None) -> bool:
    """Whether the layout is injective and onto: ``0 .. bound-1``, or a contiguous range.

    >>> is_bijective(Layout((4, 8), (8, 1))), is_bijective(Layout((4, 8), (9, 1)))
    (True, False)
    """
    if bound is not None and (layout.size != bound or layout.cosize != bound):
        return False
    return is_injective(layout) and is_surjective(layout, bound)
