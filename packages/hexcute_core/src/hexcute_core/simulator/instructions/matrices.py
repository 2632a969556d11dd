"""A wgmma operand in shared memory: which 16-byte chunks hold which of its elements.

From the PTX ISA, "Asynchronous warpgroup matrix shared memory layout". An operand of R rows (of M
or N) by K elements lies in 16-byte chunks. With S the swizzle's span in bytes, L and D the
leading and stride byte offsets of its descriptor:

    K-major, chunk c along K of row r
        (r mod 8) * 16 + c * L + (r div 8) * D            without swizzle
        (r mod 8) * S + c * 16 + (r div 8) * D            swizzled
    M- or N-major, chunk q along the rows (8 of 16 bits), at depth k
        (k mod 8) * 16 + q * D + (k div 8) * L            without swizzle
        (k mod 8) * S + (q mod S/16) * 16 + (q div S/16) * L + (k div 8) * D     swizzled

and the swizzle is applied to the address.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from hexcute_core.dtypes import DType
from hexcute_core.simulator.instructions.boxes import CHUNK, swizzled
from hexcute_core.simulator.lanes.values import Array, from_bytes


@cache
def _k_major(rows: int, chunks: int, leading: int, stride: int, swizzle: int) -> Array:
    """Byte offsets [rows, chunks] from the descriptor's start."""
    r, c = np.arange(rows)[:, None], np.arange(chunks)[None, :]
    row, step = (swizzle, CHUNK) if swizzle else (CHUNK, leading)
    inner = r % 8 * row + c * step
    offsets: Array = inner + r // 8 * stride
    return offsets


@cache
def _row_major(depth: int, chunks: int, leading: int, stride: int, swizzle: int) -> Array:
    """Byte offsets [depth, chunks] of an operand whose rows are contiguous."""
    k, q = np.arange(depth)[:, None], np.arange(chunks)[None, :]
    if swizzle:
        wide = swizzle // CHUNK
        offsets: Array = k % 8 * swizzle + q % wide * CHUNK + q // wide * leading + k // 8 * stride
    else:
        offsets = k % 8 * CHUNK + q * stride + k // 8 * leading
    return offsets


class MatrixShape:
    """Rows, depth and element type of an operand, and whether it is K-major."""

    def __init__(self, rows: int, depth: int, dtype: DType, k_major: bool) -> None:
        self.rows, self.depth, self.dtype, self.k_major = rows, depth, dtype, k_major
        self._per = CHUNK * 8 // dtype.bits

    def chunks(self, start: int, part: range, leading: int, stride: int, swizzle: int) -> Array:
        """The byte address of every chunk of rows `part`, flat; `part` is whole chunks where
        rows are contiguous."""
        if self.k_major:
            shape = (self.rows, self.depth // self._per, leading, stride, swizzle)
            offsets = _k_major(*shape)[part.start : part.stop]
        else:
            shape = (self.depth, self.rows // self._per, leading, stride, swizzle)
            offsets = _row_major(*shape)[:, part.start // self._per : part.stop // self._per]
        return swizzled(start + offsets.reshape(-1).astype(np.int64), swizzle)

    def elements(self, raw: Array, rows: int) -> Array:
        """The elements [rows, depth] of chunks [n, 16] in the order of `chunks`."""
        cells = from_bytes(raw, self.dtype)
        if self.k_major:
            return cells.reshape(rows, self.depth)
        turned: Array = cells.reshape(self.depth, rows).T
        return turned
