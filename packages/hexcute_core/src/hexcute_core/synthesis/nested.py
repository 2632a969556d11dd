"""Tiles whose contiguous elements are digits of several dimensions, as memory has them.

    virtual dimension 0 = the digits of the run;    the others = what each dimension has besides

A tile is spread over threads by those dimensions as one whose dimensions are contiguous is, and
the digits found are named by the tile's own: a packed tensor of weights in the order of a Tensor
Core's operand is moved as widely as a plain one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hexcute_core.arch import Fragment, Mode, product
from hexcute_core.synthesis.coalesced import coalesced
from hexcute_core.synthesis.memory import GlobalTile


def spread(
    shape: tuple[int, ...], memory: GlobalTile, vector: int, threads: int
) -> Fragment | None:
    """Tile `shape` over `threads` in vectors of `vector` elements along what is contiguous; None
    where threads would take parts of its digits that do not divide them."""
    if not memory.run or vector == 1:
        return coalesced(shape, memory.order, vector, threads)
    dims = [memory.run, *(_besides(shape, d, memory.run) for d in memory.order)]
    dims = [digits for digits in dims if digits]
    virtual = tuple(product(digits) for digits in dims)
    f = coalesced(virtual, tuple(range(len(dims))), vector, threads)
    sides: list[tuple[Mode, ...]] = []
    for modes in (f.thread, f.value):
        named = [_named(m, dims[m.dim]) for m in modes]
        if None in named:
            return None
        sides.append(tuple(part for parts in named for part in parts or ()))
    return Fragment(shape, *sides)


def first(digits: Sequence[Mode], count: int) -> tuple[Mode, ...] | None:
    """The first `count` places of a run: whole digits, and a part that divides the next; None
    where the run has no such beginning."""
    found = _named(Mode(count, 1, 0), digits)
    return None if found is None else tuple(found)


def cut(f: Fragment, run: Sequence[Mode]) -> Fragment:
    """`f` with its value digits cut where digits of a run begin or end."""
    value: list[Mode] = []
    for m in f.value:
        steps = {edge for r in run if r.dim == m.dim for edge in (r.step, r.step * r.size)}
        at, end = m.step, m.step * m.size
        for edge in sorted(s for s in steps if m.step < s < end):
            if edge % at == 0 and end % edge == 0:
                value.append(Mode(edge // at, at, m.dim))
                at = edge
        value.append(Mode(end // at if at else m.size, at, m.dim))
    return Fragment(f.shape, f.thread, tuple(value))


def _besides(shape: Sequence[int], dim: int, run: Iterable[Mode]) -> tuple[Mode, ...]:
    """The digits of a dimension that the run leaves."""
    out: list[Mode] = []
    at = 1
    for step, size in sorted((m.step, m.size) for m in run if m.dim == dim):
        if step > at:
            out.append(Mode(step // at, at, dim))
        at = step * size
    if shape[dim] > at:
        out.append(Mode(shape[dim] // at, at, dim))
    return tuple(out)


def _named(mode: Mode, digits: Sequence[Mode]) -> list[Mode] | None:
    """A digit over the places of `digits`, fastest first, as digits of the tile; None where it
    takes an uneven part of one."""
    if mode.step == 0:
        return [Mode(mode.size, 0, 0)]
    out: list[Mode] = []
    place, step, size = 1, mode.step, mode.size
    for digit in digits:
        if size > 1 and step < place * digit.size:
            take = min(size, place * digit.size // step)
            if step % place or place * digit.size % step or size % take or digit.size % take:
                return None
            out.append(Mode(take, digit.step * (step // place), digit.dim))
            size, step = size // take, step * take
        place *= digit.size
    return out if size == 1 else None
