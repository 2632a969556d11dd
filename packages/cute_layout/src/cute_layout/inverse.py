"""R with A(R(j)) = j (right inverse), L with L(A(i)) = i (left inverse), both for a bijection.

Source: CuTe, `right_inverse` and `left_inverse` (``layout.hpp``, their definitions).
"""

from __future__ import annotations

from typing import Any

from cute_layout.answers import answers
from cute_layout.coalesce import merge_modes
from cute_layout.complement import complement
from cute_layout.composed import ComposedLayout
from cute_layout.errors import DomainError, NotInjectiveError, UnsupportedError
from cute_layout.layout import Layout, from_modes
from cute_layout.left_search import search_left_inverse
from cute_layout.predicates import is_injective
from cute_layout.swizzle import Swizzle
from cute_layout.table import values

__all__ = ["inverse", "left_inverse", "right_inverse"]

_TABLE_LIMIT = 1 << 14


def _ranked(layout: Layout) -> list[tuple[Any, Any, Any]]:
    """The coalesced modes with nonzero stride as sorted (stride, extent, index step) triples."""
    if layout.is_coordinate:
        raise UnsupportedError(f"the inverse of the coordinate layout {layout}; linearize it first")
    out: list[tuple[Any, Any, Any]] = []
    step: Any = 1
    for s, d in merge_modes(layout.flat_shape, layout.flat_stride):
        if d != 0:
            out.append((d, s, step))
        step = step * s
    if len(out) > 1:
        out.sort()
    return out


@answers((Layout, ComposedLayout))
def right_inverse(layout: Any) -> Any:
    """The longest coalesced R that sorting finds with ``layout(R(j)) = j`` for all j < size(R).

    Modes of stride 0 (and negative ones) are skipped; the chain of strides 1, s, s*s', ... is
    followed as far as it goes. For a layout onto ``0 .. n-1`` R has size n. Without a mode of
    stride 1, R is ``1:0``.

    >>> print(right_inverse(Layout((4, 8), (8, 1))))
    (8,4):(4,1)
    """
    if isinstance(layout, ComposedLayout):
        return _invert_composed(layout)
    modes: list[tuple[Any, Any]] = []
    current: Any = 1
    if layout.size == 0:
        return from_modes([])
    ranked = _ranked(layout)
    for k, (d, s, step) in enumerate(ranked):
        if d == current and (k + 1 == len(ranked) or ranked[k + 1][0] != d):
            if modes and step == modes[-1][0] * modes[-1][1]:
                modes[-1] = (modes[-1][0] * s, modes[-1][1])
            else:
                modes.append((s, step))
            current = current * s
    return from_modes(modes)


@answers((Layout, ComposedLayout, Swizzle))
def inverse(layout: Any) -> Any:
    """The coalesced two-sided inverse of a bijection onto ``0 .. size-1``.

    A swizzled bijection S o m has the inverse m^-1 o S, given as ``m^-1 o -offset o [S o 0 o
    n:1]``, or as a swizzle of m^-1 where m only moves bits.

    >>> print(inverse(Layout((4, 8), (8, 1))))
    (8,4):(4,1)
    >>> print(inverse(ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1)))))
    Sw<3,0,-6> o 0 o (64,8):(8,1)

    Raises:
        NotInjectiveError, DomainError: the layout repeats a value, or leaves one out.
    """
    if isinstance(layout, ComposedLayout):
        return _invert_composed(layout)
    result = right_inverse(layout)
    if result.size == layout.size:
        return result
    if layout.size == 0:
        return from_modes([(0, 0)])
    _need_injective(layout)
    raise DomainError(
        f"{layout} is no bijection onto 0 .. {layout.size - 1}",
        witness=f"no i with A(i)={result.size}",
    )


def _need_injective(layout: Layout) -> None:
    if layout.size > _TABLE_LIMIT:
        if not is_injective(layout):
            raise NotInjectiveError(f"{layout} is not injective")
        return
    first: dict[Any, int] = {}
    for i, v in enumerate(values(layout)):
        if v in first:
            raise NotInjectiveError(
                f"{layout} is not injective", witness=f"A({first[v]})=A({i})={v}"
            )
        first[v] = i


@answers((Layout, ComposedLayout))
def left_inverse(layout: Any) -> Any:
    """A coalesced layout L with ``L(layout(i)) = i`` for all i < size, whenever one exists.

    A swizzled bijection is inverted as by `inverse`.

    >>> print(left_inverse(Layout(4, 2)), left_inverse(Layout((2, 2), (1, 5))))
    (2,4):(4,1) (5,2):(1,2)

    Raises:
        NotInjectiveError: the layout repeats a value; the witness names two indices.
        DivisibilityError: the layout is injective and no layout undoes it.
        UnsupportedError: neither was decided within the search budget.
    """
    if isinstance(layout, ComposedLayout):
        return _invert_composed(layout)
    if layout.size == 0:
        return from_modes([(0, 0)])
    ranked = _ranked(layout)
    current: Any = 1
    divisible = True
    for d, s, _ in ranked:
        if type(d) is int and (d <= 0 or d % current):
            divisible = False
            break
        current = d * s
    zero = any(
        d == 0 and s != 1 for s, d in zip(layout.flat_shape, layout.flat_stride, strict=True)
    )
    if divisible and not zero:
        gaps = complement(layout)
        whole = from_modes(
            list(
                zip(
                    layout.flat_shape + gaps.flat_shape,
                    layout.flat_stride + gaps.flat_stride,
                    strict=True,
                )
            )
        )
        result: Layout = right_inverse(whole)
        return result
    direct = _by_strides(ranked) if not zero else None
    if direct is not None:
        return direct
    _need_injective(layout)
    if layout.size > _TABLE_LIMIT:
        raise UnsupportedError(
            f"{layout} has {layout.size} values, too many to search an inverse for"
        )
    return search_left_inverse(layout)


def _by_strides(ranked: list[tuple[Any, Any, Any]]) -> Layout | None:
    """L that reads a value's digits between one stride and the next: where each stride divides the
    next and no mode reaches it, digit k of ``sum i_k d_k`` is i_k. The largest stride may be
    negative. None where this does not decide."""
    if any(type(d) is not int for d, _, _ in ranked):
        return None
    modes: list[tuple[int, int]] = []
    last = 1
    before: tuple[int, int] | None = None
    for d, s, step in sorted(ranked, key=lambda mode: abs(mode[0])):
        if before is not None:
            extent, unit = before
            if unit < 0 or abs(d) % last or extent > abs(d) // last:
                return None
            modes.append((abs(d) // last, unit))
        elif abs(d) > 1:
            modes.append((abs(d), 0))
        last, before = abs(d), (s, step if d > 0 else -step)
    if before is not None:
        modes.append(before)
    return from_modes(merge_modes(*zip(*modes, strict=True))) if modes else None


def _invert_composed(layout: ComposedLayout) -> ComposedLayout:
    """The inverse of S o m for a bijection: S undoes itself, then m is undone."""
    swizzle, inner = layout.swizzle, layout.layout
    if not isinstance(swizzle, Swizzle) or not isinstance(inner, Layout):
        raise UnsupportedError(
            f"the inverse of {layout}; only a swizzle of a plain layout is inverted"
        )
    back = inverse(inner)
    table = layout.offsets()
    if sorted(table) != list(range(len(table))):
        raise DomainError(f"{layout} is no bijection onto 0 .. {len(table) - 1}")
    if layout.offset == 0:
        moved = _conjugate(swizzle, back)
        if moved is not None:
            return ComposedLayout(moved, 0, back)
    return ComposedLayout(back, -layout.offset, ComposedLayout(swizzle, 0, Layout(len(table))))


def _conjugate(swizzle: Swizzle, back: Layout) -> Swizzle | None:
    """The swizzle S' with ``back o S = S' o back``, where back moves the bits of S as one block."""
    if not swizzle.bits:
        return swizzle
    low = swizzle.base + max(0, -swizzle.shift)
    high = swizzle.base + max(0, swizzle.shift)
    target, source = back.at(1 << low), back.at(1 << high)
    for k in range(swizzle.bits):
        if back.at(1 << (low + k)) != target << k or back.at(1 << (high + k)) != source << k:
            return None
    if any(v <= 0 or v & (v - 1) for v in (target, source)):
        return None
    base = min(target, source).bit_length() - 1
    shift = source.bit_length() - target.bit_length()
    moved = Swizzle(swizzle.bits, base, shift) if abs(shift) >= swizzle.bits else None
    if moved is not None:
        for x in range(back.size):
            if back.at(swizzle(x)) != moved(back.at(x)):
                return None
    return moved
