"""What tile operations compute, on whole numpy tiles: gemm, reduce, scan, cast, elementwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hexcute_core.arch.boxes import Reduction
from hexcute_core.dtypes import DType, accumulator
from hexcute_core.errors import SimulationError
from hexcute_core.simulator.lanes.values import (
    Array,
    convert,
    from_bytes,
    storage,
    to_bytes,
    truncate_tf32,
)
from hexcute_core.tile.ir import CastTile, ReduceOp, Relabel


def multiply(c: Array, c_type: DType, a: Array, a_type: DType, b: Array, b_type: DType) -> Array:
    """c + a b^T for a [M, K], b [N, K]: summed in float32, or exactly for integers."""
    if c_type.is_float:
        product = _float_operand(a, a_type) @ _float_operand(b, b_type).T
        total: Array = (c.astype(np.float32) + product).astype(storage(c_type))
        return total
    exact: Array = c.astype(np.int64) + a.astype(np.int64) @ b.astype(np.int64).T
    wrapped: Array = exact.astype(storage(c_type))
    return wrapped


def _float_operand(cells: Array, dtype: DType) -> Array:
    return truncate_tf32(cells) if dtype.name == "tf32" else cells.astype(np.float32)


def reduce_tile(
    src: Array, dtype: DType, axis: int, op: ReduceOp, target: DType, keep: int
) -> Array:
    """`src` reduced along `axis`, which stays with extent `keep`; narrow types in 32 bits."""
    wide = accumulator(dtype)
    before, after = src.shape[:axis], src.shape[axis + 1 :]
    # How often `keep` goes into a coordinate, and what is left of it.
    folded = src.reshape(*before, -1, keep, *after)
    return _reduced(cast_tile(folded, dtype, wide), dtype, axis, op, target).reshape(
        *before, keep, *after
    )


def _reduced(cells: Array, dtype: DType, axis: int, op: ReduceOp, target: DType) -> Array:
    """`cells`, in the wide type, reduced along `axis`, which stays with extent 1."""
    wide = accumulator(dtype)
    if op == "sum":
        total: Array = np.sum(cells, axis=axis, keepdims=True, dtype=storage(wide))
        return cast_tile(total, wide, target)
    # fmax and fmin drop NaN as the machine's max and min do, which also tell 0 from -0.
    best = np.fmax if op == "max" else np.fmin
    extreme: Array = best.reduce(cells, axis=axis, keepdims=True)
    if dtype.is_float:
        zeros = (cells == 0) & (np.signbit(cells) == (op == "min"))
        signed = wide_zero(op)
        extreme = np.where((extreme == 0) & zeros.any(axis=axis, keepdims=True), signed, extreme)
    return cast_tile(extreme.astype(storage(wide)), wide, target)


def wide_zero(op: ReduceOp) -> float:
    """The zero that wins where both signs are: 0 for a maximum, -0 for a minimum."""
    return -0.0 if op == "min" else 0.0


def combine(op: Reduction, held: Array, new: Array) -> Array:
    """What memory holds once `new` is combined with what it held, in its own type."""
    # fmin and fmax drop NaN, see `reduce_tile`.
    combined: Array = {"add": np.add, "min": np.fmin, "max": np.fmax}[op](held, new)
    return combined.astype(held.dtype)


def scan_tiles(
    tiles: Sequence[tuple[Array, DType]],
    types: Sequence[DType],
    axis: int,
    reverse: bool,
    combine: Callable[[Sequence[Array]], Sequence[Array]],
) -> list[Array]:
    """`tiles` scanned along `axis` in `types`, one place after the other; `combine` gives a line
    per tile for the lines that come first and those that follow."""
    wide = [cast_tile(tile, dtype, t) for (tile, dtype), t in zip(tiles, types, strict=True)]
    lines = [np.moveaxis(tile, axis, 0) for tile in wide]
    results = [line.copy() for line in lines]
    places = range(lines[0].shape[0])
    so_far: Sequence[Array] = ()
    for place in reversed(places) if reverse else places:
        here = [line[place].reshape(-1) for line in lines]
        so_far = combine([*so_far, *here]) if so_far else here
        for result, cells in zip(results, so_far, strict=True):
            result[place] = cells.reshape(result[place].shape)
    moved = [np.moveaxis(result, 0, axis) for result in results]
    return [cast_tile(m, t, dtype) for m, t, (_, dtype) in zip(moved, types, tiles, strict=True)]


def converted(op: CastTile | Relabel, cells: Array, source: DType, target: DType) -> Array:
    """The cells of src as numbers, or as bits row by row, of another type."""
    if isinstance(op, CastTile):
        return cast_tile(cells, source, target)
    rows = np.ascontiguousarray(cells.transpose(op.order)).reshape(1, -1)
    if source == target:
        return rows.reshape(op.dst.shape)
    return from_bytes(to_bytes(rows, source), target).reshape(op.dst.shape)


def cast_tile(cells: Array, source: DType, target: DType) -> Array:
    """Cells of `source` as cells of `target`."""
    return np.asarray(convert(cells, source, target), dtype=storage(target))


def common_shape(shapes: Sequence[tuple[int, ...]], target: tuple[int, ...]) -> None:
    """Checks that `shapes` broadcast to `target` along dimensions of extent 1."""
    for shape in shapes:
        fits = len(shape) == len(target) and all(
            s in (1, t) for s, t in zip(shape, target, strict=True)
        )
        if not fits:
            raise SimulationError(f"a tile of shape {shape} does not broadcast to {target}")
