"""Solution = a fragment for every register tensor, a layout for every shared tensor, a plan for
every copy and gemm, the cost, and what was rejected and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hexcute_core.arch import CopyRow, Fragment, MmaRow, Mode, WgmmaRow
from hexcute_core.errors import SourceSpan
from hexcute_core.tile import (
    CastTile,
    Copy,
    ForElements,
    Gemm,
    Prefetch,
    Rearrange,
    TileProgram,
    TileRef,
)
from hexcute_core.tile.ir import Computation, TileOp
from hexcute_core.tile.visit import results
from hexcute_core.unions import assert_never


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


class Place(NamedTuple):
    """Where a digit of a tile stands: in the thread index (`lane`) or among a thread's values,
    `stride` apart."""

    lane: bool
    stride: int


class Move(NamedTuple):
    """A digit of `size` that a rearrange takes from `src` to `dst`."""

    size: int
    dst: Place
    src: Place


@dataclass(frozen=True)
class Exchange:
    """A rearrange within warps: every digit with both its places; `own` are the (size, place) of
    source thread digits that hold copies, where a thread asks its own."""

    moves: tuple[Move, ...]
    own: tuple[tuple[int, int], ...]

    @property
    def crossing(self) -> tuple[Move, ...]:
        """Digits that are values in the source and threads in the destination."""
        return tuple(m for m in self.moves if m.dst.lane and not m.src.lane)

    @property
    def shuffles(self) -> int:
        """Shuffles a thread takes part in; 0 where every value stays with its thread."""
        if all(m.dst.lane == m.src.lane and (m.dst == m.src or not m.dst.lane) for m in self.moves):
            return 0
        count = 1
        for m in self.moves:
            if not m.dst.lane or not m.src.lane:
                count *= m.size
        return count

    @property
    def name(self) -> str:
        return f"{self.shuffles} shuffles" if self.shuffles else "registers renamed"


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
class Operand:
    """A wgmma operand tile (rows, k): which index is contiguous ("k", or "m"), over `span` bytes;
    a span of 16 is the layout without swizzle. One instruction reads `rows` x `depth` of it."""

    major: str
    span: int
    rows: int
    depth: int

    @property
    def name(self) -> str:
        return f"wgmma {self.major}-major, {self.span}-byte rows"

    @property
    def swizzle(self) -> int:
        """Bytes of the swizzle's span, 0 for none."""
        return self.span if self.span > 16 else 0


@dataclass(frozen=True)
class BulkPlan:
    """What TMA does to a tile by primitive `name`: `box` an axis of the tensor map, which are the
    parameter's dimensions, those along which elements follow one another last, `dims[d]` the axis
    of tile dimension d, `reps` the boxes of the tile, `span` the swizzle's (16 for none)."""

    name: str
    param: str
    box: tuple[int, ...]
    dims: tuple[int, ...]
    reps: tuple[Rep, ...]
    span: int
    bytes: int

    @property
    def load(self) -> bool:
        """Whether shared memory is written."""
        return self.name == "tma.load"

    @property
    def calls(self) -> int:
        """Boxes."""
        n = 1
        for rep in self.reps:
            n *= rep.size
        return n


@dataclass(frozen=True)
class WgmmaPlan:
    """How one gemm runs: repetitions along M, N and K with C's and A's register strides.

    Warp group g works at (g % groups[0], g // groups[0]) of the (M, N) arrangement.
    """

    row: WgmmaRow
    groups: tuple[int, int]
    repeats: tuple[int, int, int]
    c_strides: tuple[int, int]
    c_pieces: tuple[int, ...]
    a_strides: tuple[int, int]
    a_pieces: tuple[int, ...]

    @property
    def a_in_registers(self) -> bool:
        return bool(self.a_pieces)


@dataclass(frozen=True)
class Multicast:
    """A load by TMA that `blocks` blocks of a cluster share, those along `axes` of it (0 for x):
    each loads its `rows` of every box along tile dimension `dim`, to all of them."""

    axes: tuple[int, ...]
    blocks: int
    dim: int
    rows: int


@dataclass(frozen=True)
class Rejected:
    """A candidate that was not chosen: what it was for and why it lost."""

    subject: str
    candidate: str
    reason: str
    span: SourceSpan | None


def kind(op: TileOp) -> str:
    """What an explanation calls operations of one kind."""
    if isinstance(op, Copy) and op.update is not None:
        return f"atomic {op.update.op}"
    return {CastTile: "cast", ForElements: "elements"}.get(type(op), type(op).__name__.lower())


def subject(op: TileOp) -> str:
    """What an explanation calls an operation: its kind, and the tensors that tell it apart."""
    match op:
        case Copy():
            names = f"{_named(op.src)} -> {_named(op.dst)}"
        case Rearrange():
            names = f"{op.src.tensor} -> {op.dst.tensor}"
        case Prefetch():
            names = op.src.tensor
        case ForElements():
            names = op.ref.tensor
        case _ if isinstance(op, Gemm | Computation):
            names = ", ".join(ref.tensor for ref in results(op))
        case _:
            assert_never(op)
    return f"{kind(op)} {names}"


def _named(ref: TileRef) -> str:
    return ref.tensor if ref.rank is None else f"remote {ref.tensor}"


@dataclass(frozen=True)
class Inserted:
    """A rearrange that the compiler had to add: operation `op` of `program`, moving `tensor` from
    what `source` (a line) gives to what `target` needs."""

    op: int
    tensor: str
    source: SourceSpan
    target: SourceSpan


@dataclass(frozen=True)
class Solution:
    """The outcome of synthesis; costs in clocks of one block.

    A copy or gemm has its plan in one of `copies`, `bulk` (by TMA), `gemms` and `wgmmas`, a
    prefetch that does something in `bulk`; `operands` says how the "a" or "b" of a wgmma lies in
    shared memory.

    `program` is the tile program that was solved: nothing dead, rearranges through shared memory
    written out as copies; `exchanges` has those within warps, `inserted` those the author did not
    write.
    """

    program: TileProgram
    fragments: Mapping[str, Fragment]
    shared: Mapping[str, SharedLayout]
    copies: Mapping[int, CopyPlan]
    gemms: Mapping[int, GemmPlan]
    exchanges: Mapping[int, Exchange]
    op_cost: Mapping[int, float]
    rejected: tuple[Rejected, ...]
    exact: bool
    seconds: float
    inserted: tuple[Inserted, ...] = ()
    bulk: Mapping[int, BulkPlan] = field(default_factory=dict)
    wgmmas: Mapping[int, WgmmaPlan] = field(default_factory=dict)
    operands: Mapping[tuple[int, str], Operand] = field(default_factory=dict)
    multicasts: Mapping[int, Multicast] = field(default_factory=dict)

    @property
    def cost(self) -> float:
        return sum(self.op_cost.values())
