"""`TVLayout`: f(t, v) = the tile coordinate that value v of thread t holds.

Source: the Hexcute paper, "Thread-Value Layout", after CuTe's TV layouts.
"""

from __future__ import annotations

from typing import Any

from cute_layout.basis import Basis
from cute_layout.composition import composition
from cute_layout.errors import CongruenceError, DomainError
from cute_layout.inverse import right_inverse
from cute_layout.layout import Layout, join, make
from cute_layout.linearize import delinearize, linearize
from cute_layout.predicates import is_surjective
from cute_layout.text import parse_trees
from cute_layout.trees import Tree, compact_major, product, spell, unflatten

__all__ = ["TVLayout"]


class TVLayout:
    """A layout with a thread mode and a value mode over a tile; frozen, hashable, callable.

    Called as ``TVLayout(layout, tile)`` or ``TVLayout(thread, value, tile)``.

    Args:
        layout: rank 2, (thread, value), or the thread mode alone; its values are tile indices
            (colexicographic in `tile`) or coordinates of the tile (basis strides).
        value: the value mode, where the first argument is the thread mode.
        tile: the tile's shape, one entry per dimension.

    >>> f = TVLayout(Layout(((2, 4), (2, 2)), ((8, 1), (4, 16))), (4, 8))
    >>> print(f(2, 3), f.threads, f.values, f.coordinates)
    (1, 5) 8 4 ((2,4),(2,2)):((2@1,1@0),(1@1,4@1))

    Raises:
        CongruenceError: the layout does not have two modes.
        DomainError: it leaves the tile.
    """

    __slots__ = ("index", "tile")
    index: Layout
    tile: Tree

    def __init__(self, layout: Layout, *rest: Any) -> None:
        if len(rest) == 2 and isinstance(rest[0], Layout):
            layout = join([layout, rest[0]])
        elif len(rest) != 1:
            raise CongruenceError("TVLayout takes (layout, tile) or (thread, value, tile)")
        tile = rest[-1]
        if not isinstance(layout, Layout):
            raise CongruenceError(f"TVLayout takes a layout, got {type(layout).__name__}")
        if len(layout) != 2 or type(layout.shape) is not tuple:
            raise CongruenceError(
                f"a thread-value layout has two modes, thread and value; {layout} does not"
            )
        tile = Layout(tile).shape
        _stay_inside(layout, tile)
        object.__setattr__(self, "index", linearize(layout, tile))
        object.__setattr__(self, "tile", tile)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"TVLayout is immutable; build a new one instead of setting {name}")

    def __reduce__(self) -> tuple[Any, ...]:
        return TVLayout, (self.index, self.tile)

    @staticmethod
    def parse(text: str, tile: Tree) -> TVLayout:
        """The thread-value layout spelled in `text`, over `tile`."""
        return TVLayout(Layout(*parse_trees(text)), tile)

    @property
    def threads(self) -> int:
        """The number of threads."""
        return int(product(self.index.shape[0]))

    @property
    def values(self) -> int:
        """The number of values a thread holds."""
        return int(product(self.index.shape[1]))

    @property
    def shape(self) -> Tree:
        """The (thread, value) shape."""
        return self.index.shape

    @property
    def coordinates(self) -> Layout:
        """The same function with coordinate values (basis strides).

        Raises:
            DivisibilityError: the coordinates carry along some mode.
        """
        return delinearize(self.index, self.tile)

    def __call__(self, thread: Tree, value: Tree) -> Tree:
        """The tile coordinate, one int a tile dimension (an int for a one-dimensional tile)."""
        i = self.index(thread, value)
        if type(self.tile) is not tuple:
            return i
        out = []
        for extent in [product(s) for s in self.tile[:-1]]:
            out.append(i % extent)
            i //= extent
        return (*out, i)

    def invert(self) -> Layout:
        """The layout from tile coordinates to ``t + v * threads``, one top-level mode per
        dimension.

        Where several (t, v) hold one element (stride-0 modes), one of them is given.

        >>> q = TVLayout(Layout(((4, 8), (2, 4)), ((64, 1), (32, 8))), (32, 8))
        >>> print(q.invert())
        ((8,4),(2,4)):((4,64),(32,1))

        Raises:
            DomainError: the layout does not reach the whole tile.
        """
        size = product(self.tile)
        back = right_inverse(self.index)
        if back.size != size:
            raise DomainError(
                f"{self} does not reach the whole tile: it stops before index {back.size}"
            )
        result: Layout = composition(back, Layout(self.tile))
        return result

    def covers(self) -> bool:
        """Whether every element of the tile is held by some (t, v)."""
        return is_surjective(self.index, int(product(self.tile)))

    def restrict(self, threads: Any = None, values: Any = None) -> TVLayout:
        """The part held by some threads and values: a tiler (int N for the first N) for each mode.

        >>> f = TVLayout(Layout(((2, 4), (2, 2)), ((8, 1), (4, 16))), (4, 8))
        >>> print(f.restrict(threads=2))
        (2,(2,2)):(8,(4,16)) over (4,8)
        """
        return TVLayout(composition(self.index, (threads, values), strict=True), self.tile)

    def project(self, *dimensions: int) -> TVLayout:
        """Keep some tile dimensions and forget the others (their modes get stride 0).

        >>> f = TVLayout(Layout(((2, 4), (2, 2)), ((8, 1), (4, 16))), (4, 8))
        >>> print(f.project(0))
        ((2,4),(2,2)):((0,1),(0,0)) over (4)
        """
        if type(self.tile) is not tuple or not all(0 <= k < len(self.tile) for k in dimensions):
            raise DomainError(f"{self} has no dimensions {dimensions}")
        place = {old: new for new, old in enumerate(dimensions)}
        whole = self.coordinates
        strides: list[Any] = []
        for d in whole.flat_stride:
            terms = d.terms if type(d) is Basis else ()
            kept = Basis([((place[p[0]], *p[1:]), c) for p, c in terms if p[0] in place])
            strides.append(kept if kept else 0)
        layout = Layout(whole.shape, unflatten(strides, whole.shape))
        return TVLayout(layout, tuple([self.tile[k] for k in dimensions]))

    def replicate(self, threads: int = 1, values: int = 1) -> TVLayout:
        """More threads or values that hold the same elements: a stride-0 mode at the end of each.

        >>> print(TVLayout(Layout((4, 2)), (8,)).replicate(threads=2))
        ((4,2),2):((1,0),4) over (8)
        """
        return TVLayout(
            join([_grow(self.index[0], threads, 0), _grow(self.index[1], values, 0)]), self.tile
        )

    def repeat(self, threads: Tree = 1, values: Tree = 1) -> TVLayout:
        """Tile a larger tile with this one: along each dimension first over more threads, then
        values.

        Args:
            threads: copies along each tile dimension that go to new threads (an int or one per
                dimension).
            values: copies along each tile dimension that go to new values.

        >>> atom = TVLayout(Layout((4, 2)), (4, 2))
        >>> print(atom.repeat(threads=(2, 1), values=(1, 3)))
        ((4,(2,1)),(2,(1,3))):((1,(4,0)),(8,(0,16))) over (8,6)
        """
        tile = self.tile if type(self.tile) is tuple else (self.tile,)
        extents = [product(s) for s in tile]
        by_thread = _per_dimension(threads, len(tile))
        by_value = _per_dimension(values, len(tile))
        big = tuple([e * n * m for e, n, m in zip(extents, by_thread, by_value, strict=True)])
        steps = compact_major(big)
        moved = linearize(delinearize(self.index, tuple(extents)), big)
        thread_strides = tuple(
            [e * p if n > 1 else 0 for e, p, n in zip(extents, steps, by_thread, strict=True)]
        )
        value_strides = tuple(
            [
                e * n * p if m > 1 else 0
                for e, p, n, m in zip(extents, steps, by_thread, by_value, strict=True)
            ]
        )
        thread, value = moved
        pair = [
            join([thread, make(by_thread, thread_strides)])
            if any(n > 1 for n in by_thread)
            else thread,
            join([value, make(by_value, value_strides)]) if any(n > 1 for n in by_value) else value,
        ]
        return TVLayout(join(pair), big if type(self.tile) is tuple else big[0])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TVLayout):
            return NotImplemented
        return self.index == other.index and bool(self.tile == other.tile)

    def __hash__(self) -> int:
        return hash((self.index, self.tile))

    def __str__(self) -> str:
        return f"{self.index} over {spell(self.tile)}"

    def __repr__(self) -> str:
        return f"TVLayout({self})"

    def _repr_svg_(self) -> str | None:
        """Its picture, which Jupyter shows; None where it has too many cells for one."""
        from cute_layout.drawing import shown

        return shown(self)


def _per_dimension(count: Tree, rank: int) -> tuple[int, ...]:
    if type(count) is int:
        return (count,) + (1,) * (rank - 1)
    if len(count) != rank:
        raise CongruenceError(
            f"{spell(tuple(count))} needs one entry for each of {rank} tile dimensions"
        )
    return tuple(count)


def _grow(mode: Layout, count: int, stride: int) -> Layout:
    return mode if count == 1 else join([mode, make(count, stride)])


def _stay_inside(layout: Layout, tile: Tree) -> None:
    index = linearize(layout, tile)
    low = sum(
        (s - 1) * d for s, d in zip(index.flat_shape, index.flat_stride, strict=True) if d < 0
    )
    high = sum(
        (s - 1) * d for s, d in zip(index.flat_shape, index.flat_stride, strict=True) if d > 0
    )
    if low < 0 or high >= product(tile):
        raise DomainError(
            f"{layout} reaches the indices {low} .. {high}, outside the tile {spell(tile)}"
        )
    if layout.is_coordinate and type(tile) is tuple:
        for path, top in _reach(layout).items():
            node = tile
            for k in path:
                node = node[k]
            if top >= product(node):
                raise DomainError(
                    f"{layout} reaches {top} along coordinate {spell(path)} of the tile "
                    f"{spell(tile)}"
                )


def _reach(layout: Layout) -> dict[Any, int]:
    top: dict[Any, int] = {}
    for s, d in zip(layout.flat_shape, layout.flat_stride, strict=True):
        for path, c in d.terms if type(d) is Basis else ():
            top[path] = top.get(path, 0) + (s - 1) * c
    return top
