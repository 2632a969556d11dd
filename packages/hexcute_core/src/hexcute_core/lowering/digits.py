"""Index digits as scalars: t over modes (s0, s1, ...) is ((t) % s0, (t / s0) % s1, ...)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hexcute_core.dtypes import i32
from hexcute_core.scalar import Const, Scalar, Var, add, binary, floordiv, mod, mul
from hexcute_core.tile.teams import Team

THREAD = Var("threadIdx.x", i32)


@dataclass(frozen=True)
class Part:
    """`digit * stride`, digit in [0, size). `size` is None where it is not known."""

    digit: Scalar
    size: int | None
    stride: int

    @property
    def value(self) -> Scalar:
        return mul(self.digit, self.stride)

    def bits(self) -> int | None:
        """Every bit the part may set, or None."""
        if isinstance(self.digit, Const):
            return int(self.digit.value) * self.stride
        if self.size is None:
            return None
        mask = 0
        for k in range(self.size):
            mask |= k * self.stride
        return mask


def index_in(team: Team) -> Scalar:
    """The thread's number within `team`."""
    if team.first == 0:
        return THREAD
    if team.threads & (team.threads - 1) == 0 and team.first % team.threads == 0:
        return binary("and", THREAD, team.threads - 1)
    return binary("sub", THREAD, team.first)


def digits(index: Scalar, sizes: Sequence[int], total: int) -> list[Scalar]:
    """Digits of `index` < total over `sizes`, first fastest; the top digit needs no modulo."""
    out: list[Scalar] = []
    divisor = 1
    for size in sizes:
        digit = floordiv(index, divisor)
        divisor *= size
        if divisor < total:
            digit = mod(digit, size)
        out.append(digit if size > 1 else Const(0, i32))
    return out


def total(parts: Sequence[Part]) -> Scalar:
    """Sum of the parts."""
    return add(*(p.value for p in parts))
