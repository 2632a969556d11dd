"""Fewer modes, same function: (s0:d0, s1:s0*d0) is s0*s1:d0, and an extent of 1 contributes
nothing.

Source: CuTe layout algebra, ``02_layout_algebra.md``, "Coalesce" and "Filter".
"""

from __future__ import annotations

from typing import Any

from cute_layout.errors import CongruenceError
from cute_layout.layout import Layout, from_modes, make
from cute_layout.limits import need_plain
from cute_layout.trees import Tree, flat, product, spell, unflatten

__all__ = ["coalesce", "filter", "filter_zeros", "merge_modes"]


def merge_modes(shapes: tuple[Any, ...], strides: tuple[Any, ...]) -> list[tuple[Any, Any]]:
    """The shortest list of (extent, stride) with the same values on the domain."""
    modes: list[tuple[Any, Any]] = []
    for s, d in zip(shapes, strides, strict=True):
        if s == 1:
            continue
        if modes:
            s0, d0 = modes[-1]
            if d == s0 * d0:
                modes[-1] = (s0 * s, d0)
                continue
        modes.append((s, d))
    return modes


def coalesce(layout: Layout, profile: Tree = None) -> Layout:
    """The layout with the fewest flat modes that is the same function of its index.

    With a `profile`, each entry of the profile is coalesced by itself, so the result still takes
    coordinates of that profile. A profile entry that is not a tuple coalesces one mode; modes past
    the profile's end stay as they are. An empty layout gives ``0:0``.

    >>> print(coalesce(Layout((2, (1, 6)), (1, (6, 2)))))
    12:1
    >>> print(coalesce(Layout((2, (1, 6)), (1, (6, 2))), (1, 1)))
    (2,6):(1,2)

    Raises:
        CongruenceError: the profile has more entries than the layout has modes.
    """
    need_plain(layout, "the coalesced form")
    if profile is None or type(profile) is not tuple:
        if layout.size == 0:
            return make(0, 0)
        return from_modes(merge_modes(layout.flat_shape, layout.flat_stride))
    shape, stride = _by_profile(layout.shape, layout.stride, profile)
    return make(shape, stride)


def _by_profile(shape: Tree, stride: Tree, profile: Tree) -> tuple[Tree, Tree]:
    if type(profile) is not tuple:
        inner = coalesce(Layout(shape, stride))
        return inner.shape, inner.stride
    if type(shape) is not tuple or len(profile) > len(shape):
        raise CongruenceError(
            f"the profile {spell(profile)} has more entries than the shape {spell(shape)}"
        )
    parts = [_by_profile(s, d, p) for s, d, p in zip(shape, stride, profile, strict=False)]
    rest = len(profile)
    shapes = tuple([s for s, _ in parts]) + shape[rest:]
    strides = tuple([d for _, d in parts]) + stride[rest:]
    return shapes, strides


def filter_zeros(layout: Layout) -> Layout:
    """Replace the extent of every stride-0 mode by 1: the same image, each value kept once per
    mode.

    >>> print(filter_zeros(Layout((4, 8), (0, 1))))
    (1,8):(0,1)
    """
    need_plain(layout, "the filtered form")
    leaves = [
        1 if d == 0 and s != 0 else s
        for s, d in zip(layout.flat_shape, layout.flat_stride, strict=True)
    ]
    return make(unflatten(leaves, layout.shape), layout.stride)


def filter(layout: Layout, profile: Tree = None) -> Layout:
    """Drop stride-0 and extent-1 modes and coalesce: the same set of values.

    >>> print(filter(Layout((4, 8, 2), (0, 1, 8))))
    16:1
    """
    return coalesce(filter_zeros(layout), profile)


def extent_modes(shape: Tree, stride: Tree) -> list[tuple[Any, Any]]:
    """`merge_modes` that also keeps the function past the size: the last mode is never dropped.

    Evaluation leaves the last flat digit unbounded, so a last mode of extent 1 decides the values
    beyond the size.
    """
    shapes, strides = flat(shape), flat(stride)
    if not shapes:
        return [(1, 0)]
    modes = merge_modes(shapes[:-1], strides[:-1])
    s, d = shapes[-1], strides[-1]
    if modes and d == product(modes[-1]):
        modes[-1] = (modes[-1][0] * s, modes[-1][1])
    else:
        modes.append((s, d))
    return modes
