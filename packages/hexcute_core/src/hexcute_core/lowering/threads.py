"""How threads exchange values along one dimension of a tile: digits of the thread index, the
lanes that shuffles reach, and cells of shared memory for the others.

Every thread of the block has cells of its own, so roles may talk side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from hexcute_core import thread as th
from hexcute_core.arch import Fragment
from hexcute_core.arch.groups import WARP
from hexcute_core.dtypes import DType
from hexcute_core.lowering.context import Context
from hexcute_core.scalar import Scalar, add, floordiv, mod, mul, sub

# Bits that a shuffle moves.
WORD = 32
# Values of a thread that go through shared memory between two barriers.
TOGETHER = 16


@dataclass(frozen=True)
class ThreadDigit:
    """A digit of the thread index, `(t / stride) % size`; each moves `step` along its dimension."""

    size: int
    stride: int
    step: int

    @property
    def shuffles(self) -> bool:
        """Whether shuffles within a warp reach all of its values."""
        powers = self.size & (self.size - 1) == 0 and self.stride & (self.stride - 1) == 0
        return powers and self.size * self.stride <= WARP

    def of(self, thread: Scalar) -> Scalar:
        """The digit of a thread."""
        return mod(floordiv(thread, self.stride), self.size)


def thread_digits(f: Fragment, axis: int) -> tuple[ThreadDigit, ...]:
    """Digits of the thread index that move along `axis`, cut at the warp's end."""
    out: list[ThreadDigit] = []
    stride = 1
    for m in f.thread:
        if m.step and m.dim == axis:
            near = gcd(m.size, max(1, WARP // stride))
            cuts = ((near, stride, m.step), (m.size // near, stride * near, m.step * near))
            out += [ThreadDigit(*cut) for cut in cuts if cut[0] > 1]
        stride *= m.size
    return tuple(out)


def thread_in(ctx: Context, f: Fragment) -> Scalar:
    """The thread's number in `f`; threads beyond its last one repeat the first."""
    return ctx.lane if f.threads == ctx.team.threads else mod(ctx.lane, f.threads)


def without(thread: Scalar, digits: Sequence[ThreadDigit]) -> Scalar:
    """The thread that differs from `thread` in `digits` alone, which are 0."""
    for digit in digits:
        thread = sub(thread, mul(digit.of(thread), digit.stride))
    return thread


def together(count: int, room: int = TOGETHER) -> int:
    """The most of `count` values that go between two barriers where there is `room`, all rounds
    alike."""
    return next(n for n in range(max(1, min(count, room)), 0, -1) if count % n == 0)


def cell(ctx: Context, thread: Scalar, slot: Scalar, dtype: DType, before: int = 0) -> th.SharedPtr:
    """Cell number `slot` of the team's `thread` in the scratch memory, behind `before` bytes."""
    number = add(thread, ctx.team.first, mul(slot, ctx.program.block_dim))
    return th.SharedPtr(add(mul(number, dtype.bits // 8), ctx.arena.offsets[""] + before))
