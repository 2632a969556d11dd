"""unify(C1, C2, ...) = the layouts that satisfy every Ci, as one partial layout, or the conflict.

Dimension by dimension the cuts of all constraints (products of leading extents) are merged into one
chain; then the strides that are known anywhere are put on the pieces. Two cuts p, q that do not
divide one another both cut a layout only inside one of its linear modes, so that mode reaches from
gcd(p, q) to lcm(p, q): such a piece has one stride (`Unknown.linear`). Whether the result has a
solution is decided by `solve.fill`. Source of the operation: the Hexcute paper, "Layout Constraint
Unification".
"""

from __future__ import annotations

import itertools
from math import gcd

from cute_layout.answers import answers
from cute_layout.errors import UnificationError
from cute_layout.layout import Layout
from cute_layout.partial import Mode, PartialLayout, Unknown
from cute_layout.solve import fill
from cute_layout.trees import Tree, spell

__all__ = ["is_satisfiable", "materialize", "unify"]


@answers((PartialLayout,))
def unify(*partials: PartialLayout) -> PartialLayout:
    """The partial layout admitted by all of `partials`, with every dimension flat.

    An unknown that stays whole keeps the name it has in the first constraint where the piece is
    unknown; the pieces of a split one get primes.

    >>> a = PartialLayout.parse("((8,8),64):((1,D1),D2)")
    >>> print(unify(a, PartialLayout.parse("((16,4),64):((D1,8),D2)")))
    ((8,2,4),64):((1,D1',8),D2)
    >>> unify(a, PartialLayout.parse("(64,(8,8)):(D1,(1,D2))"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    cute_layout.errors.UnificationError: no layout satisfies ((8,8),(8,8)):((1,D1),(1,D2')): ...

    Raises:
        UnificationError: different tensors, two different strides for one piece, or no bijection
            onto a contiguous range has the known strides.
    """
    if not partials:
        raise UnificationError("unify needs at least one partial layout")
    first = partials[0]
    for other in partials[1:]:
        if other.extents != first.extents or isinstance(other.shape, tuple) != isinstance(
            first.shape, tuple
        ):
            raise UnificationError(
                f"{first} and {other} are not of one tensor: {spell(first.extents)} and "
                f"{spell(other.extents)}"
            )
    names = _Names()
    dims = [
        _merge([p.modes(k) for p in partials], partials, k, names)
        for k in range(len(first.extents))
    ]
    result = _assemble(dims, isinstance(first.shape, tuple))
    fill(result)
    return result


@answers((PartialLayout,))
def materialize(partial: PartialLayout) -> Layout:
    """A bijection onto a contiguous range that `partial` admits, coalesced in every dimension.

    The gaps below and between the known strides are filled with the unknown modes in mode order
    (each split as far as needed), and what remains continues above them. With nothing known the
    result is the compact column-major layout.

    >>> print(materialize(PartialLayout.parse("((8,2,4),64):((1,D1,8),D2)")))
    ((8,2,4),64):((1,32,8),64)

    Raises:
        UnificationError: there is none; the message names the modes in conflict.
    """
    shapes: list[Tree] = []
    strides: list[Tree] = []
    for modes in fill(partial):
        shapes.append(tuple([s for s, _ in modes]) if len(modes) != 1 else modes[0][0])
        strides.append(tuple([d for _, d in modes]) if len(modes) != 1 else modes[0][1])
    if not isinstance(partial.shape, tuple):
        return Layout(shapes[0], strides[0])
    return Layout(tuple(shapes), tuple(strides))


@answers((PartialLayout,))
def is_satisfiable(partial: PartialLayout) -> bool:
    """Whether some bijection onto a contiguous range is admitted by `partial`.

    >>> is_satisfiable(PartialLayout.parse("((8,8),(8,8)):((1,D1),(1,D2))"))
    False
    """
    try:
        fill(partial)
    except UnificationError:
        return False
    return True


def _assemble(dims: list[list[Mode]], nested: bool) -> PartialLayout:
    shape: list[Tree] = []
    stride: list[Tree] = []
    for modes in dims:
        shape.append(tuple([m.extent for m in modes]) if len(modes) > 1 else modes[0].extent)
        stride.append(tuple([m.stride for m in modes]) if len(modes) > 1 else modes[0].stride)
    return (
        PartialLayout(tuple(shape), tuple(stride)) if nested else PartialLayout(shape[0], stride[0])
    )


class _Names:
    """Distinct names for the unknowns of the result."""

    def __init__(self) -> None:
        self.used: set[str] = set()

    def take(self, name: str, whole: bool) -> str:
        if not whole:
            name += "'"
        while name in self.used:
            name += "'"
        self.used.add(name)
        return name


def _merge(
    sides: list[tuple[Mode, ...]],
    partials: tuple[PartialLayout, ...],
    dimension: int,
    names: _Names,
) -> list[Mode]:
    """The common refinement of one dimension with every known stride on it."""
    pieces = _pieces(sides)
    out: list[Mode] = []
    for low, high, linear in pieces:
        known: dict[int, PartialLayout] = {}
        label: tuple[str, bool] | None = None
        for side, partial in zip(sides, partials, strict=True):
            at = 1
            for extent, stride in side:
                if max(at, low) < min(at * extent, high):
                    if isinstance(stride, Unknown):
                        linear = linear or stride.linear
                        label = label or (stride.name, at == low and at * extent == high)
                    elif stride * low % at:
                        raise UnificationError(
                            f"dimension {dimension}: one stride from {low} to {high} gives no "
                            f"whole offset "
                            f"for {extent}:{stride} of {partial}"
                        )
                    else:
                        known.setdefault(stride * low // at, partial)
                at *= extent
        if len(known) > 1:
            (d, p), (e, q) = list(known.items())[:2]
            raise UnificationError(
                f"dimension {dimension}, extent {high // low} after {low}: {p} wants stride {d}, "
                f"{q} wants {e}"
            )
        if known:
            out.append(Mode(high // low, next(iter(known))))
        else:
            name, whole = label or ("D1", True)
            out.append(Mode(high // low, Unknown(names.take(name, whole), linear)))
    return out or [Mode(1, 0)]


def _pieces(sides: list[tuple[Mode, ...]]) -> list[tuple[int, int, bool]]:
    """The intervals between consecutive cuts as (low, high, must have one stride)."""
    cuts: set[int] = set()
    linear: list[tuple[int, int]] = []
    for side in sides:
        at = 1
        for extent, stride in side:
            if isinstance(stride, Unknown) and stride.linear:
                linear.append((at, at * extent))
            cuts.add(at)
            at *= extent
        cuts.add(at)
    chain = sorted(cuts)
    k = 1
    while k < len(chain):
        low, high = chain[k - 1], chain[k]
        if high % low:
            least = low * high // gcd(low, high)
            linear.append((gcd(low, high), least))
            chain = sorted({*chain, gcd(low, high), least} - {low, high})
            k = 1
        else:
            k += 1
    merged = _join(linear)
    chain = [c for c in chain if not any(low < c < high for low, high in merged)]
    return [(low, high, (low, high) in merged) for low, high in itertools.pairwise(chain)]


def _join(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Overlapping linear spans are one linear span."""
    out: list[tuple[int, int]] = []
    for low, high in sorted(spans):
        if out and low < out[-1][1]:
            out[-1] = (out[-1][0], max(high, out[-1][1]))
        else:
            out.append((low, high))
    return out
