"""TileProgram = parameters, launch shape, tensors, statements; Stmt is a closed union.

What each statement reads, writes and contains is said in `visit.py`.

Every statement carries the span of the source that wrote it and, for tile operations, an `id`
unique in the program: synthesis and lowering speak of operations by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from hexcute_core.arch.boxes import Hint, Reduction
from hexcute_core.dtypes import DType, boolean
from hexcute_core.errors import SourceSpan
from hexcute_core.scalar import Const, Scalar, Var
from hexcute_core.tile.barriers import (
    ClusterOp,
    Mbarrier,
    MbarrierOp,
    NamedBarrier,
    NamedBarrierOp,
    Pipeline,
    PipelineRelease,
    PipelineWait,
)
from hexcute_core.tile.promise import Promise
from hexcute_core.tile.says import Say
from hexcute_core.tile.tensors import GlobalTensor, Tensor, TileRef
from hexcute_core.tile.updates import Update, UpdateElement

ReduceOp = Literal["sum", "max", "min"]
ALWAYS = Const(True, boolean)


@dataclass(frozen=True)
class Fill:
    """dst[...] = value, converted to dst's type."""

    id: int
    dst: TileRef
    value: Scalar
    span: SourceSpan


@dataclass(frozen=True)
class Copy:
    """dst[x] = src[x] for every tile coordinate x; equal shapes, equal element types.

    Elements of a global source outside the buffer read as zero; those of a global destination
    are not written. `completes` names the mbarrier, and its number, on which a load by TMA
    completes its bytes. With `reduce`, which goes from shared to global memory,
    dst[x] = reduce(dst[x], src[x]), atomically. `hint` means nothing but time. `outside`, of the
    elements' type, is what registers get in place of zero. With `update`, which goes from
    registers, memory is updated instead of written.
    """

    id: int
    src: TileRef
    dst: TileRef
    span: SourceSpan
    completes: tuple[str, Scalar] | None = None
    reduce: Reduction | None = None
    hint: Hint | None = None
    outside: Scalar | None = None
    update: Update | None = None


@dataclass(frozen=True)
class Prefetch:
    """Brings global tile `src` into L2, where the target can: means nothing but time."""

    id: int
    src: TileRef
    span: SourceSpan


@dataclass(frozen=True)
class Gemm:
    """c[i, j] += sum over k of a[i, k] * b[j, k]; c (M, N) in registers, a (M, K), b (N, K).

    a and b are registers, or b and possibly a lie in shared memory where the target reads them
    from there. `warps` forces the (along M, along N) arrangement of warps, or of warp groups.
    An `asynchronous` gemm is finished by a `GemmWait`; until then c, a and b are its own. Where
    `accumulate` is false, what c held is ignored: only operands in shared memory have it.
    """

    id: int
    c: TileRef
    a: TileRef
    b: TileRef
    span: SourceSpan
    warps: tuple[int, int] | None = None
    asynchronous: bool = False
    accumulate: Scalar = ALWAYS


@dataclass(frozen=True)
class GemmWait:
    """Waits until at most `pending` of the latest asynchronous gemms are unfinished."""

    pending: int
    span: SourceSpan


@dataclass(frozen=True)
class CastTile:
    """dst[x] = src[x] converted to dst's element type."""

    id: int
    dst: TileRef
    src: TileRef
    span: SourceSpan


@dataclass(frozen=True)
class Relabel:
    """dst holds the bits of src under other coordinates, both in registers: read row by row, the
    last mode fastest and the low bits of an element first, they are those of src with its modes in
    `order`. `bits` are those of an element of src and of dst."""

    id: int
    dst: TileRef
    src: TileRef
    order: tuple[int, ...]
    bits: tuple[int, int]
    span: SourceSpan


@dataclass(frozen=True)
class Elementwise:
    """dst[x] = expr with variable `$i` standing for srcs[i][x] (broadcast along extent-1 dims)."""

    id: int
    dst: TileRef
    srcs: tuple[TileRef, ...]
    expr: Scalar
    span: SourceSpan


@dataclass(frozen=True)
class Reduce:
    """dst = src reduced along tile dimension `axis`, which dst keeps with extent `keep`: place x is
    what stands at x, x + keep, x + 2 keep, ... combined."""

    id: int
    dst: TileRef
    src: TileRef
    axis: int
    op: ReduceOp
    span: SourceSpan
    keep: int = 1


@dataclass(frozen=True)
class Scan:
    """Inclusive scan along tile dimension `axis`: dsts[..., x, ...] = the srcs at 0, ..., x
    combined, or, in `reverse`, those at the end, ..., x.

    `combine` is associative and gives one result a source over the variables of `scan_operands`,
    in the types that it is computed in; dsts have tensors of their own.
    """

    id: int
    dsts: tuple[TileRef, ...]
    srcs: tuple[TileRef, ...]
    axis: int
    combine: tuple[Scalar, ...]
    reverse: bool
    span: SourceSpan


def scan_operands(dtypes: Sequence[DType]) -> tuple[tuple[Var, ...], tuple[Var, ...]]:
    """The variables of a scan's `combine`: `$l0, $l1, ...` stand for what comes first in the
    scan's order, `$r0, $r1, ...` for what follows it."""
    left, right = (
        tuple(Var(f"${side}{i}", dtype) for i, dtype in enumerate(dtypes)) for side in "lr"
    )
    return left, right


@dataclass(frozen=True)
class Rearrange:
    """dst[x] = src[x], both registers, layouts free to differ.

    `layout`, where given, is dst's thread-value layout in CuTe notation over the tile's
    colexicographic index. Where src is `cut` from what threads share among them, all of its tensor
    goes through shared memory, and dst comes back.
    """

    id: int
    dst: TileRef
    src: TileRef
    layout: str | None
    span: SourceSpan
    cut: bool = False


@dataclass(frozen=True)
class Sync:
    """All threads of the block meet, or of the role it stands in; shared memory written before is
    visible after."""

    span: SourceSpan


@dataclass(frozen=True)
class AsyncCommit:
    """Closes the group of asynchronous copies issued so far."""

    span: SourceSpan


@dataclass(frozen=True)
class AsyncWait:
    """Waits until at most `pending` of the latest groups are unfinished."""

    pending: int
    span: SourceSpan


@dataclass(frozen=True)
class Assign:
    """var = value; the first assignment of a name in a scope declares it. The author promises that
    the value is a multiple of `multiple`."""

    var: Var
    value: Scalar
    declares: bool
    span: SourceSpan
    multiple: int = 1


@dataclass(frozen=True)
class CallStmt:
    """A primitive of the code generator called by name for its effect."""

    name: str
    args: tuple[Scalar, ...]
    span: SourceSpan


@dataclass(frozen=True)
class SetElement:
    """tensor[coords] = value inside a `ForElements` over a tensor of the same layout."""

    tensor: str
    coords: tuple[Scalar, ...]
    value: Scalar
    span: SourceSpan


@dataclass(frozen=True)
class ForElements:
    """Every thread visits its own elements of register tensor `ref`; `coords` are the tile
    coordinates. `Element` nodes of `body` name register tensors that share its layout."""

    id: int
    ref: TileRef
    coords: tuple[Var, ...]
    body: tuple[Stmt, ...]
    span: SourceSpan


@dataclass(frozen=True)
class For:
    """for var in range(start, stop, step), step > 0."""

    var: Var
    start: Scalar
    stop: Scalar
    step: Scalar
    body: tuple[Stmt, ...]
    span: SourceSpan
    unroll: bool = False


@dataclass(frozen=True)
class While:
    cond: Scalar
    body: tuple[Stmt, ...]
    span: SourceSpan


@dataclass(frozen=True)
class If:
    cond: Scalar
    then: tuple[Stmt, ...]
    otherwise: tuple[Stmt, ...]
    span: SourceSpan


@dataclass(frozen=True)
class Produce:
    """Fills slot `stage`: waits until it is empty, runs the copies of `body`, and when their data
    has arrived the slot is full. `phase` is the parity of this round of the ring, 0 first."""

    pipeline: str
    stage: Scalar
    phase: Scalar
    body: tuple[Stmt, ...]
    span: SourceSpan


@dataclass(frozen=True)
class Role:
    """What the threads [first, first + threads) do; whole warp groups, side by side with the
    other roles. `registers` a thread are claimed (setmaxnreg) where given."""

    kind: Literal["producer", "consumer"]
    first: int
    threads: int
    registers: int | None
    body: tuple[Stmt, ...]
    span: SourceSpan


Computation: TypeAlias = Fill | CastTile | Relabel | Elementwise | Reduce | Scan
"""What threads compute from their registers: nothing is planned for it but layouts."""
Tilewise: TypeAlias = Computation | Copy | Prefetch | Gemm | Rearrange
"""Operations on whole tiles."""
TileOp: TypeAlias = Tilewise | ForElements
"""The operations, which have an `id`: all threads of a team run them together."""

Control: TypeAlias = For | While | If | Produce | Role
"""Who runs the statements that these contain, when, and how often."""

Nest: TypeAlias = ForElements | Control
"""All statements that contain statements."""

Simple: TypeAlias = (
    Sync | AsyncCommit | AsyncWait | Assign | CallStmt | SetElement | GemmWait | PipelineWait
    | PipelineRelease | MbarrierOp | NamedBarrierOp | ClusterOp | UpdateElement | Say
)  # fmt: skip
"""The other statements."""

Stmt: TypeAlias = TileOp | Control | Simple


@dataclass(frozen=True)
class TileProgram:
    """One kernel, specialised: compile-time constants are folded, symbols are not."""

    name: str
    params: tuple[GlobalTensor, ...]
    scalars: tuple[tuple[str, DType], ...]
    symbols: tuple[str, ...]
    grid_dim: tuple[Scalar, Scalar, Scalar]
    block_dim: int
    tensors: tuple[Tensor, ...]
    body: tuple[Stmt, ...]
    promise: Promise
    span: SourceSpan
    min_blocks: int | None = None
    pipelines: tuple[Pipeline, ...] = ()
    cluster_dim: tuple[int, int, int] = (1, 1, 1)
    mbarriers: tuple[Mbarrier, ...] = ()
    named_barriers: tuple[NamedBarrier, ...] = ()
    # Whether roles that are one text but for numbers have one machine code.
    merge_roles: bool = False

    @cached_property
    def _tensors(self) -> dict[str, Tensor]:
        return {t.name: t for t in self.tensors}

    def tensor(self, name: str) -> Tensor:
        """The tensor called `name`."""
        return self._tensors[name]

    def pipeline(self, name: str) -> Pipeline:
        """The pipeline called `name`."""
        return next(p for p in self.pipelines if p.name == name)

    def mbarrier(self, name: str) -> Mbarrier:
        """The mbarriers called `name`."""
        return next(b for b in self.mbarriers if b.name == name)

    def named_barrier(self, name: str) -> NamedBarrier:
        """The named barrier called `name`."""
        return next(b for b in self.named_barriers if b.name == name)

    def param(self, name: str) -> GlobalTensor:
        """The parameter called `name`."""
        return next(p for p in self.params if p.name == name)
