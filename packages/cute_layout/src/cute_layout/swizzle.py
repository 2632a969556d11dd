"""`Swizzle(bits, base, shift)`: S(x) = x XOR ((x & Y) >> shift), Y = `bits` ones at base + shift.

The unit of x is an element offset, as everywhere in this library; `Swizzle.recast` changes the
unit.
Source: CuTe `swizzle.hpp` (its definition).
"""

from __future__ import annotations

import re
from typing import Any

from cute_layout.errors import DivisibilityError, DomainError, ParseError

__all__ = ["Swizzle"]

MOST_BITS = 1024
"""The widest offsets that are swizzled."""

_TEXT = re.compile(r"\s*(?:Sw|Swizzle|S)?\s*<\s*(-?\d+)\s*,\s*(-?\d+)\s*,\s*(-?\d+)\s*>\s*$")


class Swizzle:
    """An involution of element offsets that XORs one group of bits into another.

    Args:
        bits: how many bits are XORed; 0 is the identity.
        base: how many low bits stay: ``2**base`` consecutive offsets move together.
        shift: the distance from the target bits up to the source bits; negative swaps their roles.

    ``Swizzle(3, 4, 3)`` over bytes and ``Swizzle(3, 3, 3)`` over 16-bit elements are the 128-byte
    swizzle of Hopper's shared memory.

    >>> Swizzle(2, 0, 3)(0b11010)
    25

    Raises:
        DomainError: negative bits or base, or ``|shift| < bits`` (source and target would overlap).
    """

    __slots__ = ("_source", "base", "bits", "shift")
    bits: int
    base: int
    shift: int

    def __init__(self, bits: int, base: int, shift: int) -> None:
        if any(type(n) is not int for n in (bits, base, shift)):
            raise DomainError(f"a swizzle is three ints, got {bits!r}, {base!r}, {shift!r}")
        if bits < 0 or base < 0:
            raise DomainError(
                f"a swizzle needs bits >= 0 and base >= 0, got bits={bits}, base={base}"
            )
        if base + bits + abs(shift) > MOST_BITS:
            raise DomainError(
                f"a swizzle of bits={bits}, base={base}, shift={shift} moves bits above "
                f"{MOST_BITS}"
            )
        if abs(shift) < bits:
            raise DomainError(f"a swizzle needs |shift| >= bits, got bits={bits}, shift={shift}")
        put = object.__setattr__
        put(self, "bits", int(bits))
        put(self, "base", int(base))
        put(self, "shift", int(shift))
        put(self, "_source", ((1 << bits) - 1) << (base + max(0, shift)))

    _source: int

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Swizzle is immutable; build a new one instead of setting {name}")

    def __reduce__(self) -> tuple[Any, ...]:
        return Swizzle, (self.bits, self.base, self.shift)

    def __call__(self, offset: int) -> int:
        """The swizzled element offset."""
        moved = offset & self._source
        return offset ^ (moved >> self.shift if self.shift >= 0 else moved << -self.shift)

    @property
    def period(self) -> int:
        """The least power of two P with S(x + P) = S(x) + P: only offsets below it are permuted."""
        return 1 << (self.base + self.bits + abs(self.shift)) if self.bits else 1

    @staticmethod
    def parse(text: str) -> Swizzle:
        """Read a `text` such as ``Sw<3,4,3>``; raises `ParseError`."""
        found = _TEXT.match(text)
        if not found:
            raise ParseError(f"cannot read {text!r} as a swizzle; expected Sw<bits,base,shift>")
        return Swizzle(*(int(g) for g in found.groups()))

    def recast(self, old_bits: int, new_bits: int) -> Swizzle:
        """The same permutation of bits in memory, in units of `new_bits` instead of `old_bits`.

        >>> Swizzle(3, 4, 3).recast(8, 16)
        Swizzle(3, 3, 3)

        Raises:
            DivisibilityError: the ratio is no power of two, or an element of `new_bits` would be
                torn.
        """
        small, large = sorted((old_bits, new_bits))
        ratio = large // small if small > 0 else 0
        if small <= 0 or large % small or ratio & (ratio - 1):
            raise DivisibilityError(
                f"cannot recast from {old_bits} to {new_bits} bits: no power-of-two ratio"
            )
        step = ratio.bit_length() - 1
        base = self.base + (step if new_bits < old_bits else -step)
        if not self.bits:
            return Swizzle(0, max(base, 0), self.shift)
        if base < 0:
            raise DivisibilityError(
                f"{self} keeps only {old_bits << self.base} bits together: "
                f"elements of {new_bits} bits would be torn"
            )
        return Swizzle(self.bits, base, self.shift)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Swizzle):
            return NotImplemented
        return (self.bits, self.base, self.shift) == (other.bits, other.base, other.shift)

    def __hash__(self) -> int:
        return hash((self.bits, self.base, self.shift))

    def __str__(self) -> str:
        return f"Sw<{self.bits},{self.base},{self.shift}>"

    def __repr__(self) -> str:
        return f"Swizzle({self.bits}, {self.base}, {self.shift})"
