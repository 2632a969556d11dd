"""What a tile looks like from memory: which of its digits are contiguous, and how far aligned.

Digit i of the run moves `step_i` along the tile and `size_0 * ... * size_(i-1)` through memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from hexcute_core.arch import Mode, product
from hexcute_core.scalar import Const, Scalar, is_const, mul
from hexcute_core.tile import GlobalTensor, GlobalView, SubMode, TileProgram, TileRef
from hexcute_core.tile.facts import Facts

WIDEST = 16
"""Bytes that an instruction moves at most for a thread."""


@dataclass(frozen=True)
class GlobalTile:
    """A tile of global memory.

    `modes[d]` are the sub-modes of tile dimension d as `size:step@buffer dim` (first fastest);
    `contiguous` is the tile dimension whose steps are consecutive elements, or None; `vector` is
    the widest number of elements that is aligned and never straddles an edge. Where the rows are
    `named`, a thread looks up where its next ones lie before it moves them. `run` are the digits
    of the tile, as `size:step@tile dim`, that memory has one after another, where they are not the
    next ones of one dimension: then nothing is `contiguous` along a dimension alone.
    """

    modes: tuple[tuple[Mode, ...], ...]
    contiguous: int | None
    vector: int
    order: tuple[int, ...]
    named: bool = False
    run: tuple[Mode, ...] = ()

    @property
    def digits(self) -> tuple[Mode, ...]:
        """The digits of the tile that consecutive elements move along, at least `vector` in all."""
        if self.run or self.contiguous is None:
            return self.run
        return (Mode(self.vector, 1, self.contiguous),)


def describe_global(program: TileProgram, facts: Facts, ref: TileRef) -> GlobalTile:
    """The tile `ref` of a global view."""
    view = program.tensor(ref.tensor)
    assert isinstance(view, GlobalView)
    param = program.param(view.param)
    modes: list[tuple[Mode, ...]] = []
    for m in ref.kept:
        modes.append(tuple(_constant(s) for s in view.modes[m]))
    run, places = _contiguous(view, ref, modes, param.unit)
    contiguous, vector = None, 1
    if run:
        limit = _alignment(program, facts, view, ref, places)
        vector = gcd(_whole_digits(run), limit)
        vector &= -vector
        if len(run) == 1 and run[0].step == 1:
            contiguous, run = run[0].dim, ()
    strides = _order_key(modes, param.inward)
    # Vectors run along the contiguous dimension; what only repeats elements comes last.
    order = tuple(sorted(range(len(modes)), key=lambda d: (d != contiguous, *strides[d])))
    return GlobalTile(tuple(modes), contiguous, vector, order, view.named is not None, run)


def _whole_digits(run: Sequence[Mode]) -> int:
    """The longest power of two that is digits of the run, and a part of the next."""
    found = 1
    for m in run:
        power = m.size & -m.size
        found *= power
        if power != m.size:
            break
    return found


def _contiguous(
    view: GlobalView, ref: TileRef, modes: list[tuple[Mode, ...]], last: int | None
) -> tuple[tuple[Mode, ...], frozenset[tuple[int, int]]]:
    """The digits of the tile that memory has one after another, fastest first, those that go on
    along the tile as one; and which sub-modes of the view they are, as (mode, number)."""
    found: list[Mode] = []
    places: set[tuple[int, int]] = set()
    whole = [
        product(subs) == ref.shape[d] and is_const(ref.starts[ref.kept[d]], 0)
        for d, subs in enumerate(modes)
    ]
    reach = 1
    while True:
        # Of two modes along the same elements the later is the run, as it always was.
        nexts = [
            (d, i)
            for d, subs in enumerate(modes)
            for i, sub in enumerate(subs)
            if sub.dim == last and sub.step == reach and sub.size > 1
            if ref.kept[d] != view.named and (whole[d] or i == 0) and ref.shape[d] > 1
            if (ref.kept[d], i) not in places
        ]
        if not nexts:
            break
        d, i = nexts[-1]
        size = modes[d][i].size if whole[d] else gcd(modes[d][i].size, ref.shape[d])
        step, places = product(modes[d][:i]), places | {(ref.kept[d], i)}
        before = found[-1] if found else None
        if before is not None and before.dim == d and before.step * before.size == step:
            found[-1] = Mode(before.size * size, before.step, d)
        else:
            found.append(Mode(size, step, d))
        reach *= size
        if size != modes[d][i].size:
            break
    return tuple(found), frozenset(places)


def _constant(s: SubMode) -> Mode:
    """Extents of tile modes are constants; a run-time step counts as 0, since only constant steps
    along the innermost dimension can be contiguous."""
    extent = int(s.extent.value) if isinstance(s.extent, Const) else 1
    step = int(s.step.value) if isinstance(s.step, Const) else 0
    return Mode(extent, step, s.dim)


def _order_key(
    modes: list[tuple[Mode, ...]], inward: tuple[int, ...]
) -> list[tuple[bool, int, int]]:
    keys = []
    for subs in modes:
        first = subs[0] if subs else Mode(1, 0, 0)
        repeats = all(s.step == 0 or s.size == 1 for s in subs)
        keys.append((repeats, -inward.index(first.dim), first.step))
    return keys


def _alignment(
    program: TileProgram, facts: Facts, view: GlobalView, ref: TileRef, run: Places
) -> int:
    """Elements by which every vector of the tile is aligned in memory and away from edges."""
    param = program.param(view.param)
    assert param.unit is not None
    known = 8 * program.promise.begin(param.name)
    limit = max(1, known // view.dtype.bits)
    # The row length is the edge along this dimension, and of a row-major tensor what the strides of
    # the others are made of.
    limit = gcd(limit, facts.divisor(param.shape[param.unit]))
    limit = gcd(limit, *(facts.divisor(stride) for _, stride in outer_strides(param)))
    return gcd(limit, start_in_row(facts, view, ref, param.unit, run))


def outer_strides(param: GlobalTensor) -> tuple[tuple[int, Scalar], ...]:
    """Dimensions whose strides a tensor has of its own and that elements lie along, with those
    strides; but for the one along which elements follow one another."""
    return tuple(
        (d, stride)
        for d, stride in enumerate(param.strides)
        if d != param.unit and not is_const(param.shape[d], 1)
    )


Places = frozenset[tuple[int, int]]
"""Sub-modes of a view: the mode, and the number in it."""


def start_in_row(facts: Facts, view: GlobalView, ref: TileRef, last: int, run: Places) -> int:
    """What divides the coordinate along the dimension `last` of the tensor where the tile, and
    every step of it but those of its sub-modes `run`, may begin."""
    limit = facts.divisor(view.origin[last])
    for m, subs in enumerate(view.modes):
        if m == view.named:
            # Numbers that may be any.
            limit = 1 if subs[0].dim == last else limit
            continue
        for i, s in enumerate(subs):
            if s.dim == last and (m, i) not in run:
                limit = gcd(limit, facts.divisor(s.step))
        if subs and subs[0].dim == last and not is_const(ref.starts[m], 0):
            limit = gcd(limit, facts.divisor(mul(ref.starts[m], subs[0].step)))
    return limit
