"""A / B = A o (B, complement(B)): the tile and the rest, mode by mode.

Source: CuTe, ``02_layout_algebra.md``, "Division". The four forms differ only in parentheses.
"""

from __future__ import annotations

from typing import Any

from cute_layout.answers import answers
from cute_layout.complement import complement
from cute_layout.composed import ComposedLayout
from cute_layout.composition import composition
from cute_layout.errors import CongruenceError
from cute_layout.layout import Layout, join, make

__all__ = ["flat_divide", "logical_divide", "tiled_divide", "zipped_divide"]


def _tile(tiler: Any) -> Layout:
    return tiler if isinstance(tiler, Layout) else Layout(tiler)


def _pair(a: Layout, tiler: Any) -> Layout:
    """(tile, rest) of one mode."""
    if type(tiler) is int and type(a.shape) is int and 1 < tiler < a.shape:
        # n:1 in s:d, by far the most frequent case: no digits can carry.
        return make((tiler, -(-a.shape // tiler)), (a.stride, a.stride * tiler))
    b = _tile(tiler)
    rest = complement(b, a.size)
    both = make((b.shape, rest.shape), (b.stride, rest.stride))
    result: Layout = composition(a, both)
    return result


@answers((Layout, ComposedLayout), (int, tuple, Layout, type(None)))
def logical_divide(a: Any, tiler: Any) -> Any:
    """Split each mode into (tile, rest): ``((tile0, rest0), (tile1, rest1), ...)``.

    Args:
        a: a `Layout` or `ComposedLayout`.
        tiler: a layout (or int N, meaning ``N:1``) that tiles the whole index, or a tuple with one
            such entry a mode; None keeps a mode. A tile that does not divide is rounded up: the
            rest then reaches past the mode, along its last extent.

    >>> print(logical_divide(Layout((4, 6), (6, 1)), (2, 3)))
    ((2,2),(3,2)):((6,12),(1,3))

    Raises:
        CongruenceError: more tiler entries than modes.
        DivisibilityError: the tile is no sub-layout of the mode.
    """
    if isinstance(a, ComposedLayout):
        return ComposedLayout(a.swizzle, a.offset, logical_divide(a.layout, tiler))
    if tiler is None:
        return a
    if isinstance(tiler, (tuple, list)):
        _check(a, tiler)
        return join(
            [logical_divide(m, tiler[k] if k < len(tiler) else None) for k, m in enumerate(a)]
        )
    return _pair(a, tiler)


def _check(a: Layout, tiler: Any) -> None:
    if len(tiler) > len(a):
        raise CongruenceError(
            f"the tiler has {len(tiler)} entries, the layout {a} has {len(a)} modes"
        )


def _unzip(a: Layout, tiler: Any) -> tuple[Layout, Layout]:
    """The tiles of all modes, and their rests."""
    if tiler is None:
        return make(1, 0), a
    if isinstance(tiler, (tuple, list)):
        _check(a, tiler)
        modes = list(a)
        parts = [_unzip(m, t) for m, t in zip(modes, tiler, strict=False)]
        return join([t for t, _ in parts]), join([r for _, r in parts] + modes[len(parts) :])
    tile, rest = _pair(a, tiler)
    return tile, rest


@answers((Layout, ComposedLayout), (int, tuple, Layout, type(None)))
def zipped_divide(a: Any, tiler: Any) -> Any:
    """The tiles in the first mode, the rests in the second: ``((tile0, tile1), (rest0, rest1))``.

    >>> print(zipped_divide(Layout((4, 6), (6, 1)), (2, 3)))
    ((2,3),(2,2)):((6,1),(12,3))
    """
    if isinstance(a, ComposedLayout):
        return ComposedLayout(a.swizzle, a.offset, zipped_divide(a.layout, tiler))
    return join(list(_unzip(a, tiler)))


@answers((Layout, ComposedLayout), (int, tuple, Layout, type(None)))
def tiled_divide(a: Any, tiler: Any) -> Any:
    """The tiles in the first mode, each rest a mode of its own: ``((tile0, tile1), rest0,
    rest1)``.

    >>> print(tiled_divide(Layout((4, 6), (6, 1)), (2, 3)))
    ((2,3),2,2):((6,1),12,3)
    """
    if isinstance(a, ComposedLayout):
        return ComposedLayout(a.swizzle, a.offset, tiled_divide(a.layout, tiler))
    tile, rest = _unzip(a, tiler)
    return join([tile, *_spread(rest)])


@answers((Layout, ComposedLayout), (int, tuple, Layout, type(None)))
def flat_divide(a: Any, tiler: Any) -> Any:
    """Every tile and every rest a mode of its own: ``(tile0, tile1, rest0, rest1)``.

    >>> print(flat_divide(Layout((4, 6), (6, 1)), (2, 3)))
    (2,3,2,2):(6,1,12,3)
    """
    if isinstance(a, ComposedLayout):
        return ComposedLayout(a.swizzle, a.offset, flat_divide(a.layout, tiler))
    tile, rest = _unzip(a, tiler)
    tiles = list(tile) if isinstance(tiler, (tuple, list)) else [tile]
    return join([*tiles, *_spread(rest)])


def _spread(rest: Layout) -> list[Layout]:
    return list(rest) if type(rest.shape) is tuple else [rest]
