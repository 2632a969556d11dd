"""ThreadProgram = parameters, launch shape, shared arena, statements of one thread.

Scalars in a thread program may use the variables threadIdx.x, blockIdx.{x,y,z}, the symbols and
scalar parameters by name, loop variables and locals, and `Element(array, (i,), dtype)` for
register arrays. Built-ins are i32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, Union

from hexcute_core.dtypes import DType
from hexcute_core.errors import SourceSpan
from hexcute_core.scalar import Scalar, Var


@dataclass(frozen=True)
class ThreadParam:
    """A kernel parameter, in launch order: pointers to global tensors, then scalars and symbols.

    `shape` is empty for a scalar, `strides` (in elements) for a row-major tensor. A pointer's
    `aligned` promises 16-byte alignment, `begins` a multiple of fewer bytes.
    """

    name: str
    dtype: DType
    shape: tuple[Scalar, ...] = ()
    pointer: bool = False
    aligned: bool = False
    strides: tuple[Scalar, ...] = ()
    begins: int = 1


@dataclass(frozen=True)
class Regs:
    """Registers of `array`: for each piece p, elements offset + pieces[p] + [0, width).

    `offset` is the same in all threads of a warp; `pieces` are element offsets known now. Where
    the C++ compiler cannot work out `offset`, it keeps the array in local memory.
    """

    array: str
    offset: Scalar
    pieces: tuple[int, ...]
    width: int
    dtype: DType

    @property
    def count(self) -> int:
        """Elements in all pieces."""
        return len(self.pieces) * self.width


@dataclass(frozen=True)
class GlobalPtr:
    """Address of element `offset` (row-major linear index) of parameter `param`."""

    param: str
    offset: Scalar
    dtype: DType


@dataclass(frozen=True)
class SharedPtr:
    """Byte address `offset` within the kernel's shared arena."""

    offset: Scalar


@dataclass(frozen=True)
class RemotePtr:
    """Byte address `offset` within the arena of block `rank` of the cluster."""

    offset: Scalar
    rank: Scalar


@dataclass(frozen=True)
class MapRef:
    """A box of a tensor map at `coords` (elements), one per dimension of the tensor, outermost
    first as in its shape; the backend hands them to PTX innermost first."""

    name: str
    coords: tuple[Scalar, ...]


@dataclass(frozen=True)
class MatrixDesc:
    """A wgmma operand in shared memory, at byte `offset` of the arena.

    `leading` and `stride` are the descriptor's byte offsets (PTX ISA, "Matrix descriptor"),
    `swizzle` the span in bytes: 0, 32, 64 or 128.
    """

    offset: Scalar
    leading: int
    stride: int
    swizzle: int


Operand: TypeAlias = Union[Regs, GlobalPtr, SharedPtr, RemotePtr, MapRef, MatrixDesc, Scalar]


@dataclass(frozen=True)
class DeclareArray:
    """A per-thread register array, uninitialised."""

    array: str
    dtype: DType
    size: int


@dataclass(frozen=True)
class SetElement:
    """array[index] = value."""

    array: str
    index: Scalar
    value: Scalar
    span: SourceSpan | None = None


@dataclass(frozen=True)
class Assign:
    """var = value; `declares` opens the variable in the enclosing block. Somebody relies on it that
    the value is a multiple of `multiple`."""

    var: Var
    value: Scalar
    declares: bool
    span: SourceSpan | None = None
    multiple: int = 1


@dataclass(frozen=True)
class Prim:
    """One primitive of `thread.prims`, or a call by name of the code generator's own.

    `op` is the copy of the tile program, by id, whose elements it moves.
    """

    name: str
    operands: tuple[Operand, ...]
    span: SourceSpan | None = None
    op: int | None = None


@dataclass(frozen=True)
class For:
    """for var in range(start, stop, step); an unrolled one has constant bounds."""

    var: Var
    start: Scalar
    stop: Scalar
    step: Scalar
    body: tuple[Stmt, ...]
    unroll: bool = False
    span: SourceSpan | None = None


@dataclass(frozen=True)
class While:
    cond: Scalar
    body: tuple[Stmt, ...]
    span: SourceSpan | None = None


@dataclass(frozen=True)
class If:
    """`then` where `cond` holds, else `otherwise`; `op` is the copy that the lowering made it for,
    None for an author's."""

    cond: Scalar
    then: tuple[Stmt, ...]
    otherwise: tuple[Stmt, ...] = ()
    span: SourceSpan | None = None
    op: int | None = None


@dataclass(frozen=True)
class Say:
    """Prints `text`, a format of `args`; where it `stops`, the kernel ends in an error that says
    it."""

    text: str
    args: tuple[Scalar, ...]
    stops: bool
    span: SourceSpan | None = None


@dataclass(frozen=True)
class Stamp:
    """Notes the clock: from here on the thread is in what stamp `at` of run number `run` of the
    program's `stamps` opens."""

    run: int
    at: int
    span: SourceSpan | None = None


Stmt: TypeAlias = Union[DeclareArray, SetElement, Assign, Prim, Say, Stamp, For, While, If]

Activity: TypeAlias = Literal["wait", "copy", "multiply", "store"]
"""What a thread does, as a timeline tells it."""


@dataclass(frozen=True)
class Interval:
    """A stretch of the program in which a thread does one thing, written at `span`."""

    activity: Activity
    span: SourceSpan | None


@dataclass(frozen=True)
class Stamps:
    """What the stamps of a program note, and where to: the scalar parameters `params`, in the order
    of `stamps.PARAMETERS`, say where the buffer lies.

    A run is the stamps that follow one another in one block of statements, with no other stamps
    between: a thread that comes to the first comes to the last, so that it may write them at once.
    Each opens the interval of that number, or none.
    """

    intervals: tuple[Interval, ...]
    runs: tuple[tuple[int | None, ...], ...]
    params: tuple[str, ...]

    def opens(self, stamp: Stamp) -> int | None:
        """The interval that `stamp` opens."""
        return self.runs[stamp.run][stamp.at]


@dataclass(frozen=True)
class TensorMap:
    """A TMA descriptor the host makes for parameter `param`: its whole extent.

    Axis i of the map is dimension `dims[i]` of the parameter, i itself where `dims` is empty; the
    last axis is one along which elements follow one another. `box` is in elements, one per
    dimension, outermost first; the innermost spans at most `swizzle` bytes where that is not 0. Of
    types narrower than a byte it maps the bytes that hold them: the innermost extent, and the
    innermost coordinate of a box, count those. Passed by value behind the scalars, in
    `ThreadProgram.maps` order.
    """

    name: str
    param: str
    box: tuple[int, ...]
    swizzle: int
    dims: tuple[int, ...] = ()


@dataclass(frozen=True)
class ThreadProgram:
    """What every thread of the block runs; `shared_bytes` is the arena's size."""

    name: str
    params: tuple[ThreadParam, ...]
    grid_dim: tuple[Scalar, Scalar, Scalar]
    block_dim: int
    shared_bytes: int
    body: tuple[Stmt, ...]
    min_blocks: int | None = None
    maps: tuple[TensorMap, ...] = ()
    cluster_dim: tuple[int, int, int] = (1, 1, 1)
    stamps: Stamps | None = None
