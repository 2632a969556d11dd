"""The function table of a layout, all values at once."""

from __future__ import annotations

from typing import Any

from cute_layout.basis import dense
from cute_layout.errors import LayoutError, UnsupportedError
from cute_layout.layout import Layout
from cute_layout.limits import MOST_VALUES

__all__ = ["offsets", "values"]


def offsets(layout: Any) -> list[Any]:
    """All values of a layout in colexicographic order: ``[l(0), ..., l(size - 1)]``, a list of ints
    (of tuples for a coordinate layout).

    >>> offsets(Layout((2, 3), (3, 1)))
    [0, 3, 1, 4, 2, 5]
    """
    if type(layout) is not Layout:
        try:
            return list(layout.offsets())
        except AttributeError:
            kind = type(layout).__name__
            raise LayoutError(f"offsets are those of a layout, got {kind}") from None
    if layout.is_symbolic:
        raise UnsupportedError(
            f"the layout {layout} has symbolic extents or strides: its values have no table"
        )
    if layout.is_coordinate:
        return [dense(v, layout.template) for v in values(layout)]
    return values(layout)


def values(layout: Layout) -> list[Any]:
    """The values as ring elements (`Basis` for coordinates), colexicographically."""
    if layout.size == 0:
        return []
    if type(layout.size) is int and layout.size > MOST_VALUES:
        raise UnsupportedError(
            f"{layout} has {layout.size} values: a table of at most {MOST_VALUES} is made"
        )
    modes: list[tuple[Any, Any]] = []
    for s, d in zip(layout.flat_shape, layout.flat_stride, strict=True):
        if s == 1:
            continue
        if modes and d == modes[-1][0] * modes[-1][1]:
            modes[-1] = (modes[-1][0] * s, modes[-1][1])
        else:
            modes.append((s, d))
    if layout.is_coordinate:
        out: list[Any] = [0]
        for s, d in modes:
            out = [v + k * d for k in range(s) for v in out]
        return out
    if not modes:
        return [0]
    s, d = modes.pop(0)
    if s < 16 and modes:
        base = [k * d for k in range(s)]
        n, e = modes.pop(0)
        base = [v + k for k in [j * e for j in range(n)] for v in base]
        for n, e in modes:
            base = [v + k for k in [j * e for j in range(n)] for v in base]
        return base
    outer = [0]
    for n, e in modes:
        outer = [v + k for k in [j * e for j in range(n)] for v in outer]
    out = []
    if d == 0:
        for v in outer:
            out += [v] * s
        return out
    width = s * d
    for v in outer:
        out += range(v, v + width, d)
    return out
