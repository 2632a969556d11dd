"""R = A o B: R(i) = A(B(i)) for every i < size(B), with R compatible with B, or a refusal.

A splits an offset into digits over its extents. Along one leaf s:d of B the digits of c*d grow
linearly until one of them reaches its extent; there the leaf splits. Two facts make the result
exact: if the greatest digits of all pieces together still fit every extent, no carry ever happens,
and if they do not, the only candidate left is the one read from the function table (see `fitting`).
Source of the operation: CuTe, ``02_layout_algebra.md``, "Composition".
"""

from __future__ import annotations

from typing import Any, Union

from cute_layout.basis import Basis
from cute_layout.coalesce import extent_modes
from cute_layout.composed import ComposedLayout
from cute_layout.errors import CongruenceError, DivisibilityError, DomainError, UnsupportedError
from cute_layout.fitting import Misfit, fit_modes
from cute_layout.layout import Layout, join, make
from cute_layout.swizzle import Swizzle
from cute_layout.table import values
from cute_layout.trees import unflatten

__all__ = ["TABLE_LIMIT", "Tiler", "composition"]

TABLE_LIMIT = 1 << 18
"""Carries in a composition of more than this many points are refused instead of tabulated."""

Tiler = Union[Layout, int, None, "tuple[Tiler, ...]"]


def composition(a: Any, b: Any, strict: bool = False) -> Any:
    """The layout R with ``R(i) = A(B(i))`` for all i < size(B), compatible with B.

    Args:
        a: a `Layout`, `ComposedLayout` or `Swizzle`. A layout extends past its size along its last
            mode, as in evaluation.
        b: a `Layout`; or a tiler, a tuple with one entry per mode of `a` (a layout, a tuple for a
            nested mode, an int N for ``N:1``, None to keep the mode; missing entries keep theirs);
            or a `ComposedLayout` or `Swizzle`. Coordinate strides in `b` address the modes of `a`.
        strict: refuse values of `b` outside ``0 <= v < size(a)``.

    >>> print(composition(Layout((6, 2), (8, 2)), Layout((4, 3), (3, 1))))
    ((2,2),3):((24,2),8)
    >>> print(composition(Layout((12, (4, 8)), (59, (13, 1))), (Layout(3, 4), Layout(8, 2))))
    (3,(2,4)):(236,(26,1))

    Raises:
        DivisibilityError: no layout compatible with B is this function; the witness shows where.
        DomainError: `strict` and B leaves A's domain; or A is empty and B is not.
        CongruenceError: a tiler has more entries than A has modes.
        UnsupportedError: digits carry in more than `TABLE_LIMIT` points.
    """
    if type(b) is Layout:
        if type(a) is Layout:
            return _compose(a, b, strict)
        if isinstance(a, ComposedLayout):
            return ComposedLayout(a.swizzle, a.offset, composition(a.layout, b, strict))
        return ComposedLayout(a, 0, b)
    if b is None:
        return a
    if isinstance(a, ComposedLayout):
        return ComposedLayout(a.swizzle, a.offset, composition(a.layout, b, strict))
    if isinstance(b, Swizzle):
        raise DomainError(f"{a} o {b} has no domain; compose {b} with a layout first")
    if isinstance(b, (tuple, list)):
        if not isinstance(a, Layout):
            raise CongruenceError(f"{a} has no modes to compose with a tuple")
        if len(b) > len(a):
            raise CongruenceError(
                f"the tiler has {len(b)} entries, the layout {a} has {len(a)} modes"
            )
        parts = [
            composition(mode, b[k] if k < len(b) else None, strict) for k, mode in enumerate(a)
        ]
        return join(parts)
    if isinstance(b, ComposedLayout):
        if strict and isinstance(a, Layout):
            _check_values(a, b)
        if _is_identity(a):
            return b
        return ComposedLayout(a, 0, b)
    return composition(a, Layout(b), strict)


def _is_identity(a: Any) -> bool:
    """Whether a returns every int as it is."""
    if isinstance(a, Swizzle):
        return a.bits == 0
    modes = extent_modes(a.shape, a.stride)
    return len(modes) == 1 and bool(modes[0][1] == 1)


def _compose(a: Layout, b: Layout, strict: bool) -> Layout:
    if a.size == 0 and b.size != 0:
        raise DomainError(f"the layout {a} is empty: it has no values to compose with {b}")
    if b.size == 0:
        return make(b.shape, unflatten([0] * len(b.flat_shape), b.shape))
    if strict:
        _check_domain(a, b)
    if not b.is_coordinate:
        modes = extent_modes(a.shape, a.stride)
        if len(modes) == 1:
            delta = modes[0][1]
            if delta == 1:
                return b
            return make(b.shape, unflatten([d * delta for d in b.flat_stride], b.shape))
    digits = _Digits(a, b)
    leaves: list[list[tuple[Any, Any]]] = []
    room = list(digits.caps)
    for s, d in zip(b.flat_shape, b.flat_stride, strict=True):
        if s == 1 or d == 0:
            leaves.append([(s, 0)])
            continue
        pieces: list[tuple[Any, Any]] = []
        while True:
            e = digits.of(d)
            run = digits.fitting(s, e)
            if s % run:
                return _tabulate(digits, a, b)
            for j in digits.bounded:
                room[j] -= (run - 1) * e[j]
            _append(pieces, run, digits.value(e))
            if run == s:
                break
            s //= run
            d = d * run
        leaves.append(pieces)
    for j in digits.bounded:
        if room[j] <= 0:
            return _tabulate(digits, a, b)
    return _assemble(b, leaves)


def _append(pieces: list[tuple[Any, Any]], s: Any, d: Any) -> None:
    if pieces and d == pieces[-1][0] * pieces[-1][1]:
        pieces[-1] = (pieces[-1][0] * s, pieces[-1][1])
    else:
        pieces.append((s, d))


def _assemble(b: Layout, leaves: list[list[tuple[Any, Any]]]) -> Layout:
    shapes: list[Any] = []
    strides: list[Any] = []
    for pieces in leaves:
        if len(pieces) == 1:
            shapes.append(pieces[0][0])
            strides.append(pieces[0][1])
        else:
            shapes.append(tuple([s for s, _ in pieces]))
            strides.append(tuple([d for _, d in pieces]))
    return make(unflatten(shapes, b.shape), unflatten(strides, b.shape))


class _Digits:
    """The digits of B's values over A's extents: one group of modes for each coordinate B gives."""

    def __init__(self, a: Layout, b: Layout) -> None:
        paths = {p for d in b.flat_stride if type(d) is Basis for p, _ in d.terms} or {()}
        self.groups: list[tuple[tuple[int, ...], list[tuple[Any, Any]]]] = []
        self.caps: list[Any] = []
        self.bounded: list[int] = []
        for path in sorted(paths):
            mode = a[path] if path else a
            modes = extent_modes(mode.shape, mode.stride)
            self.groups.append((path, modes))
            self.bounded.extend(range(len(self.caps), len(self.caps) + len(modes) - 1))
            self.caps.extend(s for s, _ in modes)
        self.deltas = [d for _, modes in self.groups for _, d in modes]

    def of(self, value: Any) -> list[Any]:
        """The digit of `value` for every mode; the last of a group is unbounded and may be
        negative."""
        out: list[Any] = []
        terms: dict[Any, Any] = dict(value.terms) if type(value) is Basis else {(): value}
        for path, modes in self.groups:
            rest = terms.get(path, 0)
            for s, _ in modes[:-1]:
                out.append(rest % s)
                rest = rest // s
            out.append(rest)
        return out

    def value(self, digits: list[Any]) -> Any:
        total: Any = 0
        for e, delta in zip(digits, self.deltas, strict=True):
            if e:
                total = total + e * delta
        return total

    def fitting(self, extent: Any, e: list[Any]) -> Any:
        """How many multiples of a stride with the digits `e`, from 0 on, have digits that all fit;
        at most `extent`."""
        run = extent
        for j in self.bounded:
            if e[j] and e[j] * (run - 1) >= self.caps[j]:
                run = (self.caps[j] + e[j] - 1) // e[j]
        return run

    def apply(self, value: Any) -> Any:
        """A at a value of B."""
        return self.value(self.of(value))


def _tabulate(digits: _Digits, a: Layout, b: Layout) -> Layout:
    """Decide by the function table; every leaf of R is determined by its own values."""
    if a.is_symbolic or b.is_symbolic:
        raise UnsupportedError(f"digits carry in {a} o {b}, and symbolic sizes have no table")
    if b.size > TABLE_LIMIT:
        _refuse_early(digits, a, b)
        raise UnsupportedError(
            f"digits carry in {a} o {b}, whose {b.size} points exceed the table limit of "
            f"{TABLE_LIMIT}"
        )
    leaves: list[list[tuple[Any, Any]]] = []
    step = 1
    for s, d in zip(b.flat_shape, b.flat_stride, strict=True):
        if s == 1 or d == 0:
            leaves.append([(s, 0)])
        else:
            try:
                leaves.append(fit_modes([digits.apply(c * d) for c in range(s)]) or [(s, 0)])
            except Misfit as no:
                i = no.index * step
                raise DivisibilityError(
                    f"{a} o {b} is not a layout compatible with {b.shape}: "
                    f"mode {s}:{d} does not divide",
                    witness=f"i={i}: A(B(i))={digits.apply(no.index * d)}, R(i)={no.expected}",
                ) from None
        step *= s
    result = _assemble(b, leaves)
    for i, (x, r) in enumerate(zip(values(b), values(result), strict=True)):
        if digits.apply(x) != r:
            raise DivisibilityError(
                f"{a} o {b} is not a layout compatible with {b.shape}: "
                "its modes carry into each other",
                witness=f"i={i}: A(B(i))={digits.apply(x)}, R(i)={r}",
            )
    return result


def _refuse_early(digits: _Digits, a: Layout, b: Layout) -> None:
    """Refuse with a witness that needs no table, where there is one.

    A leaf's longest linear run is a mode of every candidate, so it must divide the leaf; and the
    value at the last point must be the sum of the leaves' last values.
    """
    step = 1
    for s, d in zip(b.flat_shape, b.flat_stride, strict=True):
        rest, at, jump = s, d, step
        while d != 0:
            run = digits.fitting(rest, digits.of(at))
            expected = run * digits.apply(at)
            if run == rest or digits.apply(run * at) == expected:
                break
            if rest % run:
                raise DivisibilityError(
                    f"{a} o {b} is not a layout compatible with {b.shape}: "
                    f"mode {s}:{d} does not divide",
                    witness=f"i={run * jump}: A(B(i))={digits.apply(run * at)}, R(i)={expected}",
                )
            rest, at, jump = rest // run, at * run, jump * run
        step *= s
    last: Any = 0
    summed: Any = 0
    for s, d in zip(b.flat_shape, b.flat_stride, strict=True):
        last = last + (s - 1) * d
        summed = summed + digits.apply((s - 1) * d)
    if digits.apply(last) != summed:
        raise DivisibilityError(
            f"{a} o {b} is not a layout compatible with {b.shape}: its modes carry into each other",
            witness=f"i={b.size - 1}: A(B(i))={digits.apply(last)}, R(i)={summed}",
        )


def _check_values(a: Layout, b: ComposedLayout) -> None:
    for i, v in enumerate(b.offsets()):
        if not 0 <= v < a.size:
            raise DomainError(f"{b} leaves the domain of {a}", witness=f"i={i}: B(i)={v}")


def _check_domain(a: Layout, b: Layout) -> None:
    low: dict[Any, int] = {}
    high: dict[Any, int] = {}
    for s, d in zip(b.flat_shape, b.flat_stride, strict=True):
        for path, c in d.terms if type(d) is Basis else (((), d),):
            side = high if c > 0 else low
            side[path] = side.get(path, 0) + (s - 1) * c
    for path in {**low, **high}:
        mode = a[path] if path else a
        for bound in (low.get(path, 0), high.get(path, 0)):
            if not 0 <= bound < mode.size:
                raise DomainError(
                    f"{b} leaves the domain of {mode}: the value {bound} is not in [0, {mode.size})"
                )
