"""A x B = (A, complement(A) o B): copies of A, laid out by B.

Source: CuTe, ``02_layout_algebra.md``, "Product". The forms differ only in parentheses.
"""

from __future__ import annotations

from typing import Any

from cute_layout.answers import answers
from cute_layout.complement import copies_of
from cute_layout.composed import ComposedLayout
from cute_layout.composition import composition
from cute_layout.errors import CongruenceError, DomainError
from cute_layout.layout import Layout, join, make
from cute_layout.trees import Tree, product, spell

__all__ = [
    "blocked_product",
    "flat_product",
    "logical_product",
    "raked_product",
    "tile_to_shape",
    "tiled_product",
    "zipped_product",
]


@answers((Layout,), (int, tuple, Layout, type(None)))
def logical_product(a: Layout, tiler: Any) -> Layout:
    """The layout (A, R): R places size(tiler) disjoint copies of A, in the order of `tiler`.

    Args:
        a: the layout that is copied.
        tiler: a layout (or int N, meaning ``N:1``) over the copies; or a tuple with one entry per
            mode of `a`, which multiplies mode by mode (None keeps a mode).

    >>> print(logical_product(Layout((2, 2), (4, 1)), 6))
    ((2,2),(2,3)):((4,1),(2,8))

    Raises:
        CongruenceError: more tiler entries than modes.
        NotInjectiveError: A's modes overlap, so it has no complement.
        DivisibilityError: the copies wanted by `tiler` are no layout.
    """
    if tiler is None:
        return a
    if isinstance(tiler, (tuple, list)):
        if len(tiler) > len(a):
            raise CongruenceError(
                f"the tiler has {len(tiler)} entries, the layout {a} has {len(a)} modes"
            )
        entries = [*tiler, *[None] * (len(a) - len(tiler))]
        return join([logical_product(m, t) for m, t in zip(a, entries, strict=True)])
    b = tiler if isinstance(tiler, Layout) else Layout(tiler)
    return join([a, composition(copies_of(a, b.cosize), b)])


def _unzip(a: Layout, tiler: Any) -> tuple[Layout, Layout]:
    """The copied modes, and the copies of each."""
    if tiler is None:
        return a, make(1, 0)
    if isinstance(tiler, (tuple, list)):
        if len(tiler) > len(a):
            raise CongruenceError(
                f"the tiler has {len(tiler)} entries, the layout {a} has {len(a)} modes"
            )
        entries = [*tiler, *[None] * (len(a) - len(tiler))]
        parts = [_unzip(m, t) for m, t in zip(a, entries, strict=True)]
        return join([t for t, _ in parts]), join([r for _, r in parts])
    block, copies = logical_product(a, tiler)
    return block, copies


@answers((Layout,), (int, tuple, Layout, type(None)))
def zipped_product(a: Layout, tiler: Any) -> Layout:
    """The blocks in the first mode, the copies in the second: ``((a0, a1), (copies0,
    copies1))``.

    >>> print(zipped_product(Layout((2, 2), (4, 1)), Layout((2, 3))))
    ((2,2),(2,3)):((4,1),(2,8))
    """
    return join(list(_unzip(a, tiler)))


@answers((Layout,), (int, tuple, Layout, type(None)))
def tiled_product(a: Layout, tiler: Any) -> Layout:
    """The block in the first mode, the copies one mode each: ``(a, copies0, copies1)``.

    >>> print(tiled_product(Layout((2, 2), (4, 1)), Layout((2, 3))))
    ((2,2),2,3):((4,1),2,8)
    """
    block, copies = _unzip(a, tiler)
    return join([block, *(copies if type(copies.shape) is tuple else [copies])])


@answers((Layout,), (int, tuple, Layout, type(None)))
def flat_product(a: Layout, tiler: Any) -> Layout:
    """All modes of the block and of the copies side by side: ``(a0, a1, copies0, copies1)``.

    >>> print(flat_product(Layout((2, 2), (4, 1)), Layout((2, 3))))
    (2,2,2,3):(4,1,2,8)
    """
    block, copies = _unzip(a, tiler)
    return join([*block, *(copies if type(copies.shape) is tuple else [copies])])


def _pad(modes: list[Layout], rank: int) -> list[Layout]:
    return modes + [make(1, 0)] * (rank - len(modes))


def _by_rank(block: Layout, tiler: Any) -> tuple[list[Layout], list[Layout]]:
    b = tiler if isinstance(tiler, Layout) else Layout(tiler)
    rank = max(len(block), len(b))
    copies: Layout = composition(copies_of(block, b.cosize), b)
    spread = list(copies) if type(b.shape) is tuple else [copies]
    return _pad(list(block), rank), _pad(spread, rank)


@answers((Layout,), (int, tuple, Layout, type(None)))
def blocked_product(block: Layout, tiler: Any) -> Layout:
    """Copies of `block` as the blocks of a larger tensor: mode k is (block k, tiler k).

    >>> print(blocked_product(Layout((2, 5), (5, 1)), Layout((3, 4), (1, 3))))
    ((2,3),(5,4)):((5,10),(1,30))
    """
    blocks, copies = _by_rank(block, tiler)
    return join([join([b, c]) for b, c in zip(blocks, copies, strict=True)])


@answers((Layout,), (int, tuple, Layout, type(None)))
def raked_product(block: Layout, tiler: Any) -> Layout:
    """Copies of `block` interleaved element by element: mode k is (tiler k, block k).

    >>> print(raked_product(Layout((2, 5), (5, 1)), Layout((3, 4), (1, 3))))
    ((3,2),(4,5)):((10,5),(30,1))
    """
    blocks, copies = _by_rank(block, tiler)
    return join([join([c, b]) for b, c in zip(blocks, copies, strict=True)])


@answers((Layout, ComposedLayout), (int, tuple), (tuple, type(None)))
def tile_to_shape(block: Any, shape: Tree, order: tuple[int, ...] | None = None) -> Any:
    """Cover `shape` with copies of `block`, each dimension rounded up to whole blocks.

    Args:
        block: a `Layout`, or a `ComposedLayout` whose swizzle is kept.
        shape: the target, one entry per dimension.
        order: the dimensions from the one whose copies lie closest together to the farthest; by
            default the first dimension first.

    >>> print(tile_to_shape(Layout((8, 64), (64, 1)), (128, 64)))
    ((8,16),(64,1)):((64,512),(1,0))

    Raises:
        CongruenceError: `block` has more modes than `shape`.
        DomainError: `order` is no permutation of the dimensions.
    """
    if isinstance(block, ComposedLayout):
        tiled = tile_to_shape(block.layout, shape, order)
        return ComposedLayout(block.swizzle, block.offset, tiled)
    extents = [product(s) for s in shape] if type(shape) is tuple else [product(shape)]
    if len(block) > len(extents):
        raise CongruenceError(f"the block {block} has more modes than the shape {spell(shape)}")
    ranks = tuple(range(len(extents))) if order is None else tuple(order)
    if sorted(ranks) != list(range(len(extents))):
        raise DomainError(f"the order {order} is no permutation of {len(extents)} dimensions")
    if block.size == 0:
        raise DomainError(f"the block {block} is empty: no copies of it cover {spell(shape)}")
    modes = _pad(list(block), len(extents))
    counts = [-(-e // m.size) for e, m in zip(extents, modes, strict=True)]
    strides: list[Any] = [0] * len(counts)
    step: Any = 1
    for k in ranks:
        strides[k] = 0 if counts[k] == 1 else step
        step = step * counts[k]
    return blocked_product(join(modes), Layout(tuple(counts), tuple(strides)))
