"""`PartialLayout`: a set of layouts, given by a shape whose strides are known or unknown.

``((8,8),64):((1,D1),D2)`` is every layout m of an 64x64 tensor with m(i, 0) = i for i < 8; an
unknown stands for any layout of its extent, so it may later be split. Top-level modes are tensor
dimensions.
Source: the Hexcute paper, "Layout Constraint".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from cute_layout.answers import ANY, answers
from cute_layout.coalesce import merge_modes
from cute_layout.errors import CongruenceError, DomainError
from cute_layout.fitting import Misfit, fit_modes
from cute_layout.layout import Layout
from cute_layout.table import values
from cute_layout.text import parse_trees
from cute_layout.trees import Tree, product, spell

__all__ = ["Mode", "PartialLayout", "Unknown"]


class Unknown:
    """An unknown stride. Two unknowns are equal if their names are; a name labels, nothing more.

    ``linear`` marks a mode that must have one stride, i.e. must not be split. `unify` makes such
    modes where two constraints cut a dimension at extents that do not divide each other. They print
    as ``~D1``.
    """

    __slots__ = ("linear", "name")

    def __init__(self, name: str, linear: bool = False) -> None:
        self.name = name
        self.linear = linear

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Unknown):
            return NotImplemented
        return self.name == other.name and self.linear == other.linear

    def __hash__(self) -> int:
        return hash((self.name, self.linear))

    def __str__(self) -> str:
        return f"~{self.name}" if self.linear else self.name

    __repr__ = __str__


class Mode(NamedTuple):
    """One flat mode of a partial layout: its extent and its stride, an int or `Unknown`."""

    extent: int
    stride: int | Unknown


class PartialLayout:
    """A layout constraint; frozen and hashable.

    Args:
        shape: extents >= 1; each top-level mode is one tensor dimension, possibly nested.
        stride: a congruent tree of ints (known) and unknowns: `Unknown`, a name, or None for a
            fresh name ``D1, D2, ...``. Left out, all strides are unknown.

    >>> c = PartialLayout.parse("((8,8),64):((1,D1),D2)")
    >>> print(c, [str(m.stride) for m in c.modes(0)])
    ((8,8),64):((1,D1),D2) ['1', 'D1']

    Raises:
        CongruenceError: the profiles differ.
        DomainError: an extent below 1, or a name used twice.
    """

    __slots__ = ("_dims", "shape", "stride")
    shape: Tree
    stride: Tree

    @answers(ANY, (int, tuple), (int, tuple, str, Unknown, type(None)))
    def __init__(self, shape: Tree, stride: Tree = None) -> None:
        if isinstance(shape, (Layout, PartialLayout)):
            shape, stride = shape.shape, shape.stride
        names: set[str] = set()
        if stride is None:
            stride = _all_unknown(shape)
        _collect(stride, names)
        fresh = (name for name in (f"D{k}" for k in range(1, 1 << 30)) if name not in names)
        shape, stride = _pair_up(shape, stride, fresh)
        put = object.__setattr__
        put(self, "shape", shape)
        put(self, "stride", stride)
        dims: list[tuple[Mode, ...]] = []
        for s, d in zip(shape, stride, strict=True) if type(shape) is tuple else ((shape, stride),):
            modes: list[Mode] = []
            _gather(s, d, modes)
            dims.append(tuple(modes))
        put(self, "_dims", tuple(dims))

    _dims: tuple[tuple[Mode, ...], ...]

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"PartialLayout is immutable; build a new one instead of setting {name}"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return PartialLayout, (self.shape, self.stride)

    @staticmethod
    def parse(text: str) -> PartialLayout:
        """Read a `text` such as ``((8,8),64):((1,D1),D2)``: a word is an unknown, ``~D1`` one
        with a single stride. Raises `ParseError`."""
        return PartialLayout(*parse_trees(text, _unknown))

    def modes(self, dimension: int) -> tuple[Mode, ...]:
        """The flat modes of one tensor dimension, fastest first."""
        return self._dims[dimension]

    @property
    def dimensions(self) -> tuple[tuple[Mode, ...], ...]:
        """The flat modes of every tensor dimension."""
        return self._dims

    @property
    def extents(self) -> tuple[int, ...]:
        """The size of every tensor dimension."""
        return tuple([product(tuple([m.extent for m in modes])) for modes in self._dims])

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(product(self.extents))

    @property
    def is_known(self) -> bool:
        """Whether no stride is unknown."""
        return all(type(m.stride) is int for modes in self._dims for m in modes)

    def admits(self, layout: Layout) -> bool:
        """Whether `layout`, a function of the same tensor, belongs to the set: known strides kept,
        and additive over the modes. Exact, by its function table.

        >>> PartialLayout.parse("((8,8),64):((1,D1),D2)").admits(Layout((64, 64), (1, 64)))
        True
        """
        extents = self.extents
        whole = type(self.shape) is not tuple
        mine = (layout.size,) if whole else tuple([mode.size for mode in layout])
        if mine != extents:
            raise CongruenceError(
                f"{layout} has the dimensions {spell(mine)}, {self} has {spell(extents)}"
            )
        dims = [layout] if whole else list(layout)
        return all(_admits(modes, dim) for modes, dim in zip(self._dims, dims, strict=True))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PartialLayout):
            return NotImplemented
        return bool(self.shape == other.shape and self.stride == other.stride)

    def __hash__(self) -> int:
        return hash((self.shape, self.stride))

    def __str__(self) -> str:
        return f"{spell(self.shape)}:{spell(self.stride)}"

    def __repr__(self) -> str:
        return f"PartialLayout({self})"


def _admits(modes: tuple[Mode, ...], dim: Layout) -> bool:
    table = values(dim)
    whole: list[Any] = [0]
    step = 1
    for extent, stride in modes:
        part = [table[k * step] for k in range(extent)]
        if extent > 1:
            try:
                fitted = merge_modes(*zip(*fit_modes(part), strict=True))
            except Misfit:
                return False
            if isinstance(stride, Unknown):
                if stride.linear and len(fitted) > 1:
                    return False
            elif fitted != [(extent, stride)]:
                return False
        whole = [a + b for b in part for a in whole]
        step *= extent
    return whole == table


def _unknown(name: str) -> Unknown:
    return Unknown(name.lstrip("~"), name.startswith("~"))


def _all_unknown(shape: Tree) -> Tree:
    if isinstance(shape, (tuple, list)):
        return tuple([_all_unknown(child) for child in shape])
    return None


def _collect(stride: Tree, names: set[str]) -> None:
    if isinstance(stride, (tuple, list)):
        for child in stride:
            _collect(child, names)
    elif isinstance(stride, (Unknown, str)):
        name = stride.name if isinstance(stride, Unknown) else stride.lstrip("~")
        if name in names:
            raise DomainError(
                f"the unknown {name} stands twice; every unknown is its own, so rename one"
            )
        names.add(name)


def _pair_up(shape: Tree, stride: Tree, fresh: Iterator[str]) -> tuple[Tree, Tree]:
    if isinstance(shape, (tuple, list)):
        if not isinstance(stride, (tuple, list)) or len(shape) != len(stride):
            raise CongruenceError(
                f"the strides {stride} are not congruent with the shape {spell(tuple(shape))}"
            )
        pairs = [_pair_up(s, d, fresh) for s, d in zip(shape, stride, strict=True)]
        return tuple([s for s, _ in pairs]), tuple([d for _, d in pairs])
    if isinstance(stride, (tuple, list)):
        raise CongruenceError(f"the strides {stride} are not congruent with the extent {shape}")
    extent = int(shape)
    if extent < 1:
        raise DomainError(f"a partial layout has extents >= 1, not {extent}")
    if stride is None:
        return extent, Unknown(next(fresh))
    if isinstance(stride, str):
        return extent, _unknown(stride)
    return extent, stride if isinstance(stride, Unknown) else int(stride)


def _gather(shape: Tree, stride: Tree, out: list[Mode]) -> None:
    if type(shape) is tuple:
        for s, d in zip(shape, stride, strict=True):
            _gather(s, d, out)
    else:
        out.append(Mode(shape, stride))
