"""Coordinates to offsets and back: replace each ``1@k`` by the stride of dimension k, or undo
it."""

from __future__ import annotations

from typing import Any

from cute_layout.basis import Basis, E
from cute_layout.composition import composition
from cute_layout.errors import DomainError
from cute_layout.layout import Layout, make
from cute_layout.limits import need_plain
from cute_layout.trees import Tree, compact_major, spell, unflatten

__all__ = ["delinearize", "identity", "linearize"]


def linearize(layout: Layout, shape: Tree | Layout) -> Layout:
    """The layout with each coordinate value replaced by its index in `shape` (or its offset in a
    layout).

    Basis strides must name leaves of `shape`. A layout of offsets is returned as it is.

    >>> print(linearize(Layout((4, 2), (8 * E(1), E(0))), (16, 16)))
    (4,2):(128,1)

    Raises:
        DomainError: a basis vector that `shape` does not have.
    """
    need_plain(layout, "the linear form")
    if not layout.is_coordinate:
        return layout
    where = shape.stride if isinstance(shape, Layout) else compact_major(Layout(shape).shape)
    total = [_offset(d, where, layout) for d in layout.flat_stride]
    return make(layout.shape, unflatten(total, layout.shape))


def _offset(stride: Any, where: Tree, layout: Layout) -> Any:
    if type(stride) is not Basis:
        return 0
    total: Any = 0
    for path, c in stride.terms:
        node = where
        for k in path if type(where) is tuple or path != (0,) else ():
            if type(node) is not tuple or k >= len(node):
                raise DomainError(
                    f"{layout} has the stride {stride}, which is no leaf of {spell(where)}"
                )
            node = node[k]
        if type(node) is tuple:
            raise DomainError(
                f"{layout} has the stride {stride}, which is no leaf of {spell(where)}"
            )
        total = total + c * node
    return total


def identity(shape: Tree) -> Layout:
    """The layout that maps each coordinate to itself: strides ``1@0, 1@1, ...``.

    >>> print(identity((16, (2, 8))))
    (16,(2,8)):(1@0,(1@0@1,1@1@1))
    """

    def strides(node: Tree, path: tuple[int, ...]) -> Tree:
        if type(node) is tuple:
            return tuple([strides(child, (*path, k)) for k, child in enumerate(node)])
        return E(*path) if path else E(0)

    plain = Layout(shape).shape
    return Layout(plain, strides(plain, ()))


def delinearize(layout: Layout, shape: Tree) -> Layout:
    """The coordinate layout whose value is the coordinate, in `shape`, of `layout`'s index.

    >>> print(delinearize(Layout((4, 2), (128, 1)), (16, 16)))
    (4,2):(8@1,1@0)

    Raises:
        DivisibilityError: the coordinates carry; no coordinate layout has them.
    """
    result: Layout = composition(identity(shape), layout)
    return result
