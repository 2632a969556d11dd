"""One frozen row per instruction: names, operand layouts, types, bytes, alignment, timing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from hexcute_core.arch.features import Feature, features
from hexcute_core.arch.fragment import Fragment, Mode
from hexcute_core.dtypes import DType

Scope = Literal["global", "shared", "remote", "register"]
"""Where a side of a copy lies; `remote` is shared memory of another block of the cluster."""
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
    rows in memory are described by `p` (thread -> start of its row) and whose registers by `q`
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

    `threads` work together on one tile; `a`, `b`, `c` say which element each value is. A `turned`
    row is the same instruction given b for a and a for b, of which it makes c turned.
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
    turned: bool = False

    def turn(self) -> MmaRow:
        """The row that computes `c^T += b * a^T`, for tiles that are too low for this one."""

        def other(modes: tuple[Mode, ...]) -> tuple[Mode, ...]:
            return tuple(Mode(x.size, x.step, 1 - x.dim) for x in modes)

        m, n, k = self.tile
        c = Fragment((n, m), other(self.c.thread), other(self.c.value))
        return replace(
            self, tile=(n, m, k), a_dtype=self.b_dtype, b_dtype=self.a_dtype, a=self.b, b=self.a,
            c=c, turned=not self.turned,
        )  # fmt: skip


@dataclass(frozen=True)
class WgmmaRow:
    """c += a * b^T by a warp group: tile (64, n, k), B and possibly A read from shared memory.

    `a_majors` and `b_majors` say which index may be contiguous there: "k", or "m" / "n" as well.
    `a` is A's fragment over (64, k) where it comes from registers, `c` over (64, n).
    """

    tile: tuple[int, int, int]
    a_dtype: DType
    b_dtype: DType
    c_dtype: DType
    a_majors: tuple[str, ...]
    b_majors: tuple[str, ...]
    a: Fragment
    c: Fragment
    timing: Timing

    def name(self, majors: str) -> str:
        """The primitive's name for operands lying as `majors` ("kk", "rk", ...)."""
        shape = "x".join(map(str, self.tile))
        return f"wgmma.{shape}.{self.c_dtype}.{self.a_dtype}.{self.b_dtype}.{majors}"


@dataclass(frozen=True)
class BulkRows:
    """The tensor memory accelerator: limits of a box and what a multiprocessor can be fed.

    `swizzles` are the spans in bytes it can write, 0 for none; `box` is the longest extent of a
    box, `rank` the most dimensions; `alignment` of bases, pitches and a box's place in its row, in
    bytes.
    """

    swizzles: tuple[int, ...]
    box: int
    rank: int
    alignment: int
    timing: Timing


@dataclass(frozen=True)
class Arch:
    """A GPU as the compiler sees it. Sizes in bytes, `copies` and `mmas` in order of preference
    among equals."""

    name: str
    capability: tuple[int, int]
    shared_per_block: int
    registers_per_thread: int
    copies: tuple[CopyRow, ...]
    mmas: tuple[MmaRow, ...]
    wgmmas: tuple[WgmmaRow, ...] = ()
    bulk: BulkRows | None = None
    registers_per_block: int = 65536

    @property
    def features(self) -> frozenset[Feature]:
        """What GPUs of this capability have."""
        return features(self.capability)
