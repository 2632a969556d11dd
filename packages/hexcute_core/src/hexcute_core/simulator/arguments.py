"""What the caller passes, checked against the program: arrays, scalars, blocks."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from hexcute_core import dtypes
from hexcute_core.dtypes import DType
from hexcute_core.errors import SimulationError
from hexcute_core.scalar import MULTIPROCESSORS, Scalar
from hexcute_core.scalar.exact import exact
from hexcute_core.simulator.lanes.scalars import compile_scalar, constant_value
from hexcute_core.simulator.lanes.state import Block, LaneState
from hexcute_core.simulator.lanes.values import Array, Value, storage
from hexcute_core.thread import ThreadParam
from hexcute_core.tile import GlobalTensor

MAX_GRID = (2**31 - 1, 65535, 65535)
SIMULATED = 2
"""Multiprocessors of the simulated GPU: few, so that blocks that stay see several tiles."""


def bind_scalars(
    program: str, expected: Mapping[str, DType], scalars: Mapping[str, int | float]
) -> dict[str, Value]:
    """A value for each scalar parameter and symbol, no more and no fewer."""
    if set(scalars) != set(expected):
        raise SimulationError(
            f"{program} takes the scalars {sorted(expected)}, got {sorted(scalars)}",
            fix="pass scalars={name: number} for each of them",
        )
    return {name: constant_value(scalars[name], dtype) for name, dtype in expected.items()}


def evaluate_symbols(e: Scalar, values: Mapping[str, Value]) -> int:
    """The integer `e` is, given the symbols it is made of."""
    result = compile_scalar(e)(LaneState(values, 1, [(0, 0, 0)]))
    return int(np.asarray(result)[()])


def bind_grid(
    program: str,
    grid_dim: tuple[Scalar, Scalar, Scalar],
    cluster: Block,
    values: Mapping[str, Value],
) -> Block:
    """The grid's size in blocks, computed in whole numbers of any size, as a launch does.

    Raises SimulationError where a launch would be refused. An extent of 0 runs nothing.
    """
    known = {**values, MULTIPROCESSORS.name: constant_value(SIMULATED, dtypes.i32)}
    x, y, z = (exact(e, known) for e in grid_dim)
    for axis, extent, most in zip("xyz", (x, y, z), MAX_GRID, strict=True):
        if not 0 <= extent <= most:
            raise SimulationError(
                f"{program}: the grid has {extent} blocks along {axis}, 0 to {most} can be "
                "launched",
                fix="compute an extent that is 0 where there is no work"
                if extent < 0
                else "give each block more of the work"
                if axis == "x"
                else "put the longest dimension along x",
            )
    if any(n % c for n, c in zip((x, y, z), cluster, strict=True)):
        raise SimulationError(
            f"{program}: the grid {x, y, z} is not made of whole clusters {cluster}",
            fix="round the grid up to a multiple of the cluster",
        )
    return x, y, z


def check_schedules(seed: object, schedules: object) -> None:
    """Refuses a seed or a number of schedules that is no number."""
    for name, value, least in (("seed", seed, 0), ("schedules", schedules, 1)):
        if not _whole(value, least):
            raise SimulationError(
                f"{name} is no whole number of at least {least}", fix=f"pass {name}={least} or more"
            )


def _whole(value: object, least: int) -> bool:
    number = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return number and least <= int(value) < 2**63  # type: ignore[call-overload]


def _is_block(block: object) -> bool:
    return isinstance(block, (tuple, list)) and len(block) == 3 and all(_whole(n, 0) for n in block)


def bind_blocks(grid: Block, blocks: Sequence[Block] | None) -> tuple[Block, ...]:
    """The blocks to run, x fastest; all of the grid for None."""
    if blocks is not None and not (
        isinstance(blocks, (tuple, list)) and all(_is_block(block) for block in blocks)
    ):
        raise SimulationError(
            "blocks is no list of places in the grid", fix="name blocks as [(x, y, z), ...]"
        )
    if blocks is None:
        places = itertools.product(range(grid[2]), range(grid[1]), range(grid[0]))
        return tuple((x, y, z) for z, y, x in places)
    for block in blocks:
        if not all(0 <= at < end for at, end in zip(block, grid, strict=True)):
            raise SimulationError(
                f"block {tuple(block)} is not in the grid {grid}", fix="name blocks (x, y, z) of it"
            )
    return tuple(blocks)


def bind_clusters(blocks: Sequence[Block], cluster: Block) -> list[list[int]]:
    """Positions in `blocks` of the blocks of each cluster, in the order of their ranks."""
    groups: dict[Block, list[tuple[Block, int]]] = {}
    for at, (x, y, z) in enumerate(blocks):
        home = (x // cluster[0], y // cluster[1], z // cluster[2])
        groups.setdefault(home, []).append(((z, y, x), at))
    size = cluster[0] * cluster[1] * cluster[2]
    for home, members in groups.items():
        if len(members) != size:
            raise SimulationError(
                f"cluster {home} has {len(members)} of its {size} blocks in the blocks to run",
                fix="name all blocks of a cluster",
            )
    return [[at for _, at in sorted(members)] for members in groups.values()]


def bind_arrays(
    program: str,
    expected: Iterable[GlobalTensor | ThreadParam],
    arrays: Mapping[str, object],
    values: Mapping[str, Value],
) -> dict[str, Array]:
    """The caller's arrays, each checked against the type, extents and strides of its parameter.

    An array is C-contiguous where its parameter has no strides of its own, of the parameter's
    element type (or an unsigned integer of the same width) and shape; types narrower than a byte
    come packed, any shape of the right size.
    """
    names = sorted(param.name for param in expected)
    if sorted(arrays) != names:
        raise SimulationError(
            f"{program} takes the arrays {names}, got {sorted(arrays)}",
            fix="pass arrays={name: numpy array} for each of them",
        )
    bound = {}
    for p in expected:
        shape, strides = (
            tuple(evaluate_symbols(e, values) for e in written) for written in (p.shape, p.strides)
        )
        bound[p.name] = _check_array(p.name, p.dtype, shape, strides, arrays[p.name])
    return bound


def refuse_overlap(program: str, arrays: Mapping[str, Array], written: set[str]) -> None:
    """Refuses arguments that share memory which the kernel writes: its code relies on pointers that
    lead to memory of their own. Parts of one array may lie between each other's rows."""
    for (one, a), (other, b) in itertools.combinations(arrays.items(), 2):
        if written & {one, other} and np.may_share_memory(a, b) and np.shares_memory(a, b):
            changed = other if other in written else one
            raise SimulationError(
                f"arguments {one} and {other} overlap in memory, and {program} writes {changed}",
                fix=f"pass {changed}.copy()",
            )


def _check_array(
    name: str, dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...], array: object
) -> Array:
    if not isinstance(array, np.ndarray):
        raise SimulationError(
            f"argument {name}: expected a numpy array, got {type(array).__name__}",
            fix="pass arrays={'" + name + "': numpy array}",
        )
    if isinstance(array, np.ma.MaskedArray):
        raise SimulationError(
            f"argument {name}: a masked array, whose mask a kernel does not see",
            fix=f"pass {name}.filled(0)",
        )
    if not strides and not array.flags.c_contiguous:
        raise SimulationError(
            f"argument {name}: the array is not contiguous", fix="pass np.ascontiguousarray(...)"
        )
    if dtype.bits < 8:
        _check_packed(name, dtype, shape, array)
        return array
    raw = np.dtype(f"u{dtype.bits // 8}")
    if array.dtype not in (storage(dtype), raw):
        same = array.dtype.itemsize == raw.itemsize and array.dtype.kind in "biu"
        way = "view" if same and storage(dtype).kind in "iu" else "astype"
        raise SimulationError(
            f"argument {name}: expected elements of type {storage(dtype)} "
            f"(or {raw} holding their bits), got {array.dtype}",
            fix=f"pass {name}.{way}({str(storage(dtype))!r})",
        )
    if array.shape != shape:
        raise SimulationError(
            f"argument {name}: expected shape {shape}, got {array.shape}",
            fix="pass the shape that the symbols give, or other symbols",
        )
    found = zip(array.strides, strides, shape)
    if any(extent > 1 and step != stride * array.itemsize for step, stride, extent in found):
        raise SimulationError(
            f"argument {name}: expected the strides {strides}, in elements, got {array.strides} in "
            "bytes",
            fix="pass an array with the strides that the symbols give, or other symbols",
        )
    return array


def _check_packed(name: str, dtype: DType, shape: tuple[int, ...], array: Array) -> None:
    expected = int(np.prod(shape, dtype=np.int64)) * dtype.bits // 8
    if array.nbytes != expected:
        raise SimulationError(
            f"argument {name}: {dtype}{list(shape)} packs into {expected} bytes, "
            f"got {array.nbytes}",
            fix="pack the elements, the first in the lowest bits, into a uint8 array",
        )
