"""Turns: the layout of a tile whose bits another tile holds under other coordinates.

    bit(dst element, i) = bit(src element, j)    where row by row, src's modes in order, they meet

Every digit of a layout is a step through those rows of bits, an element's own bits the fastest of
its thread's values. The other side reads the same digits as its own: those below one of its
elements have to be one thread's, all of them, and the rest are steps along its modes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from hexcute_core.arch import Fragment, Mode


class Digit(NamedTuple):
    """`size` steps of `step` bits each."""

    size: int
    step: int


@dataclass(frozen=True)
class Turn:
    """From the layout of src to that of dst, or `back`; `bits` are those of their elements."""

    order: tuple[int, ...]
    bits: tuple[int, int]
    src: tuple[int, ...]
    dst: tuple[int, ...]
    back: bool = False

    def of(self, f: Fragment) -> Fragment | None:
        """The layout of the other side; None where a thread would hold parts of elements, or a
        digit would be no step along one mode."""
        if not f.exact:
            return None
        turned = tuple(self.src[d] for d in self.order)
        if self.back:
            found = read_as(f, tuple(range(len(self.dst))), self.bits[1], turned, self.bits[0])
            return None if found is None else _renamed(found, self.order, self.src)
        return read_as(f, self.order, self.bits[0], self.dst, self.bits[1])


def _renamed(f: Fragment, order: Sequence[int], shape: tuple[int, ...]) -> Fragment:
    """Mode i of `f` as mode order[i]."""
    thread, value = (
        tuple(Mode(m.size, m.step, order[m.dim] if m.step else 0) for m in modes)
        for modes in (f.thread, f.value)
    )
    return Fragment(shape, thread, value)


def read_as(
    f: Fragment, order: Sequence[int], bits: int, shape: tuple[int, ...], to: int
) -> Fragment | None:
    """`f`, of elements of `bits`, its modes in `order`, as a tile of `shape` and of `to` bits."""
    strides: dict[int, int] = {}
    stride = bits
    for d in reversed(order):
        strides[d] = stride
        stride *= f.shape[d]
    thread = [Digit(m.size, m.step * strides[m.dim] if m.step else 0) for m in f.thread]
    value = [Digit(m.size, m.step * strides[m.dim] if m.step else 0) for m in f.value]
    outer, inner = _cut([Digit(bits, 1), *value], to)
    covered = 1
    for size, step in sorted(inner, key=lambda digit: digit.step):
        if step != covered:
            return None
        covered *= size
    if covered != to or any(step % to for _, step in (*thread, *outer)):
        return None
    sides = [_modes(digits, shape, to) for digits in (thread, outer)]
    if sides[0] is None or sides[1] is None:
        return None
    return Fragment(shape, sides[0], sides[1])


def _cut(digits: Sequence[Digit], at: int) -> tuple[list[Digit], list[Digit]]:
    """Digits at and above `at` bits, and those below; one that reaches across is cut."""
    outer: list[Digit] = []
    inner: list[Digit] = []
    for size, step in digits:
        below = min(size, at // step) if 0 < step < at else 1
        if below > 1:
            inner.append(Digit(below, step))
        if size > below:
            outer.append(Digit(size // below, step * below))
    return outer, inner


def _modes(digits: Sequence[Digit], shape: tuple[int, ...], bits: int) -> tuple[Mode, ...] | None:
    """Digits as steps along the modes of `shape`, cut where one ends and the next begins."""
    out: list[Mode] = []
    for size, step in digits:
        if step == 0:
            out.append(Mode(size, 0, 0))
            continue
        stride = bits
        for d in reversed(range(len(shape))):
            end = stride * shape[d]
            if size > 1 and step < end:
                take = min(size, end // step)
                if step % stride or end % step or size % take:
                    return None
                out.append(Mode(take, step // stride, d))
                size, step = size // take, step * take
            stride = end
        if size > 1:
            return None
    return tuple(out)


def flat(f: Fragment, order: Sequence[int], bits: int, to: int) -> Fragment | None:
    """`f` as a row of units of `to` bits, which divide its elements."""
    return read_as(f, order, bits, (prod(f.shape) * bits // to,), to)
