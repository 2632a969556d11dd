"""What two layouts share from offset 0 on, and what one layout forgets.

Source: CuTe `max_common_layout`, `max_common_vector`, `nullspace` (``layout.hpp``, definitions).
"""

from __future__ import annotations

from typing import Any

from cute_layout.errors import UnsupportedError
from cute_layout.inverse import right_inverse
from cute_layout.layout import Layout, from_modes
from cute_layout.table import values

__all__ = ["max_common_layout", "max_common_vector", "nullspace"]


def max_common_layout(a: Layout, b: Layout) -> Layout:
    """The longest prefix R of b's right inverse with ``a(R(i)) = b(R(i)) = i`` for all i < size(R).

    R gives the indices of the elements that lie contiguously in both, in order.

    >>> print(max_common_layout(Layout((8, 4), (1, 8)), Layout((8, 4), (1, 16))))
    8:1
    """
    back = right_inverse(b)
    run = 0
    for i, index in enumerate(values(back)):
        if index >= a.size or a.at(index) != i:
            break
        run = i + 1
    modes: list[tuple[Any, Any]] = []
    size = 1
    for s, d in zip(back.flat_shape, back.flat_stride, strict=True):
        part = max(k for k in range(1, s + 1) if s % k == 0 and (k == 1 or k * size <= run))
        if part > 1:
            modes.append((part, d))
        size *= part
        if part < s:
            break
    return from_modes(modes)


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
    if layout.is_symbolic:
        raise UnsupportedError(f"the nullspace of {layout} depends on its symbols")
    modes: list[tuple[Any, Any]] = []
    step = 1
    for s, d in zip(layout.flat_shape, layout.flat_stride, strict=True):
        if d == 0 and s != 1:
            modes.append((s, step))
        step *= s
    return from_modes(modes)
