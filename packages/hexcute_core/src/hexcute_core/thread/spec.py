"""`PrimSpec`: what a primitive's row says. Nobody reads it out of the name again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hexcute_core.arch.features import Feature
from hexcute_core.dtypes import DType

OperandKind = Literal["regs", "global", "shared", "remote", "scalar", "map", "desc"]


@dataclass(frozen=True)
class Product:
    """c += a * b^T over tile (m, n, k), with the element types of c, a and b.

    `majors` says how a and b lie where they come from shared memory: "k", "m" or, for a, "r" in
    registers; it is empty for products of a warp, whose operands are registers.
    """

    m: int
    n: int
    k: int
    c: DType
    a: DType
    b: DType
    majors: str = ""


@dataclass(frozen=True)
class Update:
    """An atomic update of elements of `dtype` in `space`, `width` of them in one instruction.

    `order` is the memory order, "relaxed" where the name has none; `block` narrows the scope to
    the block; `returns` brings back what was there.
    """

    op: str
    space: OperandKind
    dtype: DType
    width: int
    order: str
    block: bool
    returns: bool


@dataclass(frozen=True)
class Matrices:
    """`count` matrices of 8 x 8 elements of 16 bits, each row of a thread's own, turned or not."""

    count: int
    turned: bool


@dataclass(frozen=True)
class PrimSpec:
    """Name, operand kinds, bytes that a thread moves (0 where that is not the point), what a GPU
    must have for it (None where all have it), and what it computes or moves where that has more
    than one form."""

    name: str
    operands: tuple[OperandKind, ...]
    bytes: int = 0
    needs: Feature | None = None
    what: Product | Update | Matrices | None = None
