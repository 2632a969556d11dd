"""What a product of matrices is, and what TMA asks of it.

results (batch, m, n), each a sum over k: m and n in any order of memory, operands along k or not
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import hexcute_core as hx
from hexcute_kernels.variant import Problem


@dataclass(frozen=True, kw_only=True)
class Product(Problem):
    """m x n results, each a sum over k, of each of a `batch` of matrices; operands of `dtype`,
    whose `a_major` ("k" or "m") and `b_major` ("k" or "n") index is contiguous; a bias of n and an
    activation on top. Where the first operand is no matrix, `lead` are the extents of its rows."""

    m: int
    n: int
    k: int
    dtype: hx.DType
    a_major: str
    b_major: str
    batch: int | None = None
    bias: bool = False
    activation: str | None = None
    lead: tuple[int, ...] | None = None
    UNTUNED: ClassVar[tuple[str, ...]] = ("lead",)

    @property
    def thin(self) -> int:
        """The shorter side of the result."""
        return min(self.m, self.n)

    @property
    def thick(self) -> int:
        """The longer side of the result."""
        return max(self.m, self.n)

    @property
    def whole(self) -> bool:
        """Whether rows along k are whole lines of 128 bytes, so that each piece of one that TMA
        fetches lies in one."""
        return self.k * self.dtype.bits % 1024 == 0

    @property
    def run(self) -> int:
        """Elements that are read at once where rows are short of whole 16 bytes: those that the
        start of every row is a multiple of, of 1, 2, 4 and a line."""
        line = 128 // self.dtype.bits if self.aligned else 1
        return math.gcd(line, *(length for length in operand_rows(self).values()))


def tma_fits(p: Product) -> str | None:
    """Whether TMA can move operands and result: from 16 bytes on, in rows of whole 16 bytes."""
    return _unfit(p, **operand_rows(p), **{"the result": p.n})


def operands_fit(p: Product) -> str | None:
    """Whether TMA can move the operands; threads write the result."""
    return _unfit(p, **operand_rows(p))


def operand_rows(p: Product) -> dict[str, int]:
    """How long the rows of the operands are."""
    return {
        "the first operand": p.k if p.a_major == "k" else p.m,
        "the second": p.k if p.b_major == "k" else p.n,
    }


def _unfit(p: Product, **rows: int) -> str | None:
    """Why TMA does not take tensors with `rows`, lengths by what they are of, or None."""
    if not p.aligned:
        return "TMA takes tensors that start at a multiple of 16 bytes"
    line = 128 // p.dtype.bits
    odd = [name for name, length in rows.items() if length % line]
    return f"TMA takes rows of whole 16 bytes; not those of {' and '.join(odd)}" if odd else None


def lies_well(p: Product, major: str, rows: int) -> bool:
    """Whether TMA reads an operand of so many rows as it lies, beside one that is a copy."""
    line = 128 // p.dtype.bits
    return p.aligned and p.k % line == 0 and (p.k if major == "k" else rows) % line == 0


def packed_elements(p: Product) -> int:
    """The elements of the operands that are copied."""
    sides = ((p.a_major, p.m), (p.b_major, p.n))
    rows = sum(rows for major, rows in sides if not lies_well(p, major, rows))
    return rows * p.k * (1 if p.batch is None else p.batch)
