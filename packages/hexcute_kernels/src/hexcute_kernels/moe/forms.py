"""How packed weights are written: bits of one, whether it is an integer or a float, and its group.

    integer    weight = (q - zero) scale
    float      weight = value scale,  value of an exponent and a mantissa

A block of k fills 32 words of 16 bits in each row: 128 weights of four bits, 64 of eight.
"""

from __future__ import annotations

from dataclasses import dataclass

WORDS = 32
"""Words of a block in a row, and the distance in k of a word's numbers."""
HALF = 2 * WORDS
"""Bytes of a block in a row."""
WIDEST = 128
"""The most numbers that share a scale in memory; wider groups have it several times."""


@dataclass(frozen=True)
class Form:
    """`bits` of a number; an integer, or a sign, `exponent` bits less `bias`, and the rest."""

    name: str
    bits: int
    exponent: int = 0
    bias: int = 0

    @property
    def places(self) -> int:
        """Numbers in a word."""
        return 16 // self.bits

    @property
    def block(self) -> int:
        """Elements of k that lie together."""
        return WORDS * self.places

    @property
    def strips(self) -> int:
        """What a group has for each row: a scale, and integers a zero point."""
        return 1 if self.exponent else 2

    @property
    def groups(self) -> tuple[int, ...]:
        """How many elements of k may share them in memory."""
        return tuple(group for group in (32, 64, WIDEST) if group <= self.block)


U4, U8 = Form("u4", 4), Form("u8", 8)
E2M1, E4M3 = Form("e2m1", 4, exponent=2, bias=1), Form("e4m3", 8, exponent=4, bias=7)
FORMS = {form.name: form for form in (U4, U8, E2M1, E4M3)}


@dataclass(frozen=True)
class Weights:
    """The form of packed weights and the size of their groups along k."""

    form: Form = U4
    group: int = WIDEST

    @property
    def parts(self) -> int:
        """Groups of a block."""
        return self.form.block // self.group

    def rows(self, n: int) -> int:
        """Rows of 64 bytes that n rows of weights take a block, with their scales and zero
        points."""
        return n + self.parts * self.form.strips * n // WORDS


PLAIN = Weights()
"""Weights of four bits in groups of 128."""
