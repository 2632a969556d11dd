"""What a tile looks like from memory: which dimension is contiguous and how far it is aligned."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from hexcute_core.arch import Mode
from hexcute_core.scalar import Const, is_const, mul
from hexcute_core.tile import GlobalView, SubMode, TileProgram, TileRef
from hexcute_core.tile.facts import Facts

WIDEST = 16
"""Bytes that an instruction moves at most for a thread."""


@dataclass(frozen=True)
class GlobalTile:
    """A tile of global memory.

    `modes[d]` are the sub-modes of tile dimension d as `size:step@buffer dim` (first fastest);
    `contiguous` is the tile dimension whose steps are consecutive elements, or None; `vector` is
    the widest number of elements that is aligned and never straddles an edge. Where the rows are
    `named`, a thread looks up where its next ones lie before it moves them.
    """

    modes: tuple[tuple[Mode, ...], ...]
    contiguous: int | None
    vector: int
    order: tuple[int, ...]
    named: bool = False


def describe_global(program: TileProgram, facts: Facts, ref: TileRef) -> GlobalTile:
    """The tile `ref` of a global view."""
    view = program.tensor(ref.tensor)
    assert isinstance(view, GlobalView)
    param = program.param(view.param)
    last = len(param.shape) - 1
    modes: list[tuple[Mode, ...]] = []
    for m in ref.kept:
        modes.append(tuple(_constant(s) for s in view.modes[m]))
    contiguous = None
    run = 1
    for d, subs in enumerate(modes):
        if ref.kept[d] == view.named:
            continue
        if subs and subs[0].dim == last and subs[0].step == 1 and subs[0].size > 1:
            contiguous, run = d, subs[0].size
    vector = 1
    if contiguous is not None:
        limit = _alignment(program, facts, view, ref, contiguous)
        vector = gcd(gcd(run, ref.shape[contiguous]), limit)
        vector &= -vector
    strides = _order_key(modes, last)
    # Vectors run along the contiguous dimension; what only repeats elements comes last.
    order = tuple(sorted(range(len(modes)), key=lambda d: (d != contiguous, *strides[d])))
    return GlobalTile(tuple(modes), contiguous, vector, order, view.named is not None)


def _constant(s: SubMode) -> Mode:
    """Extents of tile modes are constants; a run-time step counts as 0, since only constant steps
    along the last dimension can be contiguous."""
    extent = int(s.extent.value) if isinstance(s.extent, Const) else 1
    step = int(s.step.value) if isinstance(s.step, Const) else 0
    return Mode(extent, step, s.dim)


def _order_key(modes: list[tuple[Mode, ...]], last: int) -> list[tuple[bool, int, int]]:
    keys = []
    for subs in modes:
        first = subs[0] if subs else Mode(1, 0, 0)
        repeats = all(s.step == 0 or s.size == 1 for s in subs)
        keys.append((repeats, last - first.dim, first.step))
    return keys


def _alignment(
    program: TileProgram, facts: Facts, view: GlobalView, ref: TileRef, contiguous: int
) -> int:
    """Elements by which every vector of the tile is aligned in memory and away from edges."""
    param = program.param(view.param)
    last = len(param.shape) - 1
    known = 128 if param.name in program.promise.aligned else 8
    limit = max(1, known // view.dtype.bits)
    # The row length is both the stride of the other dimensions and the edge along this one.
    limit = gcd(limit, facts.divisor(param.shape[last]))
    return gcd(limit, start_in_row(facts, view, ref, last, contiguous))


def start_in_row(facts: Facts, view: GlobalView, ref: TileRef, last: int, contiguous: int) -> int:
    """What divides the coordinate along the `last` dimension of the tensor where the tile, and
    every step of it but those of its dimension `contiguous`, may begin."""
    limit = facts.divisor(view.origin[last])
    for m, subs in enumerate(view.modes):
        if m == view.named:
            # Numbers that may be any.
            limit = 1 if subs[0].dim == last else limit
            continue
        kept = m in ref.kept
        for i, s in enumerate(subs):
            leading = kept and ref.kept[contiguous] == m and i == 0
            if s.dim == last and not leading:
                limit = gcd(limit, facts.divisor(s.step))
        if subs and subs[0].dim == last and not is_const(ref.starts[m], 0):
            limit = gcd(limit, facts.divisor(mul(ref.starts[m], subs[0].step)))
    return limit
