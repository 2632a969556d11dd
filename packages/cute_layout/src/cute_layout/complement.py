"""C = complement(A, bound): the ordered layout of the offsets that A's copies leave open.

Sorted by stride, A's modes s:d are gaps (current, d/current) and blocks; C has one mode a gap and a
last one up to the bound. Every offset a + c with a in A's image and c in C's is then distinct.
Source: CuTe, ``02_layout_algebra.md``, "Complement".
"""

from __future__ import annotations

from typing import Any

from cute_layout.answers import answers
from cute_layout.coalesce import merge_modes
from cute_layout.errors import DivisibilityError, DomainError, NotInjectiveError
from cute_layout.layout import Layout, from_modes
from cute_layout.limits import need_offsets
from cute_layout.symbolic import Expression
from cute_layout.trees import product

__all__ = ["complement", "copies_of"]


@answers((Layout,), (int, tuple, Expression, type(None)), (bool,))
def complement(layout: Layout, bound: Any = None, exact: bool = False) -> Layout:
    """The coalesced layout C, with increasing strides, that is disjoint from `layout`'s image.

    The sums ``layout(i) + C(j)`` are all distinct and, where every stride divides the next block,
    fill ``0 .. size*size(C)-1``. A bound that the last block does not divide is rounded up.
    Stride-0 modes are dropped first; a negative stride counts by its magnitude (the image shifts,
    the gaps stay).

    Args:
        bound: the number of offsets to fill, an int or a shape (its size); by default the cosize.
        exact: demand that layout and complement tile ``0 .. bound-1`` exactly.

    >>> print(complement(Layout((2, 4, 8), (8, 1, 64)), 1024))
    (2,4,2):(4,16,512)

    Raises:
        NotInjectiveError: the modes overlap: a stride is less than the extent of the block below
            it.
        DivisibilityError: `exact`, and some gap or the bound is not a whole number of blocks.
        DomainError: `exact`, and a stride is negative.
    """
    need_offsets(layout, "the complement")
    if bound is not None:
        bound = product(getattr(bound, "shape", bound))
    modes: list[tuple[Any, Any]] = []
    for s, d in merge_modes(layout.flat_shape, layout.flat_stride):
        if d == 0:
            continue
        if type(d) is int and d < 0:
            if exact:
                raise DomainError(
                    f"{layout} has the negative stride {d}: it cannot tile 0 .. {bound}"
                )
            d = -d
        modes.append((d, s))
    if len(modes) > 1:
        modes.sort()
    if layout.size == 0:
        modes = []
    gaps: list[tuple[Any, Any]] = []
    current: Any = 1
    for d, s in modes:
        gap, rest = divmod(d, current)
        if gap == 0:
            raise NotInjectiveError(
                f"the modes of {layout} overlap: stride {d} is less than the block of {current} "
                f"below it; "
                f"no complement fills between them"
            )
        if rest and exact:
            raise DivisibilityError(
                f"{layout} does not tile: stride {d} is no multiple of {current}"
            )
        if gap != 1:
            gaps.append((gap, current))
        current = d * s
    if bound is not None:
        if exact and bound % current:
            raise DivisibilityError(
                f"{layout} does not tile {bound}: it is no multiple of {current}"
            )
        last = -(-bound // current)
        if last != 1:
            gaps.append((last, current))
    if len(gaps) > 1:
        shapes, strides = zip(*gaps, strict=True)
        gaps = merge_modes(shapes, strides)
    return from_modes(gaps)


def copies_of(layout: Layout, count: Any) -> Layout:
    """The complement with at least `count` elements: where as many disjoint copies can start."""
    need_offsets(layout, "copies")
    end: Any = 1
    for s, d in zip(layout.flat_shape, layout.flat_stride, strict=True):
        if d != 0 and s != 1:
            reach = s * (abs(d) if type(d) is int else d)
            end = reach if reach > end else end
    inside = complement(layout).size
    return complement(layout, -(-count // inside) * end)
