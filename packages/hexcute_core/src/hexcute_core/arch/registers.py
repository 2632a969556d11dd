"""Where one fragment's values stand in another's registers: f(t, v) = g(t, w), digit by digit.

Layouts that spread threads alike and hold the same elements a thread differ by a permutation of
registers alone, which costs nothing: an operation indexes each operand in its own order.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from hexcute_core.arch import Fragment, Mode


class Digit(NamedTuple):
    """`size` values, `first` registers apart in one fragment and `second` in another."""

    size: int
    first: int
    second: int


def locate(f: Fragment, digit: Mode) -> tuple[tuple[int, int], ...] | None:
    """Register strides of value digit `digit` in `f` as (size, stride) parts, fastest first; None
    where `f` does not have it among its values."""
    parts: list[tuple[int, int]] = []
    size, step = digit.size, digit.step
    while size > 1:
        stride = 1
        for x in f.value:
            if x.dim == digit.dim and x.step and step % x.step == 0:
                ratio = step // x.step
                room, rest = divmod(x.size, ratio)
                take = min(size, room)
                if rest == 0 and room > 1 and size % take == 0 and room % take == 0:
                    parts.append((take, stride * ratio))
                    size //= take
                    step *= take
                    break
            stride *= x.size
        else:
            return None
    return tuple(parts)


@lru_cache(maxsize=4096)
def same_threads(f: Fragment, g: Fragment) -> bool:
    """Whether both spread threads alike (equal functions of t at v = 0)."""
    if f.thread == g.thread:
        return True
    if f.threads != g.threads:
        return False
    cuts = sorted({*_cuts(f.thread), *_cuts(g.thread)})
    if all(high % low == 0 for low, high in pairwise(cuts)):
        return _moves(f.thread, cuts) == _moves(g.thread, cuts)
    return all(f.coord(t, 0) == g.coord(t, 0) for t in range(f.threads))


def _cuts(modes: tuple[Mode, ...]) -> list[int]:
    """Places of the digits: 1, s0, s0 * s1, ..."""
    out = [1]
    for m in modes:
        out.append(out[-1] * m.size)
    return out


def _moves(modes: tuple[Mode, ...], cuts: list[int]) -> list[tuple[int, int]]:
    """(dimension, step) of one step of the digit that begins at each cut but the last."""
    out = []
    place, rest = 1, list(modes)
    for cut in cuts[:-1]:
        while cut >= place * rest[0].size:
            place *= rest.pop(0).size
        step = rest[0].step * (cut // place)
        out.append((rest[0].dim if step else 0, step))
    return out


@lru_cache(maxsize=4096)
def register_map(f: Fragment, g: Fragment) -> tuple[Digit, ...] | None:
    """The values of `f` as digits with their register strides in `f` and in `g`; None where some
    thread does not hold the same elements in both."""
    if f.shape != g.shape or f.values != g.values or not same_threads(f, g):
        return None
    out: list[Digit] = []
    stride = 1
    for x in f.value:
        parts = locate(g, x)
        if parts is None:
            return None
        for size, second in parts:
            out.append(Digit(size, stride, second))
            stride *= size
    return tuple(out)
