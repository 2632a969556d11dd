"""`Layout`: a function from coordinates to offsets, f(c) = sum of digit(c) times stride.

Source: CuTe's layout definition (CUTLASS documentation, ``media/docs/cpp/cute/01_layout.md``). The
digits of an int are taken colexicographically over the flattened shape; the last digit is not
bounded, so a layout extends past its size along its last mode.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

from cute_layout.basis import Basis, dense, template_of
from cute_layout.errors import CongruenceError, DomainError, LayoutError
from cute_layout.text import parse_trees
from cute_layout.trees import (
    DEPTH,
    Tree,
    compact_major,
    crd2idx,
    flat,
    has_none,
    product,
    slice_trees,
    spell,
)

__all__ = ["Layout"]

_INT, _COORDINATE, _SYMBOLIC = 0, 1, 2


class Layout:
    """The layout ``shape:stride``; frozen, hashable, callable.

    Args:
        shape: an extent (int >= 0, or a symbolic extent) or a nested tuple of extents.
        stride: a congruent tree of strides: ints of any sign, basis strides (see `E`) or symbolic
            ones. Left out, the strides are compact and colexicographic.

    ``l(i)`` and ``l(i, j)`` evaluate (an int for int strides, a tuple of ints for basis strides);
    a coordinate may be nested like the shape, and an int may stand for any sub-tree. With `None` in
    it, the result is the sub-layout of the kept modes, without the offset of the fixed ones, as in
    CuTe: `slice_and_offset` gives both. ``l[k]`` is top-level mode k, ``l[j:k]`` several of them.

    Equality is of shape and stride; `equivalent` compares functions. A layout with an extent of 0
    is
    empty: size and cosize 0, no offsets, and evaluating it raises `DomainError`.

    >>> m = Layout(((2, 2), 8), ((1, 16), 2))
    >>> print(m, m(2, 4), m[0])
    ((2,2),8):((1,16),2) 24 (2,2):(1,16)

    Raises:
        CongruenceError: the stride's profile is not the shape's.
        DomainError: a negative extent.
    """

    __slots__ = (
        "_cosize",
        "_hash",
        "_kind",
        "_template",
        "flat_shape",
        "flat_stride",
        "shape",
        "size",
        "stride",
    )
    shape: Tree
    stride: Tree
    flat_shape: tuple[Any, ...]
    flat_stride: tuple[Any, ...]
    size: Any

    def __init__(self, shape: Tree, stride: Tree = None) -> None:
        shape = _clean(shape)
        stride = compact_major(shape) if stride is None else _clean(stride)
        shapes: list[Any] = []
        strides: list[Any] = []
        _zip_leaves(shape, stride, shapes, strides, shape, stride)
        _fill(self, shape, stride, tuple(shapes), tuple(strides))
        for s in shapes:
            if type(s) is int:
                if s < 0:
                    raise DomainError(
                        f"the shape {spell(shape)} has the negative extent {s}; extents are >= 0"
                    )
            elif type(s) is Basis:
                raise CongruenceError(f"the shape {spell(shape)} holds the basis stride {s}")
        if self._kind == _COORDINATE:
            for d in strides:
                if type(d) is not Basis and d != 0:
                    raise CongruenceError(
                        f"strides {spell(stride)} mix offsets and coordinates: {d} is no coordinate"
                    )
            _set_template(self, template_of(strides))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Layout is immutable; build a new one instead of setting {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("Layout is immutable")

    def __reduce__(self) -> tuple[Any, ...]:
        return Layout, (self.shape, self.stride)

    @staticmethod
    def parse(text: str) -> Layout:
        """Read a `text` as ``str`` writes it, ``((2,2),8):((1,16),2)``; raises `ParseError`."""
        return Layout(*parse_trees(text))

    def __call__(self, *crd: Tree) -> Any:
        point = crd[0] if len(crd) == 1 else crd
        if type(point) is int:
            if self._kind == _COORDINATE:
                return dense(self.at(point), self._template)
            return self.at(point)
        point = clean_crd(point)
        if has_none(point):
            kept, _ = slice_trees(point, self.shape, self.stride)
            return Layout(*kept)
        if self.size == 0:
            raise DomainError(f"the layout {self} is empty: it has no value at {spell(point)}")
        value = crd2idx(point, self.shape, self.stride)
        return dense(value, self._template) if self._kind == _COORDINATE else value

    def at(self, index: Any) -> Any:
        """The value at an int index as a ring element: an int, or a `Basis` for basis strides."""
        shapes, strides = self.flat_shape, self.flat_stride
        if self.size == 0:
            raise DomainError(f"the layout {self} is empty: it has no value at {index}")
        if not shapes:
            if index != 0:
                raise DomainError(f"the layout {self} has the one index 0, not {index}")
            return 0
        total: Any = 0
        for k in range(len(shapes) - 1):
            s = shapes[k]
            total = total + index % s * strides[k]
            index = index // s
        return total + index * strides[-1]

    def __getitem__(self, mode: Any) -> Layout:
        if type(mode) is slice:
            if type(self.shape) is not tuple:
                raise CongruenceError(f"the layout {self} has no tuple of modes to slice")
            return make(self.shape[mode], self.stride[mode])
        path = mode if type(mode) is tuple else (mode,)
        shape, stride = self.shape, self.stride
        for k in path:
            if type(shape) is not tuple:
                shape, stride = (shape,), (stride,)
            try:
                shape, stride = shape[k], stride[k]
            except (IndexError, TypeError):
                raise DomainError(f"the layout {self} has no mode {mode}") from None
        return make(shape, stride)

    def __len__(self) -> int:
        return len(self.shape) if type(self.shape) is tuple else 1

    def __iter__(self) -> Iterator[Layout]:
        if type(self.shape) is tuple:
            return iter([make(s, d) for s, d in zip(self.shape, self.stride, strict=True)])
        return iter([self])

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is Layout:
            return bool(self.shape == other.shape and self.stride == other.stride)
        return NotImplemented

    def __hash__(self) -> int:
        if self._hash is None:
            object.__setattr__(self, "_hash", hash((self.shape, self.stride)))
        return self._hash  # type: ignore[return-value]

    _hash: int | None
    _cosize: Any
    _kind: int
    _template: Any

    def __str__(self) -> str:
        return f"{spell(self.shape)}:{spell(self.stride)}"

    def __repr__(self) -> str:
        return f"Layout({self})"

    def _repr_svg_(self) -> str | None:
        """Its picture, which Jupyter shows; None where it has too many cells for one."""
        from cute_layout.drawing import shown

        return shown(self)

    @property
    def cosize(self) -> Any:
        """The number of consecutive offsets spanned: max - min + 1 (a product over coordinates)."""
        if self._cosize is None:
            object.__setattr__(self, "_cosize", _span(self))
        return self._cosize

    @property
    def is_coordinate(self) -> bool:
        """Whether the values are coordinates (some stride is a basis stride)."""
        return self._kind == _COORDINATE

    @property
    def is_symbolic(self) -> bool:
        """Whether some extent or stride is symbolic."""
        return self._kind == _SYMBOLIC

    @property
    def template(self) -> Any:
        """The profile of a coordinate value: None at a leaf, a tuple above; None for offsets."""
        return self._template


_SLOTS = vars(Layout)  # a slot's own setter is the fastest way past the frozen __setattr__
_set_shape = _SLOTS["shape"].__set__
_set_stride = _SLOTS["stride"].__set__
_set_flat_shape = _SLOTS["flat_shape"].__set__
_set_flat_stride = _SLOTS["flat_stride"].__set__
_set_size = _SLOTS["size"].__set__
_set_hash = _SLOTS["_hash"].__set__
_set_cosize = _SLOTS["_cosize"].__set__
_set_kind = _SLOTS["_kind"].__set__
_set_template = _SLOTS["_template"].__set__


def _fill(
    out: Layout, shape: Tree, stride: Tree, shapes: tuple[Any, ...], strides: tuple[Any, ...]
) -> None:
    """Set the slots of a new layout from trees whose leaves are already known."""
    size: Any = 1
    kind = _INT
    for s in shapes:
        size = size * s
        if type(s) is not int:
            kind = _SYMBOLIC
    for d in strides:
        if type(d) is not int:
            if type(d) is not Basis:
                kind = _SYMBOLIC
            elif kind == _INT:
                kind = _COORDINATE
    _set_shape(out, shape)
    _set_stride(out, stride)
    _set_flat_shape(out, shapes)
    _set_flat_stride(out, strides)
    _set_size(out, size)
    _set_hash(out, None)
    _set_cosize(out, None)
    _set_kind(out, kind)
    _set_template(out, None)


def make(shape: Tree, stride: Tree) -> Layout:
    """A layout from trees that are known to be clean and congruent (no checks)."""
    out = Layout.__new__(Layout)
    shapes = flat(shape)
    strides = flat(stride)
    _fill(out, shape, stride, shapes, strides)
    if out._kind == _COORDINATE:
        _set_template(out, template_of(strides))
    return out


def from_modes(modes: list[tuple[Any, Any]]) -> Layout:
    """The flat layout of ``(extent, stride)`` pairs: an int shape for one mode, ``1:0`` for
    none."""
    if len(modes) == 1:
        return make(*modes[0])
    if not modes:
        return make(1, 0)
    shapes, strides = zip(*modes, strict=True)
    return make(shapes, strides)


def join(layouts: list[Layout]) -> Layout:
    """The layout whose top-level modes are the given layouts."""
    for mode in layouts:
        if not isinstance(mode, Layout):
            raise CongruenceError(f"a mode is a layout, got {type(mode).__name__}")
    return make(tuple([a.shape for a in layouts]), tuple([a.stride for a in layouts]))


def _clean(tree: Tree, depth: int = 0) -> Tree:
    """The tree with lists as tuples and int-likes as ints; the tree itself where it is clean."""
    kind = type(tree)
    if kind is int:
        return tree
    if depth > DEPTH:
        raise DomainError(f"a tree nested in more than {DEPTH} pairs of parentheses")
    if kind is tuple:
        for child in tree:
            if type(child) is not int:
                return tuple([_clean(child, depth + 1) for child in tree])
        return tree
    if kind is Basis or getattr(kind, "__layout_extent__", False):
        return tree
    if kind is list:
        return tuple([_clean(child, depth + 1) for child in tree])
    try:
        return operator.index(tree)
    except TypeError:
        raise LayoutError(
            f"expected an int, a symbolic extent or a tuple of them, got {tree!r} of type "
            f"{kind.__name__}"
        ) from None


def clean_crd(tree: Tree, depth: int = 0) -> Tree:
    if tree is None:
        return None
    if depth > DEPTH:
        raise DomainError(f"a coordinate nested in more than {DEPTH} pairs of parentheses")
    if type(tree) in (tuple, list):
        return tuple([clean_crd(child, depth + 1) for child in tree])
    return _clean(tree)


def _zip_leaves(
    shape: Tree,
    stride: Tree,
    shapes: list[Any],
    strides: list[Any],
    whole: Tree,
    whole_stride: Tree,
) -> None:
    if type(shape) is tuple:
        if type(stride) is tuple and len(shape) == len(stride):
            for s, d in zip(shape, stride, strict=True):
                if type(s) is not tuple and type(d) is not tuple:
                    shapes.append(s)
                    strides.append(d)
                else:
                    _zip_leaves(s, d, shapes, strides, whole, whole_stride)
            return
    elif type(stride) is not tuple:
        shapes.append(shape)
        strides.append(stride)
        return
    raise CongruenceError(
        f"the stride {spell(whole_stride)} is not congruent with the shape {spell(whole)}; "
        f"give {spell(shape)} a stride with the same parentheses, not {spell(stride)}"
    )


def _span(layout: Layout) -> Any:
    if layout.size == 0:
        return 0
    if layout._kind != _COORDINATE:
        total: Any = 1
        for s, d in zip(layout.flat_shape, layout.flat_stride, strict=True):
            total = total + (s - 1) * (abs(d) if type(d) is int else d)
        return total
    extent: dict[tuple[int, ...], int] = {}
    for s, d in zip(layout.flat_shape, layout.flat_stride, strict=True):
        for path, c in d.terms if d else ():
            extent[path] = extent.get(path, 1) + (s - 1) * abs(c)
    return product(tuple(extent.values()))
