"""Tensor = GlobalView | SharedTensor | RegisterTensor; a TileRef is the part an operation touches.

A global view's strides are coordinates: moving one step along a sub-mode adds `step` to
coordinate `dim` of the parameter, so bounds are compared a dimension at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias, Union

from hexcute_core.dtypes import DType
from hexcute_core.errors import SourceSpan
from hexcute_core.scalar import Scalar, add, is_const


@dataclass(frozen=True)
class GlobalTensor:
    """A tensor parameter of `shape`, in elements (constants or symbols): row-major, or with
    `strides` of its own, one per dimension, in elements (constants or symbols)."""

    name: str
    dtype: DType
    shape: tuple[Scalar, ...]
    span: SourceSpan
    strides: tuple[Scalar, ...] = ()

    @property
    def unit(self) -> int | None:
        """The dimension along which elements follow one another in memory: the last one of a
        row-major tensor, else the last one whose stride is known to be 1, None without one."""
        if not self.strides:
            return len(self.shape) - 1
        ones = [d for d, stride in enumerate(self.strides) if is_const(stride, 1)]
        longer = [d for d in ones if not is_const(self.shape[d], 1)]
        found = longer or ones
        return found[-1] if found else None

    @property
    def inward(self) -> tuple[int, ...]:
        """The dimensions in order, but `unit` last."""
        dims = range(len(self.shape))
        return (*(d for d in dims if d != self.unit), *(d for d in dims if d == self.unit))


@dataclass(frozen=True)
class SubMode:
    """`extent:step@dim`: `extent` steps, each adding `step` to coordinate `dim` of the buffer."""

    extent: Scalar
    step: Scalar
    dim: int


@dataclass(frozen=True)
class GlobalView:
    """A view of a parameter: element (i0, i1, ...) has buffer coordinate
    `origin + sum over modes of (digits of i_m over its sub-modes) * step@dim`.

    `modes[m]` lists the sub-modes of mode m, first fastest. A mode whose extents are all
    constants may be part of a tile; one with a run-time extent must be indexed by an integer.
    The elements of mode `named`, where there is one, lie anywhere: its one sub-mode is
    `extent:1@dim`, and element i lies at `origin + rows[i]@dim`, where `rows` is the tile of
    numbers that a reference brings.
    """

    name: str
    param: str
    dtype: DType
    origin: tuple[Scalar, ...]
    modes: tuple[tuple[SubMode, ...], ...]
    span: SourceSpan
    named: int | None = None


@dataclass(frozen=True)
class SharedTensor:
    """A tile in shared memory; `shape` in elements. `layout`, where its author names one, is in the
    notation of `explain()`, `Sw<3,3,3> o (64,64):(64,1)`."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    span: SourceSpan
    layout: str | None = None


@dataclass(frozen=True)
class Arrangement:
    """What an author says of a register tensor's layout: all of it in the notation of `explain()`,
    or how many `threads` lie along each mode and how many elements a thread has side by side
    along the mode that memory has contiguous, its `vector`; None is left to the compiler."""

    layout: str | None = None
    threads: tuple[int, ...] | None = None
    vector: int | None = None

    def __str__(self) -> str:
        named = {"layout": self.layout, "threads": self.threads, "vector": self.vector}
        return ", ".join(f"{k}={v!r}" for k, v in named.items() if v is not None)


@dataclass(frozen=True)
class RegisterTensor:
    """A tile spread over the registers of the block's threads; `shape` in elements, `arranged`
    where its author says how."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    span: SourceSpan
    arranged: Arrangement | None = None


Tensor: TypeAlias = Union[GlobalView, SharedTensor, RegisterTensor]


@dataclass(frozen=True)
class TileRef:
    """The rectangular part of tensor `tensor` that an operation touches.

    Mode m covers [starts[m], starts[m] + extents[m]). Modes in `kept`, in its order, are the
    dimensions of the tile, in shared memory in any order, elsewhere in the tensor's; the others
    were indexed by an integer and have extent 1. `rank` is the
    block of the cluster whose shared tensor it is, by number, None for this block's own. `rows` is
    the shared tile that says where the elements of a view's `named` mode lie, all of the mode.
    """

    tensor: str
    starts: tuple[Scalar, ...]
    extents: tuple[int, ...]
    kept: tuple[int, ...]
    rank: Scalar | None = None
    rows: TileRef | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tile in elements."""
        return tuple(self.extents[m] for m in self.kept)


def rows_of(view: GlobalView, ref: TileRef) -> TileRef | None:
    """The numbers that say where the elements of `ref`, a part of `view`, lie along its `named`
    mode: a tile of one mode, or of none where that mode was indexed by an integer; None where all
    modes step."""
    if view.named is None or ref.rows is None:
        return None
    (mode,) = ref.rows.kept
    starts, extents = list(ref.rows.starts), list(ref.rows.extents)
    starts[mode] = add(starts[mode], ref.starts[view.named])
    extents[mode] = ref.extents[view.named]
    kept = ref.rows.kept if view.named in ref.kept else ()
    return replace(ref.rows, starts=tuple(starts), extents=tuple(extents), kept=kept)
