"""One frozen row an instruction: names, operand layouts, types, bytes, alignment, timing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hexcute_core.arch.fragment import Fragment
from hexcute_core.dtypes import DType

Scope = Literal["global", "shared", "register"]
Access = Literal["vector", "matrix"]


@dataclass(frozen=True)
class Timing:
    """Clocks: `issue` keeps the unit busy for one call of a warp, `latency` until the result."""

    issue: float
    latency: float
    source: str


@dataclass(frozen=True)
class CopyRow:
    """A copy instruction.

    `vector`: each thread moves `bytes` contiguous bytes. `matrix`: a warp moves a tile whose
    source is described by `p` (thread -> start of its row) and destination by `q`
    (thread, value -> coordinate), both over the instruction's own tile of rows and columns of
    `element_bits`-wide elements; the columns of a row are contiguous in memory.
    """

    name: str
    src: Scope
    dst: Scope
    bytes: int
    alignment: int
    timing: Timing
    access: Access = "vector"
    asynchronous: bool = False
    element_bits: int = 0
    p: Fragment | None = None
    q: Fragment | None = None


@dataclass(frozen=True)
class MmaRow:
    """c += a * b^T over tile (m, n, k): `a` over (m, k), `b` over (n, k), `c` over (m, n).

    `threads` work together on one tile; `a`, `b`, `c` say which element each value is.
    """

    name: str
    tile: tuple[int, int, int]
    threads: int
    a_dtype: DType
    b_dtype: DType
    c_dtype: DType
    a: Fragment
    b: Fragment
    c: Fragment
    timing: Timing


@dataclass(frozen=True)
class Arch:
    """A GPU as the compiler sees it. Sizes in bytes, `copies` and `mmas` in order of preference
    among equals."""

    name: str
    capability: tuple[int, int]
    shared_per_block: int
    registers_per_thread: int
    threads_per_block: int
    copies: tuple[CopyRow, ...]
    mmas: tuple[MmaRow, ...]
    bank_bytes: int = 4
    banks: int = 32
