"""What can be read off a layout: size, cosize, rank, depth, and its form without parentheses."""

from __future__ import annotations

from typing import Any

from cute_layout.answers import answers
from cute_layout.basis import dense
from cute_layout.errors import LayoutError
from cute_layout.layout import Layout, clean_crd, make
from cute_layout.limits import need_plain
from cute_layout.trees import Tree, flat, product, slice_trees

__all__ = ["cosize", "depth", "flatten", "rank", "size", "slice_and_offset"]


@answers((int, tuple, Layout), (int, type(None)))
def size(layout: Any, mode: int | None = None) -> Any:
    """The number of coordinates: the product of the shape (of one top-level mode, if given).

    >>> size(Layout((2, (3, 4)))), size(Layout((2, (3, 4))), 1)
    (24, 12)
    """
    if mode is not None and type(layout) is int:
        raise LayoutError("an int has no modes")
    if mode is not None:
        return size(layout[mode])
    return product(layout) if type(layout) in (tuple, int) else layout.size


def cosize(layout: Any) -> Any:
    """The number of consecutive offsets from the least to the greatest value: max - min + 1.

    For nonnegative strides this is CuTe's ``l(size - 1) + 1``; negative strides count by magnitude.
    A coordinate layout spans a box, and its cosize is the box's volume. Empty layouts have cosize
    0.

    >>> cosize(Layout((4, 3), (-1, 8)))
    20
    """
    try:
        return layout.cosize
    except AttributeError:
        raise LayoutError(f"a cosize is that of a layout, got {type(layout).__name__}") from None


def rank(layout: Any) -> int:
    """The number of top-level modes; 1 for an int shape.

    >>> rank(Layout((2, (3, 4)))), rank(Layout(24))
    (2, 1)
    """
    shape = getattr(layout, "shape", layout)
    return len(shape) if type(shape) is tuple else 1


def depth(layout: Any) -> int:
    """The nesting depth of the shape: 0 for an int, 1 for a flat tuple.

    >>> depth(Layout((2, (3, 4)))), depth(24)
    (2, 0)
    """
    shape = getattr(layout, "shape", layout)
    if type(shape) is not tuple:
        return 0
    return 1 + max([depth(child) for child in shape], default=0)


def flatten(layout: Any) -> Any:
    """The same function with all parentheses removed (a tree is flattened likewise).

    >>> print(flatten(Layout(((2, 2), 8), ((1, 16), 2))))
    (2,2,8):(1,16,2)
    """
    if type(layout) is tuple:
        return flat(layout)
    if type(layout) is not Layout or type(layout.shape) is not tuple:
        return layout
    return make(layout.flat_shape, layout.flat_stride)


def slice_and_offset(crd: Tree, layout: Layout) -> tuple[Layout, Any]:
    """Fix the entries of `crd` that are not None: the layout of the rest, and the offset of the
    fixed.

    ``layout(c) = offset + sublayout(rest of c)`` for every c that agrees with `crd`. The offset is
    an int, or a tuple for coordinate layouts.

    >>> sub, offset = slice_and_offset((None, 3), Layout((4, 8), (8, 1)))
    >>> print(sub, offset)
    4:8 3
    """
    need_plain(layout, "a slice with its offset")
    kept, offset = slice_trees(clean_crd(crd), layout.shape, layout.stride)
    sub = Layout(*kept)
    return sub, dense(offset, layout.template) if layout.is_coordinate else offset
