"""Linear layouts over F2: each bit of each input flips a fixed set of output bits.

A layout with power-of-two extents is linear exactly when no two of its basis values share a bit
(only then is adding them XOR); a swizzle is linear by itself. Source: Triton's `LinearLayout` (its
definition and its printed form).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from cute_layout.answers import ANY, answers
from cute_layout.basis import Basis, E
from cute_layout.composed import ComposedLayout
from cute_layout.errors import (
    CongruenceError,
    DivisibilityError,
    DomainError,
    ParseError,
    UnsupportedError,
)
from cute_layout.layout import Layout, make
from cute_layout.swizzle import Swizzle

__all__ = ["LinearLayout", "from_linear_layout", "to_linear_layout"]

_BASIS = re.compile(r"(?:- )?(\w+)=(\d+) -> \(([-\d, ]+)\)$")
_SIZE_ONE = re.compile(r"- (\w+) is a size 1 dimension$")
_OUT = re.compile(r"(\w+) \(size (\d+)\)")


class LinearLayout:
    """Bases by input dimension name; frozen and hashable.

    Args:
        bases: for each input dimension, the outputs of its bits 1, 2, 4, ..., each one int an
            output dimension.
        out_dims: the output dimensions' names and sizes (powers of two).

    Raises:
        DomainError: an output outside its dimension, or a size that is no power of two.
        CongruenceError: an output with the wrong number of entries.
    """

    __slots__ = ("bases", "out_dims")
    bases: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...]
    out_dims: tuple[tuple[str, int], ...]

    @answers(ANY, (dict,), (dict, type(None)), (bool,))
    def __init__(
        self, bases: Mapping[str, Sequence[Sequence[int]]], out_dims: Mapping[str, int]
    ) -> None:
        outs = tuple(out_dims.items())
        for name, size in outs:
            if size < 1 or size & (size - 1):
                raise DomainError(f"the output dimension {name} has size {size}, no power of two")
        for name, rows in bases.items():
            for row in rows:
                if len(row) != len(outs):
                    raise CongruenceError(
                        f"{name} has the basis {tuple(row)}, but there are {len(outs)} outputs"
                    )
                for v, (out, size) in zip(row, outs, strict=True):
                    if not 0 <= v < size:
                        raise DomainError(
                            f"{name} has the basis {tuple(row)}: {v} is outside {out}"
                        )
        frozen = tuple((n, tuple(tuple(row) for row in rows)) for n, rows in bases.items())
        object.__setattr__(self, "bases", frozen)
        object.__setattr__(self, "out_dims", outs)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"LinearLayout is immutable; build a new one instead of setting {name}"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return LinearLayout, (dict(self.bases), dict(self.out_dims))

    @staticmethod
    def parse(text: str) -> LinearLayout:
        """Read a `text` as ``str`` writes it, the form in which Triton prints a linear layout.

        Raises:
            ParseError: a line that is no basis, or bases out of order.
        """
        bases: dict[str, list[tuple[int, ...]]] = {}
        out_dims: dict[str, int] = {}
        for line in filter(None, map(str.strip, text.splitlines())):
            basis = _BASIS.match(line)
            alone = _SIZE_ONE.match(line)
            if basis:
                rows = bases.setdefault(basis[1], [])
                if int(basis[2]) != 1 << len(rows):
                    raise ParseError(f"expected {basis[1]}={1 << len(rows)}, found {line!r}")
                rows.append(tuple(int(v) for v in basis[3].split(",")))
            elif alone:
                bases[alone[1]] = []
            elif line.startswith("where out dims are: ["):
                out_dims = {name: int(size) for name, size in _OUT.findall(line)}
            else:
                raise ParseError(f"cannot read {line!r} as a line of a linear layout")
        return LinearLayout(bases, out_dims)

    def __call__(self, **inputs: int) -> dict[str, int]:
        """The outputs by name: the XOR of the bases of all set input bits."""
        out = [0] * len(self.out_dims)
        known = dict(self.bases)
        for name, value in inputs.items():
            if name not in known or not 0 <= value < 1 << len(known[name]):
                raise DomainError(f"{name}={value} is outside {[f'{n}' for n in known]}")
            for k, row in enumerate(known[name]):
                if value >> k & 1:
                    out = [a ^ b for a, b in zip(out, row, strict=True)]
        return dict(zip([n for n, _ in self.out_dims], out, strict=True))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LinearLayout):
            return NotImplemented
        return self.bases == other.bases and self.out_dims == other.out_dims

    def __hash__(self) -> int:
        return hash((self.bases, self.out_dims))

    def __str__(self) -> str:
        lines: list[str] = []
        for name, rows in self.bases:
            if not rows:
                lines.append(f" - {name} is a size 1 dimension")
            for k, row in enumerate(rows):
                lead = " - " if k == 0 else "   "
                lines.append(f"{lead}{name}={1 << k} -> ({', '.join(map(str, row))})")
        outs = ", ".join(f"{n} (size {s})" for n, s in self.out_dims)
        return "\n".join([*lines, f"where out dims are: [{outs}]"])

    def __repr__(self) -> str:
        return f"LinearLayout({dict(self.bases)}, {dict(self.out_dims)})"


def _bits(extent: Any, what: Any) -> int:
    if type(extent) is not int or extent < 1 or extent & (extent - 1):
        raise DivisibilityError(f"{what} has the extent {extent}, which is no power of two")
    return extent.bit_length() - 1


@answers((Layout, ComposedLayout), (list, tuple, type(None)), (dict, type(None)))
def to_linear_layout(
    layout: Layout | ComposedLayout,
    names: Sequence[str] | None = None,
    out_dims: Mapping[str, int] | None = None,
) -> LinearLayout:
    """The F2 bases of a layout, one input dimension a top-level mode.

    Args:
        layout: power-of-two extents. Basis strides ``c@k`` give output dimension k.
        names: the input dimensions, fastest mode first; by default ``dim0, dim1, ...`` (for two
            modes ``lane, register``, as for a thread-value layout).
        out_dims: names and sizes of the outputs; by default ``offset``, or ``dim0, dim1, ...``,
            with the least powers of two that hold all values.

    >>> print(to_linear_layout(Layout(((4, 8), 2), ((2 * E(1), E(0)), E(1)))))
     - lane=1 -> (0, 2)
       lane=2 -> (0, 4)
       lane=4 -> (1, 0)
       lane=8 -> (2, 0)
       lane=16 -> (4, 0)
     - register=1 -> (0, 1)
    where out dims are: [dim0 (size 8), dim1 (size 8)]

    Raises:
        DivisibilityError: an extent is no power of two, or the values carry where F2 would XOR.
        UnsupportedError: a swizzled layout with an offset (affine, not linear).
    """
    swizzle: Swizzle | None = None
    plain: Any = layout
    if isinstance(layout, ComposedLayout):
        if not isinstance(layout.swizzle, Swizzle) or layout.offset:
            raise UnsupportedError(f"{layout} is not linear: only a swizzle at offset 0 is")
        swizzle, plain = layout.swizzle, layout.layout
    modes = list(plain) if isinstance(plain, Layout) else []
    if not modes:
        raise UnsupportedError(f"{layout} is no swizzle of a plain layout")
    if names is None:
        default = ("lane", "register") if len(modes) == 2 else None
        names = default or [f"dim{k}" for k in range(len(modes))]
    if len(names) != len(modes):
        raise CongruenceError(f"{layout} has {len(modes)} modes, and {len(names)} names were given")
    width = _width(plain)
    rows: dict[str, list[tuple[int, ...]]] = {}
    seen = [0] * width
    for name, mode in zip(names, modes, strict=True):
        rows[name] = []
        for s, d in zip(mode.flat_shape, mode.flat_stride, strict=True):
            for k in range(_bits(s, layout)):
                row = _row(d * (1 << k), width)
                for j, v in enumerate(row):
                    if v < 0 or v & seen[j]:
                        raise DivisibilityError(
                            f"{layout} is not linear over F2: bit {k} of mode {s}:{d} of {name} "
                            "carries into another"
                        )
                    seen[j] |= v
                rows[name].append(tuple(swizzle(v) for v in row) if swizzle else row)
    if out_dims is None:
        tops = [max([r[j] for rs in rows.values() for r in rs], default=0) for j in range(width)]
        keys = [f"dim{j}" for j in range(width)] if plain.is_coordinate else ["offset"]
        out_dims = {key: 1 << top.bit_length() for key, top in zip(keys, tops, strict=True)}
    return LinearLayout(rows, out_dims)


def _width(layout: Layout) -> int:
    if not layout.is_coordinate:
        return 1
    template = layout.template
    if type(template) is not tuple or any(child is not None for child in template):
        raise UnsupportedError(
            f"{layout} gives nested coordinates; linear layouts have flat outputs"
        )
    return len(template)


def _row(value: Any, width: int) -> tuple[int, ...]:
    if type(value) is Basis:
        terms = dict(value.terms)
        return tuple(terms.get((k,), 0) for k in range(width))
    return (value,) * width if value else (0,) * width


@answers((LinearLayout,))
def from_linear_layout(linear: LinearLayout) -> Layout | ComposedLayout:
    """The layout with these bases: one top-level mode an input dimension.

    One output dimension gives offsets, several give coordinates (``1@0, 1@1, ...``). Bases that
    share bits are no layout; for one output dimension a swizzle that separates them is looked for.

    >>> text = to_linear_layout(Layout(((4, 8), 2), ((2 * E(1), E(0)), E(1))))
    >>> print(from_linear_layout(text))
    ((4,8),2):((2@1,1@0),1@1)

    Raises:
        UnsupportedError: the map is linear, but no (swizzled) layout.
    """
    rows = dict(linear.bases)
    plain = _plain(rows, len(linear.out_dims))
    if plain is not None:
        return plain
    if len(linear.out_dims) == 1:
        bits = linear.out_dims[0][1].bit_length() - 1
        for count in range(1, bits // 2 + 1):
            for base in range(bits - 2 * count, -1, -1):
                for shift in range(count, bits - count - base + 1):
                    for swizzle in (Swizzle(count, base, shift), Swizzle(count, base, -shift)):
                        straight = {n: [(swizzle(r[0]),) for r in rs] for n, rs in rows.items()}
                        inner = _plain(straight, 1)
                        if inner is not None:
                            return ComposedLayout(swizzle, 0, inner)
    raise UnsupportedError(f"the bases share bits, so this is no layout:\n{linear}")


def _plain(rows: Mapping[str, Sequence[tuple[int, ...]]], width: int) -> Layout | None:
    """The layout of bases that share no bits."""
    seen = [0] * width
    shapes: list[Any] = []
    strides: list[Any] = []
    for bases in rows.values():
        modes: list[tuple[int, Any]] = []
        for row in bases:
            if any(v & s for v, s in zip(row, seen, strict=True)):
                return None
            seen = [v | s for v, s in zip(row, seen, strict=True)]
            value: Any = row[0]
            if width > 1:
                value = sum((v * E(k) for k, v in enumerate(row) if v), Basis([])) or 0
            if modes and value == modes[-1][0] * modes[-1][1]:
                modes[-1] = (modes[-1][0] * 2, modes[-1][1])
            else:
                modes.append((2, value))
        modes = modes or [(1, 0)]
        shapes.append(modes[0][0] if len(modes) == 1 else tuple(s for s, _ in modes))
        strides.append(modes[0][1] if len(modes) == 1 else tuple(d for _, d in modes))
    return make(tuple(shapes), tuple(strides))
