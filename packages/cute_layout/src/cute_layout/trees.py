"""Nested tuples of ints: the shapes, strides and coordinates that layouts are made of.

Order is colexicographic throughout: the first leaf moves fastest. Source: CuTe `int_tuple.hpp`
(the operations, not the code).
"""

from __future__ import annotations

from typing import Any

from cute_layout.errors import CongruenceError, DomainError

__all__ = [
    "compact_major",
    "compatible",
    "congruent",
    "crd2crd",
    "crd2idx",
    "flat",
    "has_none",
    "idx2crd",
    "product",
    "slice_trees",
    "spell",
    "unflatten",
]

DEPTH = 64
"""The deepest nesting of a layout's parentheses."""

# A tree is an int (or a symbolic extent, or a basis stride) or a tuple of trees.
Tree = Any


def flat(tree: Tree) -> tuple[Any, ...]:
    """The leaves of a tree, left to right."""
    if type(tree) is not tuple:
        return (tree,)
    out: list[Any] = []
    for child in tree:
        if type(child) is tuple:
            out.extend(flat(child))
        else:
            out.append(child)
    return tuple(out)


def product(tree: Tree) -> Any:
    """The product of the leaves; 1 for the empty tuple."""
    if type(tree) is not tuple:
        return tree
    out: Any = 1
    for child in tree:
        out = out * (product(child) if type(child) is tuple else child)
    return out


def congruent(a: Tree, b: Tree) -> bool:
    """Whether two trees (or layouts) have the same profile of parentheses.

    >>> congruent((1, (2, 3)), (7, (8, 9)))
    True
    """
    a, b = getattr(a, "shape", a), getattr(b, "shape", b)
    if type(a) is not tuple or type(b) is not tuple:
        return type(a) is not tuple and type(b) is not tuple
    return len(a) == len(b) and all(map(congruent, a, b))


def compatible(a: Tree, b: Tree) -> bool:
    """Whether every coordinate of shape `a` is a coordinate of shape `b`: b refines a, leaf by
    leaf.

    >>> compatible((8, 4), ((2, 4), 4)), compatible(((2, 4), 4), (8, 4))
    (True, False)
    """
    a, b = getattr(a, "shape", a), getattr(b, "shape", b)
    if type(a) is not tuple:
        return bool(a == product(b))
    return type(b) is tuple and len(a) == len(b) and all(map(compatible, a, b))


def _profile_like(leaves: list[Any], profile: Tree) -> Tree:
    """Put `leaves` (consumed from the front) into the parentheses of `profile`."""
    if type(profile) is not tuple:
        return leaves.pop(0)
    return tuple(_profile_like(leaves, child) for child in profile)


def unflatten(leaves: Any, profile: Tree) -> Tree:
    """The inverse of `flat` for a given profile."""
    rest = list(leaves)
    out = _profile_like(rest, profile)
    if rest:
        raise CongruenceError(f"{len(rest)} leaves left over for the profile {spell(profile)}")
    return out


def spell(tree: Tree) -> str:
    """The tree as text without blanks: ``((2,2),8)``."""
    if type(tree) is not tuple:
        return str(tree)
    return "(" + ",".join([spell(child) for child in tree]) + ")"


def compact_major(shape: Tree, current: Any = 1) -> Tree:
    """Compact colexicographic strides for a shape: ``(2,(3,4))`` gives ``(1,(2,6))``."""
    if type(shape) is not tuple:
        return current
    out = []
    for child in shape:
        out.append(compact_major(child, current))
        current = current * product(child)
    return tuple(out)


def _no_digit(digit: Any, by: Any) -> DomainError:
    kinds = f"{type(digit).__name__} and {type(by).__name__}"
    return DomainError(f"coordinates and extents are made of ints, got {kinds}")


def crd2idx(crd: Tree, shape: Tree, stride: Tree = None) -> Any:
    """The offset of a coordinate: sum of digit times stride, the last digit of a mode unbounded.

    An int coordinate of a tuple shape is split colexicographically. Without `stride` the compact
    strides of `shape` are used, so the result is the coordinate's index.

    >>> crd2idx((1, 2), (3, 4)), crd2idx((1, (0, 1)), (2, (2, 3)), (1, (10, 100)))
    (7, 101)
    """
    if crd is None:
        raise DomainError(f"a coordinate of the shape {spell(shape)} leaves an entry open")
    if stride is None:
        try:
            stride = compact_major(shape)
        except TypeError:
            raise _no_digit(crd, shape) from None
    if type(shape) is tuple and (type(stride) is not tuple or len(stride) != len(shape)):
        raise CongruenceError(
            f"the stride {spell(stride)} is not congruent with the shape {spell(shape)}"
        )
    if type(shape) is not tuple:
        if type(crd) is tuple:
            raise CongruenceError(
                f"coordinate {spell(crd)} is deeper than the shape {spell(shape)}"
            )
        try:
            return crd * stride
        except TypeError:
            raise _no_digit(crd, stride) from None
    if type(crd) is tuple:
        if len(crd) != len(shape):
            raise CongruenceError(
                f"coordinate {spell(crd)} has {len(crd)} entries, the shape {spell(shape)} has "
                f"{len(shape)}"
            )
        total: Any = 0
        try:
            for c, s, d in zip(crd, shape, stride, strict=True):
                total = total + crd2idx(c, s, d)
        except TypeError:
            raise _no_digit(crd, shape) from None
        return total
    if not shape:
        if crd != 0:
            raise DomainError(f"the empty shape has the one index 0, not {crd}")
        return 0
    total = 0
    for s, d in zip(shape[:-1], stride[:-1], strict=True):
        extent = product(s)
        if extent == 0:
            raise DomainError(
                f"the shape {spell(shape)} is empty: it has no coordinate {spell(crd)}"
            )
        try:
            total = total + crd2idx(crd % extent, s, d)
            crd = crd // extent
        except TypeError:
            raise _no_digit(crd, extent) from None
    return total + crd2idx(crd, shape[-1], stride[-1])


def idx2crd(idx: Tree, shape: Tree, stride: Tree = None) -> Tree:
    """The coordinate of an index, congruent with `shape`; the inverse of `crd2idx` on the domain.

    Without `stride`, an index outside ``0 <= idx < product(shape)`` raises `DomainError`. With
    `stride` each leaf is ``(idx // stride) % shape``, which undoes a compact layout with these
    strides. A tuple index is converted entry by entry.

    >>> idx2crd(7, (3, 4)), idx2crd(5, (2, (2, 3)))
    ((1, 2), (1, (0, 1)))
    """
    if idx is None:
        raise DomainError(f"an index of the shape {spell(shape)} leaves an entry open")
    if (stride is not None and (type(shape) is tuple) != (type(stride) is tuple)) or (
        type(shape) is tuple and type(stride) is tuple and len(shape) != len(stride)
    ):
        raise CongruenceError(
            f"the stride {spell(stride)} is not congruent with the shape {spell(shape)}"
        )
    if type(idx) is tuple:
        if type(shape) is not tuple or len(idx) != len(shape):
            raise CongruenceError(f"index {spell(idx)} does not fit the shape {spell(shape)}")
        if stride is None:
            return tuple(map(idx2crd, idx, shape))
        return tuple(map(idx2crd, idx, shape, stride))
    if stride is not None:
        if type(shape) is tuple:
            return tuple(idx2crd(idx, s, d) for s, d in zip(shape, stride, strict=True))
        if shape == 0:
            raise DomainError(f"the shape {spell(shape)} is empty: it has no coordinate {idx}")
        try:
            return idx // stride % shape if stride else 0
        except TypeError:
            raise _no_digit(idx, stride) from None
    leaves = []
    try:
        if type(idx) is int and not 0 <= idx < product(shape):
            raise DomainError(
                f"index {idx} lies outside the shape {spell(shape)} of size {product(shape)}"
            )
        for s in flat(shape):
            leaves.append(idx % s)
            idx = idx // s
    except DomainError:
        raise
    except (TypeError, ValueError):
        raise _no_digit(idx, shape) from None
    return unflatten(leaves, shape)


def crd2crd(crd: Tree, dst_shape: Tree, src_shape: Tree = None) -> Tree:
    """The same point written in another shape of the same size.

    >>> crd2crd((1, 2), (2, 6), (3, 4))
    (1, 3)
    """
    if src_shape is None:
        if type(crd) is tuple:
            if type(dst_shape) is not tuple:
                raise CongruenceError(
                    f"coordinate {spell(crd)} needs a source shape to become an index of "
                    f"{spell(dst_shape)}"
                )
            if len(crd) != len(dst_shape):
                raise CongruenceError(f"coordinate {spell(crd)} does not fit {spell(dst_shape)}")
            return tuple(map(crd2crd, crd, dst_shape))
        return idx2crd(crd, dst_shape)
    return idx2crd(crd2idx(crd, src_shape), dst_shape)


def has_none(crd: Tree) -> bool:
    """Whether a coordinate leaves some entry open."""
    return crd is None or (type(crd) is tuple and any(map(has_none, crd)))


def slice_trees(crd: Tree, shape: Tree, stride: Tree) -> tuple[tuple[Tree, Tree], Any]:
    """The (shape, stride) of the entries that `crd` leaves open, and the offset of the fixed ones.

    One open entry gives its own shape, several give a flat tuple of them, as in CuTe.
    """
    kept: list[tuple[Tree, Tree]] = []
    offset = _slice(crd, shape, stride, kept)
    if len(kept) == 1:
        return kept[0], offset
    return (tuple([s for s, _ in kept]), tuple([d for _, d in kept])), offset


def _slice(crd: Tree, shape: Tree, stride: Tree, kept: list[tuple[Tree, Tree]]) -> Any:
    if crd is None:
        kept.append((shape, stride))
        return 0
    if not has_none(crd):
        return crd2idx(crd, shape, stride)
    if type(shape) is not tuple or len(crd) != len(shape):
        raise CongruenceError(f"coordinate {spell(crd)} does not fit the shape {spell(shape)}")
    total: Any = 0
    for c, s, d in zip(crd, shape, stride, strict=True):
        total = total + _slice(c, s, d, kept)
    return total
