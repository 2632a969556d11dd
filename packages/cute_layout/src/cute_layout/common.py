"""What two layouts share from offset 0 on, and what one layout forgets.

Source: CuTe `max_common_layout`, `max_common_vector`, `nullspace` (``layout.hpp``, definitions).
"""

from __future__ import annotations

from typing import Any

from cute_layout.coalesce import merge_modes
from cute_layout.composition import composition
from cute_layout.errors import LayoutError, UnsupportedError
from cute_layout.inverse import right_inverse
from cute_layout.layout import Layout, from_modes
from cute_layout.limits import MOST_VALUES, need_offsets, need_plain

__all__ = ["max_common_layout", "max_common_vector", "nullspace"]

_SCANNED = 1 << 14


def max_common_layout(a: Layout, b: Layout) -> Layout:
    """The longest prefix R of b's right inverse with ``a(R(i)) = b(R(i)) = i`` for all i < size(R).

    R gives the indices of the elements that lie contiguously in both, in order.

    >>> print(max_common_layout(Layout((8, 4), (1, 8)), Layout((8, 4), (1, 16))))
    8:1
    """
    for layout in (a, b):
        need_offsets(layout, "the common part")
        if layout.is_symbolic:
            raise UnsupportedError(f"what {a} and {b} share depends on their symbols")
    back = right_inverse(b)
    run = _run(a, back)
    modes: list[tuple[Any, Any]] = []
    size = 1
    for s, d in zip(back.flat_shape, back.flat_stride, strict=True):
        part = next((k for k in range(min(s, run // size), 1, -1) if s % k == 0), 1)
        if part > 1:
            modes.append((part, d))
        size *= part
        if part < s:
            break
    return from_modes(modes)


def _run(a: Layout, back: Layout) -> int:
    """How many i from 0 on have ``a(back(i)) = i``, with indices of `a`."""
    most = min(a.size, back.size)
    if most > _SCANNED and back.cosize <= a.size:
        try:
            whole = merge_modes(*_flat(composition(a, back)))
        except LayoutError:
            whole = []
        if whole:
            return whole[0][0] if whole[0][1] == 1 else 1
    for i in range(most):
        if i == MOST_VALUES:
            raise UnsupportedError(f"{a} and {back} agree on more than {MOST_VALUES} values")
        index = back.at(i)
        if index >= a.size or a.at(index) != i:
            return i
    return int(most)


def _flat(layout: Layout) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    return layout.flat_shape, layout.flat_stride


def max_common_vector(a: Layout, b: Layout) -> int:
    """How many elements lie contiguously in both layouts: the size of `max_common_layout`.

    >>> max_common_vector(Layout((8, 4), (1, 8)), Layout((8, 4), (1, 16)))
    8
    """
    return int(max_common_layout(a, b).size)


def nullspace(layout: Layout) -> Layout:
    """The indices that stride-0 modes reach: ``layout(N(j)) = 0`` and ``layout(i + N(j)) =
    layout(i)`` where the digits of i in those modes are 0.

    >>> print(nullspace(Layout((4, 2, 8), (1, 0, 4))))
    2:4

    Raises:
        UnsupportedError: symbolic extents.
    """
    need_plain(layout, "the nullspace")
    if layout.is_symbolic:
        raise UnsupportedError(f"the nullspace of {layout} depends on its symbols")
    modes: list[tuple[Any, Any]] = []
    step = 1
    for s, d in zip(layout.flat_shape, layout.flat_stride, strict=True):
        if d == 0 and s != 1:
            modes.append((s, step))
        step *= s
    return from_modes(modes)
