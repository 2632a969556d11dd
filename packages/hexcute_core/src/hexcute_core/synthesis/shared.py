"""Shared memory `M = S o m`.

Every copy demands that `m` maps its run to consecutive offsets: a partial layout with the run's
strides known and the rest free. Unification merges the demands of all copies of a buffer,
materialization fills the gaps with a bijection, and the swizzle S is chosen for all copies
together. Free strides may be given out in any order: dimension by dimension, or first to the
digits along which a warp's lanes lie; the order with the fewest wavefronts wins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import combinations, permutations
from math import prod
from typing import NamedTuple

from cute_layout import (
    Layout,
    LayoutError,
    PartialLayout,
    Swizzle,
    Unknown,
    materialize,
    unify,
)
from hexcute_core.arch import Mode
from hexcute_core.arch.groups import WARP
from hexcute_core.synthesis.conflicts import Access, choose, swizzles
from hexcute_core.synthesis.named_shared import named_layout, refused
from hexcute_core.synthesis.operands import Known, Plan, demand, swizzle_of
from hexcute_core.synthesis.parts import Begins, misfit
from hexcute_core.synthesis.solution import BulkPlan, CopyPlan, Operand, SharedLayout
from hexcute_core.tile import SharedTensor, TileRef


@dataclass(frozen=True)
class SharedUse:
    """One operation's access to a buffer: its tile, where that may begin, its plan and how often
    its warps run it."""

    op: int
    ref: TileRef
    begins: Begins
    plan: Plan
    weight: float

    @property
    def span(self) -> int | None:
        """Bytes of the swizzle's span that hardware fixes, None where it is free."""
        return None if isinstance(self.plan, CopyPlan) else self.plan.span


class Piece(NamedTuple):
    """A mode of a tensor dimension: `extent` steps of `step`, at `stride` in memory if known."""

    dim: int
    step: int
    extent: int
    stride: int | Unknown


def constraint(tensor: SharedTensor, ref: TileRef, plan: Plan) -> PartialLayout | str:
    """The partial layout that `plan` for part `ref` demands of the tensor, a mode per dimension; or
    why none can be: the whole tensor is cut as the part is."""
    runs = isinstance(plan, CopyPlan)
    return _constraint(tensor.shape, ref.kept, _known(plan, tensor.dtype.bits), runs)


def _known(plan: Plan, bits: int) -> tuple[Known, ...]:
    """The strides that `plan` demands, over the tile's dimensions."""
    match plan:
        case BulkPlan() | Operand():
            return demand(plan, bits)
        case CopyPlan():
            out, stride = [], 1
            for mode in plan.run:
                out.append(Known(mode.dim, mode.step, mode.size, stride))
                stride *= mode.size
            return tuple(out)


@lru_cache(maxsize=4096)
def _constraint(
    extents: tuple[int, ...], kept: tuple[int, ...], demand: tuple[Known, ...], runs: bool
) -> PartialLayout | str:
    known: list[list[tuple[int, int, int]]] = [[] for _ in extents]
    for dim, step, size, stride in demand:
        if size > 1:
            known[kept[dim]].append((step, size, stride))
    shape, strides = [], []
    for dim, (extent, pieces) in enumerate(zip(extents, known)):
        sizes: list[int] = []
        steps: list[int | None] = []
        reached = 1
        for step, size, at in sorted(pieces):
            if step % reached:
                return f"runs cut dimension {dim} at {reached} and at {step}"
            if step > reached:
                sizes.append(step // reached)
                steps.append(None)
            if extent % (step * size) and not runs and extent % step == 0:
                # A box, or rows of a core, go on beyond the part as they began.
                size = extent // step
            sizes.append(size)
            steps.append(at)
            reached = step * size
        if extent % reached:
            return f"the extent {extent} of dimension {dim} is no multiple of runs of {reached}"
        if extent > reached or not sizes:
            sizes.append(extent // reached)
            steps.append(None)
        shape.append(tuple(sizes) if len(sizes) > 1 else sizes[0])
        strides.append(tuple(steps) if len(steps) > 1 else steps[0])
    return PartialLayout(tuple(shape), tuple(strides))


def synthesize_shared(tensor: SharedTensor, uses: Sequence[SharedUse]) -> SharedLayout | str:
    """The layout of `tensor` for all its uses, or why none satisfies them."""
    spans = {use.span for use in uses} - {None}
    if len(spans) > 1:
        return f"its uses want swizzles of {sorted(s or 0 for s in spans)} bytes"
    merged = _demanded(tensor, uses)
    if isinstance(merged, str):
        return merged
    if tensor.layout is not None:
        layout, swizzle = named_layout(tensor)
        plans = [(use.ref, use.begins, use.plan) for use in uses]
        wrong = refused(tensor, merged, plans, layout, swizzle)
        return wrong or _swizzled(tensor, uses, layout, swizzle)
    search = _Orders(tensor, uses, _pieces(merged))
    for order in search.plain():
        search.try_order(order)
    for order in search.by_lanes():
        search.try_order(order)
    return search.best if search.best is not None else search.reason


def _demanded(tensor: SharedTensor, uses: Sequence[SharedUse]) -> PartialLayout | str:
    """What all uses demand of the layout of `tensor` together, or why nothing meets it."""
    demands = tuple(dict.fromkeys(constraint(tensor, use.ref, use.plan) for use in uses))
    return unified(demands) if demands else PartialLayout(tensor.shape)


@lru_cache(maxsize=4096)
def unified(demands: tuple[PartialLayout | str, ...]) -> PartialLayout | str:
    """What all `demands` have in common, or why nothing does; a conflict of two is one of all."""
    possible = [demand for demand in demands if not isinstance(demand, str)]
    if len(possible) < len(demands):
        return next(demand for demand in demands if isinstance(demand, str))
    if len(demands) > 2:
        for pair in combinations(demands, 2):
            found = unified(pair)
            if isinstance(found, str):
                return found
    try:
        return unify(*possible)
    except LayoutError as error:
        return str(error)


def _pieces(merged: PartialLayout) -> list[Piece]:
    out = []
    for dim, modes in enumerate(merged.dimensions):
        step = 1
        for mode in modes:
            if mode.extent > 1:
                out.append(Piece(dim, step, mode.extent, mode.stride))
            step *= mode.extent
    return out


class _Orders:
    """Tries orders of giving out free strides, until one has no conflict."""

    def __init__(
        self, tensor: SharedTensor, uses: Sequence[SharedUse], pieces: Sequence[Piece]
    ) -> None:
        self.tensor, self.uses, self.pieces = tensor, uses, pieces
        self.best: SharedLayout | None = None
        self.reason = ""
        self._cost = float("inf")
        self._ideal = 0.0
        self._seen: set[Layout] = set()
        self._tiled = sorted({m for use in uses for m in use.ref.kept})
        bits = tensor.dtype.bits
        leading = [use.ref.kept[known[0].dim] for use in uses if (known := _known(use.plan, bits))]
        self._first = leading[0] if leading else (self._tiled[-1] if self._tiled else 0)
        self._outer = tuple(m for m in range(len(tensor.shape)) if m not in self._tiled)

    @property
    def done(self) -> bool:
        return self._cost <= self._ideal

    def try_order(self, order: Sequence[Piece]) -> None:
        """Keeps the layout of `order` if it is the best so far."""
        layout = _materialized(tuple(order), len(self.tensor.shape))
        if isinstance(layout, str):
            self.reason = self.reason or layout
            return
        if layout in self._seen:
            return
        self._seen.add(layout)
        for use in self.uses:
            if isinstance(use.plan, CopyPlan):
                continue
            wrong = misfit(layout, self.tensor, use.ref, use.begins, use.plan)
            if wrong is not None:
                self.reason = self.reason or wrong
                return
        candidate = _swizzled(self.tensor, self.uses, layout)
        cost = sum(use.weight * candidate.wavefronts[use.op][0] for use in self.uses)
        self._ideal = sum(use.weight * candidate.wavefronts[use.op][1] for use in self.uses)
        if cost < self._cost:
            self.best, self._cost = candidate, cost

    def plain(self) -> Iterator[list[Piece]]:
        """Tiled dimensions permuted, the leading one of a use first, the others last."""
        tiled = self._tiled
        orders = list(permutations(tiled)) if len(tiled) <= 3 else [tuple(tiled)]
        orders.sort(key=lambda p: (p[:1] != (self._first,), p))
        for p in orders:
            if self.done:
                return
            place = {dim: i for i, dim in enumerate((*p, *self._outer))}
            yield sorted(self.pieces, key=lambda piece: (place[piece.dim], piece.step))

    def by_lanes(self) -> Iterator[list[Piece]]:
        """The digits along which the lanes of a use with conflicts lie, before the rest."""
        rest = [m for m in self._tiled if m != self._first]
        place = {dim: i for i, dim in enumerate((self._first, *rest, *self._outer))}
        for use in self.uses:
            if self.done or not isinstance(use.plan, CopyPlan):
                continue
            if self.best is not None:
                waves, least = self.best.wavefronts[use.op]
                if waves == least:
                    continue
            lanes = tuple((use.ref.kept[m.dim], m.step, m.size) for m in _lanes(use.plan) if m.step)
            cut = self.pieces
            for dim, step, size in lanes:
                cut = _cut(_cut(cut, dim, step), dim, step * size)
            ranks = {
                (piece.dim, piece.step): i
                for i, (dim, step, size) in enumerate(lanes)
                for piece in cut
                if piece.dim == dim and step <= piece.step < step * size
            }
            # Lanes take the smallest free strides; or the leading dimension is finished first, so
            # that lanes lie a whole row apart.
            for whole_row in (-1, self._first):
                yield sorted(cut, key=partial(_rank, ranks, len(lanes), place, whole_row))


def _rank(
    lanes: Mapping[tuple[int, int], int],
    last: int,
    place: Mapping[int, int],
    whole_row: int,
    piece: Piece,
) -> tuple[int, int, int]:
    """Where `piece` stands: dimension `whole_row`, then the lanes' digits in their order, then the
    rest."""
    rank = -1 if piece.dim == whole_row else lanes.get((piece.dim, piece.step), last)
    return rank, place[piece.dim], piece.step


def _cut(pieces: Sequence[Piece], dim: int, at: int) -> list[Piece]:
    """`pieces` with a free one of dimension `dim` cut where its digit reaches `at`."""
    out: list[Piece] = []
    for p in pieces:
        free = isinstance(p.stride, Unknown) and not p.stride.linear
        inner, rest = divmod(at, p.step)
        if p.dim == dim and free and rest == 0 and 1 < inner < p.extent and p.extent % inner == 0:
            out.append(Piece(dim, p.step, inner, Unknown(f"{p.dim}_{p.step}")))
            out.append(Piece(dim, at, p.extent // inner, Unknown(f"{p.dim}_{at}")))
        else:
            out.append(p)
    return out


@lru_cache(maxsize=16384)
def _materialized(order: tuple[Piece, ...], rank: int) -> Layout | str:
    """The layout that gives out free strides in `order`, its modes back in their dimensions."""
    names = [
        Unknown(f"D{i}", p.stride.linear) if isinstance(p.stride, Unknown) else p.stride
        for i, p in enumerate(order)
    ]
    try:
        filled = materialize(
            PartialLayout(tuple(p.extent for p in order) or (1,), tuple(names) or (0,))
        )
    except LayoutError as error:
        return str(error)
    shapes: list[list[int]] = [[] for _ in range(rank)]
    strides: list[list[int]] = [[] for _ in range(rank)]
    parts = [filled[i] for i in range(len(order))]
    for piece, part in sorted(zip(order, parts), key=lambda item: item[0].step):
        shapes[piece.dim] += part.flat_shape
        strides[piece.dim] += part.flat_stride
    modes = [_coalesced(s, d) for s, d in zip(shapes, strides)]
    return Layout(tuple(s for s, _ in modes), tuple(d for _, d in modes))


def _coalesced(
    shapes: list[int], strides: list[int]
) -> tuple[int | tuple[int, ...], int | tuple[int, ...]]:
    """Adjacent modes merged where they chain; a single mode as a plain number."""
    out: list[tuple[int, int]] = []
    for size, stride in zip(shapes, strides):
        if out and stride == out[-1][0] * out[-1][1]:
            out[-1] = (out[-1][0] * size, out[-1][1])
        elif size > 1:
            out.append((size, stride))
    if not out:
        return 1, 0
    if len(out) == 1:
        return out[0]
    return tuple(n for n, _ in out), tuple(d for _, d in out)


def _swizzled(
    tensor: SharedTensor,
    uses: Sequence[SharedUse],
    layout: Layout,
    named: Swizzle | None = None,
) -> SharedLayout:
    """`layout` with the swizzle of the fewest wavefronts, or the one that hardware fixes or the
    author has `named`, and the counts of every use."""
    bits = tensor.dtype.bits
    fixed = next((use.span for use in uses if use.span is not None), None)
    kinds: dict[tuple[tuple[int, ...], int], float] = {}
    names: dict[int, tuple[tuple[int, ...], int]] = {}
    for use in uses:
        if isinstance(use.plan, CopyPlan):
            width = prod(m.size for m in use.plan.run) * bits
            name = (first_lanes(use.ref.kept, use.plan.thread, layout), width)
            names[use.op] = name
            kinds[name] = kinds.get(name, 0.0) + use.weight * use.plan.calls
    candidates: tuple[Swizzle, ...]
    if named is not None:
        candidates = (named,)
    elif fixed is not None:
        forced = swizzle_of(fixed, bits)
        candidates = (Swizzle(0, 0, 0) if forced is None else forced,)
    else:
        widest = max((width for _, width in kinds), default=bits) // bits
        candidates = swizzles(widest.bit_length() - 1, prod(tensor.shape), bits)
    accesses = [Access(starts, width, weight) for (starts, width), weight in kinds.items()]
    swizzle, found = choose(accesses, bits, candidates)
    by_name = dict(zip(kinds, found))
    counted = {use.op: (0, 0) for use in uses}
    for use in uses:
        if isinstance(use.plan, CopyPlan):
            waves, least = by_name[names[use.op]]
            counted[use.op] = (waves * use.plan.calls, least * use.plan.calls)
    return SharedLayout(tensor.shape, layout, swizzle if swizzle.bits else None, counted)


def _lanes(plan: CopyPlan) -> list[Mode]:
    """The thread digits of the first warp."""
    lanes: list[Mode] = []
    count = 1
    for mode in plan.thread:
        if count >= WARP:
            break
        size = min(mode.size, max(1, WARP // count))
        if mode.size % size:
            size = mode.size
        lanes.append(Mode(size, mode.step, mode.dim))
        count *= size
    return lanes or [Mode(1, 0, 0)]


@lru_cache(maxsize=16384)
def first_lanes(
    kept: tuple[int, ...], threads: tuple[Mode, ...], layout: Layout
) -> tuple[int, ...]:
    """Offset, before the swizzle, where the access of each lane of the first warp begins, in a tile
    whose modes are `kept` of the tensor's."""
    lanes = min(WARP, prod(m.size for m in threads))
    offsets = [0] * lanes
    coords: dict[int, list[int]] = {}
    place = 1
    for mode in threads:
        if mode.step:
            line = coords.setdefault(kept[mode.dim], [0] * lanes)
            for t in range(lanes):
                line[t] += t // place % mode.size * mode.step
        place *= mode.size
        if place >= lanes:
            break
    for m, line in coords.items():
        mode_layout = layout[m]
        table = {c: int(mode_layout(c)) for c in set(line)}
        for t, c in enumerate(line):
            offsets[t] += table[c]
    return tuple(offsets)
