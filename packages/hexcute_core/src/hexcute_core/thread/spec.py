"""`PrimSpec`: what a primitive's row says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

OperandKind = Literal["regs", "global", "shared", "remote", "scalar", "map", "desc"]


@dataclass(frozen=True)
class PrimSpec:
    """Name, operand kinds, and bytes a thread moves (0 where that is not the point)."""

    name: str
    operands: tuple[OperandKind, ...]
    bytes: int = 0
