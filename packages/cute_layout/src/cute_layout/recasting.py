"""The same memory in elements of another width: offsets times or divided by the ratio.

Source: CuTe `recast_layout`, with the cases it gets wrong refused.
"""

from __future__ import annotations

from typing import Any

from cute_layout.answers import answers
from cute_layout.composed import ComposedLayout
from cute_layout.errors import DivisibilityError, UnsupportedError
from cute_layout.layout import Layout, make
from cute_layout.swizzle import Swizzle
from cute_layout.trees import unflatten

__all__ = ["recast"]


@answers((Layout, ComposedLayout, Swizzle), (int,))
def recast(layout: Any, old_bits: int, new_bits: int) -> Any:
    """The layout (swizzle, composed layout) of the same memory in elements of `new_bits`.

    To narrower elements, the mode of stride 1 gets ``ratio`` times its extent; without one, the
    first mode becomes ``(ratio, s):(1, ratio*d)``. To wider ones, the modes that step inside one
    element are dropped, the other strides divided. Strides of 0 stay.

    >>> print(recast(Layout((8, 64), (64, 1)), 16, 8), recast(Layout((8, 64), (64, 1)), 16, 128))
    (8,128):(128,1) (8,8):(8,1)

    Raises:
        DivisibilityError: the ratio is not whole, a stride or offset falls inside an element, or
            the layout covers an element only partly.
    """
    if isinstance(layout, Swizzle):
        return layout.recast(old_bits, new_bits)
    small, large = sorted((old_bits, new_bits))
    if small <= 0 or large % small:
        raise DivisibilityError(f"cannot recast from {old_bits} to {new_bits} bits: no whole ratio")
    ratio = large // small
    if isinstance(layout, ComposedLayout):
        return _composed(layout, old_bits, new_bits, ratio)
    if layout.is_coordinate:
        raise UnsupportedError(
            f"{layout} gives coordinates, which have no width; linearize it first"
        )
    if ratio == 1:
        return layout
    return _narrow(layout, ratio) if new_bits < old_bits else _widen(layout, ratio)


def _composed(layout: ComposedLayout, old_bits: int, new_bits: int, ratio: int) -> ComposedLayout:
    offset = layout.offset * ratio
    if new_bits > old_bits:
        offset, rest = divmod(layout.offset, ratio)
        if rest:
            raise DivisibilityError(
                f"the offset {layout.offset} falls inside an element of {ratio}"
            )
    outer = recast(layout.swizzle, old_bits, new_bits)
    return ComposedLayout(outer, offset, recast(layout.layout, old_bits, new_bits))


def _narrow(layout: Layout, ratio: int) -> Layout:
    shapes: list[Any] = list(layout.flat_shape)
    strides: list[Any] = list(layout.flat_stride)
    at = next((k for k, d in enumerate(strides) if d == 1 and shapes[k] != 1), None)
    strides = [d * ratio for d in strides]
    if at is not None:
        shapes[at] = shapes[at] * ratio
        strides[at] = 1
    elif shapes and shapes[0] == 1:
        shapes[0], strides[0] = ratio, 1
    elif shapes:
        shapes[0], strides[0] = (ratio, shapes[0]), (1, strides[0])
    else:
        return make((ratio,), (1,))
    return make(unflatten(shapes, layout.shape), unflatten(strides, layout.shape))


def _widen(layout: Layout, ratio: int) -> Layout:
    shapes: list[Any] = []
    strides: list[Any] = []
    inside: list[tuple[int, int]] = []
    for s, d in zip(layout.flat_shape, layout.flat_stride, strict=True):
        if d % ratio == 0 or s == 1:
            shapes.append(s)
            strides.append(d // ratio if s != 1 else 0)
            continue
        steps, rest = divmod(ratio, d) if d > 0 else (0, 1)
        if rest or (s > steps and s % steps):
            raise DivisibilityError(
                f"mode {s}:{d} of {layout} steps across elements of {ratio} in uneven steps"
            )
        inside.append((d, min(s, steps)))
        shapes.append(max(s // steps, 1))
        strides.append(1 if s > steps else 0)
    covered = 1
    for d, s in sorted(inside):
        if d != covered:
            covered = 0
            break
        covered *= s
    if inside and covered != ratio:
        raise DivisibilityError(f"{layout} covers elements of {ratio} only partly")
    return make(unflatten(shapes, layout.shape), unflatten(strides, layout.shape))
