"""A tile of a tensor as a numpy array: read and written at the coordinates a TileRef names.

Global views read zero and write nothing outside the buffer, a dimension at a time. Shared and
register tiles know which of their elements were written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

import numpy as np

from hexcute_core.arch.boxes import Reduction
from hexcute_core.dtypes import DType
from hexcute_core.errors import SimulationError, SourceSpan
from hexcute_core.scalar import Scalar
from hexcute_core.simulator.lanes.values import Array, from_bytes, storage, to_bytes
from hexcute_core.simulator.oracle.tile_math import combine
from hexcute_core.tile import GlobalView, RegisterTensor, SharedTensor, TileRef, rows_of

Index = Callable[[Scalar], int]
"""The integer a scalar is in the running block."""


class Buffer:
    """A global parameter's cells, flat; handed back to the caller's array by `write_back`."""

    def __init__(self, name: str, dtype: DType, shape: tuple[int, ...], array: Array) -> None:
        self.name = name
        self.dtype = dtype
        self.shape = shape
        self.array = array
        self._before = np.ascontiguousarray(array).reshape(1, -1).view(np.uint8)
        self.cells = from_bytes(self._before, dtype).reshape(-1).copy()
        self._before = self._before.copy()

    def write_back(self) -> None:
        """The cells' bytes go into the caller's array, in place; nothing where they are the same,
        as those of an array whose elements share memory have to be."""
        raw = to_bytes(self.cells.reshape(1, -1), self.dtype)
        if not np.array_equal(raw.reshape(-1), self._before.reshape(-1)):
            elements = raw.reshape(-1).view(self.array.dtype)
            self.array[...] = elements.reshape(self.array.shape)


class LocalTile:
    """A register or shared tensor: cells of the tile's shape and which of them were written."""

    def __init__(self, tensor: RegisterTensor | SharedTensor) -> None:
        self.name = tensor.name
        self.dtype = tensor.dtype
        self.shape = tensor.shape
        self.cells = np.zeros(tensor.shape, dtype=storage(tensor.dtype))
        self.written = np.zeros(tensor.shape, dtype=np.bool_)


class TileMemory:
    """Every tensor of the running block; `cluster` are those of all blocks of its cluster."""

    def __init__(self, buffers: Mapping[str, Buffer]) -> None:
        self.buffers = buffers
        self.views: dict[str, GlobalView] = {}
        self.local: dict[str, LocalTile] = {}
        self.cluster: list[TileMemory] = [self]

    def dtype(self, ref: TileRef) -> DType:
        """Element type of the tensor of `ref`."""
        holder = self.views.get(ref.tensor) or self.local[ref.tensor]
        return holder.dtype

    def bytes(self, ref: TileRef) -> int:
        """What the tile's elements take in memory."""
        return prod(ref.shape) * self.dtype(ref).bits // 8

    def read(
        self, ref: TileRef, index: Index, span: SourceSpan, outside: Array | None = None
    ) -> Array:
        """The tile's cells, of shape `ref.shape`; `outside`, or zero, where a view leaves its
        tensor."""
        view = self.views.get(ref.tensor)
        if view is not None:
            buffer, place, inside = self.locate(view, ref, index, span)
            cells = buffer.cells[place] if len(buffer.cells) else buffer.cells.dtype.type(0)
            other = buffer.cells.dtype.type(0) if outside is None else outside
            masked: Array = np.where(inside, cells, other)
            return masked
        tile = self._holder(ref, index, span)
        window = _window(tile, ref, index, span)
        if not _kept(tile.written[window], ref).all():
            raise SimulationError(f"{tile.name} is read before all of it was written", span)
        held: Array = _kept(tile.cells[window], ref).copy()
        return held

    def write(
        self,
        ref: TileRef,
        cells: Array,
        index: Index,
        span: SourceSpan,
        reduction: Reduction | None = None,
    ) -> None:
        """Stores cells of shape `ref.shape`, combined with what a global view holds by
        `reduction`."""
        view = self.views.get(ref.tensor)
        if view is not None:
            buffer, place, inside = self.locate(view, ref, index, span)
            new = np.broadcast_to(cells, inside.shape)[inside]
            if reduction is not None:
                new = combine(reduction, buffer.cells[place[inside]], new)
            buffer.cells[place[inside]] = new
            return
        tile = self._holder(ref, index, span)
        window = _window(tile, ref, index, span)
        _kept(tile.cells[window], ref)[...] = cells
        tile.written[window] = True

    def _holder(self, ref: TileRef, index: Index, span: SourceSpan) -> LocalTile:
        """The tensor of `ref`, in the block that has it."""
        if ref.rank is None:
            return self.local[ref.tensor]
        rank = index(ref.rank)
        if not 0 <= rank < len(self.cluster):
            raise SimulationError(
                f"{ref.tensor} of block {rank} of a cluster of {len(self.cluster)}", span
            )
        return self.cluster[rank].local[ref.tensor]

    def locate(
        self, view: GlobalView, ref: TileRef, index: Index, span: SourceSpan
    ) -> tuple[Buffer, Array, Array]:
        """Linear index and in-bounds mask of every element of the tile."""
        buffer = self.buffers[view.param]
        coords = [np.full([1] * len(ref.extents), index(o), dtype=np.int64) for o in view.origin]
        rows = rows_of(view, ref)
        for m, submodes in enumerate(view.modes):
            if m == view.named and rows is not None:
                line = [-1 if axis == m else 1 for axis in range(len(ref.extents))]
                numbers = self.read(rows, index, span).astype(np.int64)
                coords[submodes[0].dim] = coords[submodes[0].dim] + numbers.reshape(line)
                continue
            rest = index(ref.starts[m]) + np.arange(ref.extents[m], dtype=np.int64)
            for s, sub in enumerate(submodes):
                extent = index(sub.extent)
                digit = rest if s == len(submodes) - 1 else rest % extent
                rest = rest // max(extent, 1)
                line = [-1 if axis == m else 1 for axis in range(len(ref.extents))]
                coords[sub.dim] = coords[sub.dim] + (digit * index(sub.step)).reshape(line)
        inside = np.ones(ref.extents, dtype=np.bool_)
        linear = np.zeros(ref.extents, dtype=np.int64)
        for coordinate, extent in zip(coords, buffer.shape, strict=True):
            inside &= (coordinate >= 0) & (coordinate < extent)
            linear = linear * extent + coordinate
        return buffer, _kept(np.where(inside, linear, 0), ref), _kept(inside, ref)


def _window(tile: LocalTile, ref: TileRef, index: Index, span: SourceSpan) -> tuple[slice, ...]:
    window = []
    for mode, (start, extent) in enumerate(zip(ref.starts, ref.extents, strict=True)):
        at = index(start)
        if at < 0 or at + extent > tile.shape[mode]:
            raise SimulationError(
                f"{tile.name}: [{at}, {at + extent}) is outside mode {mode} of extent "
                f"{tile.shape[mode]}",
                span,
            )
        window.append(slice(at, at + extent))
    return tuple(window)


def _kept(cells: Array, ref: TileRef) -> Array:
    """A view of `cells` [all modes] with the kept modes only, in their order."""
    dropped = tuple(m for m in range(cells.ndim) if m not in ref.kept)
    ordered = cells.transpose((*dropped, *ref.kept))
    view: Array = ordered[(0,) * len(dropped)]
    return view
