"""`ComposedLayout`: c -> outer(offset + inner(c)), a swizzled layout when outer is a `Swizzle`.

Source: CuTe `layout_composed.hpp` (its definition).
"""

from __future__ import annotations

from typing import Any

from cute_layout.answers import answers
from cute_layout.errors import CongruenceError, ParseError
from cute_layout.layout import Layout, clean_crd
from cute_layout.measure import slice_and_offset
from cute_layout.swizzle import Swizzle
from cute_layout.table import offsets
from cute_layout.trees import Tree, has_none

__all__ = ["ComposedLayout", "parse"]


class ComposedLayout:
    """``outer o offset o layout``: evaluates to ``outer(offset + layout(c))``; frozen, hashable.

    Args:
        swizzle: the outer function, a `Swizzle` or a `Layout`.
        offset: an int added between the two, in elements.
        layout: the inner layout, which may be composed itself; it gives the domain, so shape, rank
            and slices are its own.

    >>> s = ComposedLayout(Swizzle(1, 0, 2), 0, Layout((4, 2), (1, 4)))
    >>> print(s, [s(i) for i in range(8)])
    Sw<1,0,2> o 0 o (4,2):(1,4) [0, 1, 2, 3, 5, 4, 7, 6]
    """

    __slots__ = ("_offsets", "layout", "offset", "swizzle")
    swizzle: Swizzle | Layout
    offset: int
    layout: Layout | ComposedLayout

    def __init__(
        self, swizzle: Swizzle | Layout, offset: int, layout: Layout | ComposedLayout
    ) -> None:
        if not isinstance(swizzle, (Swizzle, Layout)) or not isinstance(
            layout, (Layout, ComposedLayout)
        ):
            raise CongruenceError(
                f"ComposedLayout takes a Swizzle or Layout, an int and a layout; got "
                f"{type(swizzle).__name__}, {type(offset).__name__}, {type(layout).__name__}"
            )
        if isinstance(layout, Layout) and layout.is_coordinate:
            raise CongruenceError(f"{swizzle} takes offsets, and {layout} gives coordinates")
        put = object.__setattr__
        put(self, "swizzle", swizzle)
        put(self, "offset", int(offset))
        put(self, "layout", layout)
        put(self, "_offsets", None)

    _offsets: tuple[int, ...] | None

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"ComposedLayout is immutable; build a new one instead of setting {name}"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return ComposedLayout, (self.swizzle, self.offset, self.layout)

    def __call__(self, *crd: Tree) -> Any:
        point = clean_crd(crd[0] if len(crd) == 1 else crd)
        if has_none(point):
            if isinstance(self.layout, ComposedLayout):
                return ComposedLayout(self.swizzle, self.offset, self.layout(point))
            sub, moved = slice_and_offset(point, self.layout)
            return ComposedLayout(self.swizzle, self.offset + moved, sub)
        return self.swizzle(self.offset + self.layout(point))

    def __getitem__(self, mode: Any) -> ComposedLayout:
        """The layout of one mode, the others fixed at 0."""
        return ComposedLayout(self.swizzle, self.offset, self.layout[mode])

    def __len__(self) -> int:
        return len(self.layout)

    @property
    def shape(self) -> Tree:
        """The shape of the inner layout."""
        return self.layout.shape

    @property
    def size(self) -> Any:
        """The number of coordinates."""
        return self.layout.size

    def offsets(self) -> list[int]:
        """All values in colexicographic order."""
        if self._offsets is None:
            outer, move = self.swizzle, self.offset
            table = tuple([outer(move + v) for v in offsets(self.layout)])
            object.__setattr__(self, "_offsets", table)
        return list(self._offsets or ())

    @property
    def cosize(self) -> int:
        """The number of consecutive offsets from the least to the greatest value or 0."""
        table = self.offsets()
        if not table:
            return 0
        return max(0, *table) - min(0, *table) + 1

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ComposedLayout):
            return NotImplemented
        mine = (self.swizzle, self.offset, self.layout)
        return mine == (other.swizzle, other.offset, other.layout)

    def __hash__(self) -> int:
        return hash((self.swizzle, self.offset, self.layout))

    def __str__(self) -> str:
        inner = f"[{self.layout}]" if isinstance(self.layout, ComposedLayout) else self.layout
        return f"{self.swizzle} o {self.offset} o {inner}"

    def __repr__(self) -> str:
        return f"ComposedLayout({self})"

    def _repr_svg_(self) -> str | None:
        """Its picture, which Jupyter shows; None where it has too many cells for one."""
        from cute_layout.drawing import shown

        return shown(self)


@answers((str,))
def parse(text: str) -> Layout | Swizzle | ComposedLayout:
    """Read what ``str`` writes of a `Layout`, a `Swizzle` or a `ComposedLayout`.

    >>> parse("Sw<3,4,3> o 0 o (8,64):(64,1)").layout
    Layout((8,64):(64,1))

    Raises:
        ParseError: with the text and the place.
    """
    parts = text.split(" o ", 2)
    if len(parts) == 1:
        return Swizzle.parse(text) if "<" in text else Layout.parse(text)
    if len(parts) != 3:
        raise ParseError(f"cannot read {text!r}: expected 'outer o offset o layout'")
    try:
        offset = int(parts[1])
    except ValueError:
        raise ParseError(f"cannot read {text!r}: the offset {parts[1]!r} is no int") from None
    outer = Swizzle.parse(parts[0]) if "<" in parts[0] else Layout.parse(parts[0])
    inner = parse(parts[2].strip()[1:-1]) if parts[2].strip().startswith("[") else parse(parts[2])
    if isinstance(inner, Swizzle):
        raise ParseError(f"cannot read {text!r}: the innermost part must be a layout")
    return ComposedLayout(outer, offset, inner)
