"""box(map, coords) = which 16-byte chunks of a tensor go to which chunks of shared memory.

A box is dense in shared memory, rows of the innermost dimension one after the other; a swizzle of
S bytes moves the 16-byte chunk at address x to x ^ ((x >> 7) & (S / 16 - 1)) << 4, x counted from
the start of shared memory. Elements outside the tensor are zeros, or are not stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from hexcute_core.simulator.arguments import evaluate_symbols
from hexcute_core.simulator.lanes.values import Array, Value
from hexcute_core.thread import TensorMap, ThreadParam

if TYPE_CHECKING:
    from hexcute_core.simulator.memory.buffers import GlobalBuffer

CHUNK = 16


def swizzled(address: Array, span: int) -> Array:
    """Where a swizzle of `span` bytes (0 for none) puts the bytes at `address`."""
    if span == 0:
        return address
    moved: Array = address ^ (((address >> 7) & (span // CHUNK - 1)) << 4)
    return moved


@dataclass(frozen=True)
class Mapped:
    """The extents and strides of a tensor that its maps count in, a dimension each: elements, or
    the bytes that hold packed ones."""

    extents: tuple[int, ...]
    strides: tuple[int, ...]

    def axes(self, tensor_map: TensorMap) -> tuple[list[int], list[int]]:
        """Extents and strides of the axes of a map."""
        dims = tensor_map.dims or range(len(self.extents))
        return [self.extents[d] for d in dims], [self.strides[d] for d in dims]


def mapped(param: ThreadParam, values: Mapping[str, Value]) -> Mapped:
    """What maps of the tensor `param` count in, where its symbols are `values`."""
    *outer, last = (evaluate_symbols(e, values) for e in param.shape)
    extents = (*outer, last // max(1, 8 // param.dtype.bits))
    strides = tuple(evaluate_symbols(e, values) for e in param.strides)
    return Mapped(extents, strides or tuple(prod(extents[d + 1 :]) for d in range(len(extents))))


@dataclass(frozen=True)
class Box:
    """A box at some coordinates: for each access of `size` bytes, row by row, its byte address in
    the global buffer and whether it lies in the tensor. Rows are whole chunks of 16 bytes."""

    size: int
    address: Array
    inside: Array

    @property
    def bytes(self) -> int:
        """Bytes of the whole box."""
        return len(self.address) * self.size


def box_at(
    tensor_map: TensorMap, buffer: GlobalBuffer, tensor: Mapped, coords: tuple[int, ...]
) -> Box:
    """The accesses of a box: 16 bytes each where rows allow it, else one element each."""
    extents, strides = tensor.axes(tensor_map)
    element = max(8, buffer.dtype.bits) // 8
    wide = all((n * element) % CHUNK == 0 for n in (tensor_map.box[-1], coords[-1], extents[-1]))
    size = CHUNK if wide else element
    per = size // element
    inside = np.ones((1,), dtype=np.bool_)
    linear = np.zeros((1,), dtype=np.int64)
    for axis, (start, count, extent, stride) in enumerate(
        zip(coords, tensor_map.box, extents, strides, strict=True)
    ):
        step = per if axis == len(extents) - 1 else 1
        at = start + np.arange(0, count, step, dtype=np.int64)
        inside = (inside[:, None] & ((at >= 0) & (at < extent))).reshape(-1)
        linear = (linear[:, None] + at * stride).reshape(-1)
    return Box(size, np.where(inside, linear * element, 0), inside)


def shared_chunks(start: int, box: Box, span: int) -> Array:
    """The shared byte address of each 16-byte chunk of a box that starts at `start`."""
    return swizzled(start + np.arange(0, box.bytes, CHUNK, dtype=np.int64), span)
