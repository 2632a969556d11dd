"""Solution = a fragment for every register tensor, a layout for every shared tensor, a plan for
every copy and gemm, the cost, and what was rejected and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hexcute_core.arch import CopyRow, Fragment, MmaRow, Mode
from hexcute_core.errors import SourceSpan
from hexcute_core.tile import TileProgram


@dataclass(frozen=True)
class Rep:
    """A repetition of an instruction: `size` calls, each moving `step` along tile dimension
    `dim` and `reg` elements through the register array."""

    size: int
    step: int
    dim: int
    reg: int


@dataclass(frozen=True)
class CopyPlan:
    """How one copy runs.

    Thread t starts at the tile coordinate of its digits over `thread`; each call moves `run`
    (digits over contiguous memory); `reps` repeat it. Registers of a call: elements
    `sum(rep.reg) + pieces[i] + [0, width)`. `second` is the store of a copy between two memories
    that goes through registers.
    """

    row: CopyRow
    second: CopyRow | None
    thread: tuple[Mode, ...]
    run: tuple[Mode, ...]
    reps: tuple[Rep, ...]
    pieces: tuple[int, ...]
    width: int

    @property
    def calls(self) -> int:
        """Instructions a thread issues."""
        n = 1
        for rep in self.reps:
            n *= rep.size
        return n

    @property
    def name(self) -> str:
        return self.row.name if self.second is None else f"{self.row.name} + {self.second.name}"


@dataclass(frozen=True)
class GemmLoop:
    """`size` repetitions along one of M, N, K with the register strides of the two operands
    that move."""

    size: int
    first: int
    second: int


@dataclass(frozen=True)
class GemmPlan:
    """How one gemm runs: `m` moves (c, a), `n` moves (c, b), `k` moves (a, b) registers;
    `*_pieces` are the register offsets of an instruction's operands, `*_width` elements each."""

    row: MmaRow
    groups: tuple[int, int]
    m: tuple[GemmLoop, ...]
    n: tuple[GemmLoop, ...]
    k: tuple[GemmLoop, ...]
    a_pieces: tuple[int, ...]
    b_pieces: tuple[int, ...]
    c_pieces: tuple[int, ...]


@dataclass(frozen=True)
class SharedLayout:
    """M = S o m: element offset of a tensor coordinate. `layout` is cute_layout's m over the
    tensor's shape, `swizzle` its S (None for the identity); `wavefronts` counts, by operation,
    the bank phases of one block's accesses and the fewest possible."""

    shape: tuple[int, ...]
    layout: Any
    swizzle: Any
    wavefronts: Mapping[int, tuple[int, int]]

    def __str__(self) -> str:
        return f"{self.layout}" if self.swizzle is None else f"{self.swizzle} o {self.layout}"


@dataclass(frozen=True)
class Rejected:
    """A candidate that was not chosen: what it was for and why it lost."""

    subject: str
    candidate: str
    reason: str
    span: SourceSpan | None


@dataclass(frozen=True)
class Solution:
    """The outcome of synthesis; costs in clocks of one block.

    `program` is the tile program that was solved, its rearranges written out as copies.
    """

    program: TileProgram
    fragments: Mapping[str, Fragment]
    shared: Mapping[str, SharedLayout]
    copies: Mapping[int, CopyPlan]
    gemms: Mapping[int, GemmPlan]
    op_cost: Mapping[int, float]
    rejected: tuple[Rejected, ...]
    exact: bool
    seconds: float

    @property
    def cost(self) -> float:
        return sum(self.op_cost.values())
