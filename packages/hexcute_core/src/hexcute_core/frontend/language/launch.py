"""`hx.attrs.cuda.*` and the built-in indices: how a kernel is launched, where a thread stands."""

from __future__ import annotations

import math
from itertools import islice
from typing import Any

from hexcute_core import dtypes
from hexcute_core.frontend.language.builder import Builder, current
from hexcute_core.frontend.language.subscript import static_int
from hexcute_core.scalar import Scalar, ScalarBase, Var, as_scalar, free_vars
from hexcute_core.scalar.launch import MULTIPROCESSORS
from hexcute_core.scalar.visit import substitute, walk

_ATTRIBUTES = ("grid_dim", "block_dim", "min_blocks", "cluster_dim", "merge_roles")
MAX_THREADS = 1024
MAX_CLUSTER = 8
"""Blocks of a cluster that every GPU with clusters runs."""
MOST_OF_GRID = 4096
"""Operations of an extent of the grid, which every launch computes in Python."""


def told(builder: Builder, name: str) -> Any:
    """The launch attribute `name` as it is now. It may not change any more: what is traced from it
    would be of another launch."""
    builder.launch.read.setdefault(name, builder.span)
    return getattr(builder.launch, name)


class Index:
    """`threadIdx` or `blockIdx`: attributes x, y, z are i32 scalars."""

    def __init__(self, base: str) -> None:
        self._base = base

    @property
    def x(self) -> Scalar:
        return Var(f"{self._base}.x", dtypes.i32)

    @property
    def y(self) -> Scalar:
        return Var(f"{self._base}.y", dtypes.i32)

    @property
    def z(self) -> Scalar:
        return Var(f"{self._base}.z", dtypes.i32)

    def __repr__(self) -> str:
        return self._base


class GridDim:
    """`gridDim`: the extents given to `hx.attrs.cuda.grid_dim`, which must be set before, or those
    that `hx.persistent` chose, from its first loop on."""

    @property
    def x(self) -> Scalar:
        return self._extent(0)

    @property
    def y(self) -> Scalar:
        return self._extent(1)

    @property
    def z(self) -> Scalar:
        return self._extent(2)

    def _extent(self, axis: int) -> Scalar:
        builder = current("hx.gridDim")
        if builder.launch.grid_dim is None:
            raise builder.error(
                "hx.gridDim is read before hx.attrs.cuda.grid_dim is set",
                fix="set hx.attrs.cuda.grid_dim at the top of the kernel",
            )
        extent: Scalar = told(builder, "grid_dim")[axis]
        if MULTIPROCESSORS in walk(extent):
            # Known to the launch, which counts them; threads are told what became of it.
            return Var(f"gridDim.{'xyz'[axis]}", dtypes.i32)
        return extent


class CudaAttrs:
    """The launch attributes that `Attrs` names; setting one configures the kernel being traced."""

    def __getattr__(self, name: str) -> object:
        if name not in _ATTRIBUTES:
            raise AttributeError(name)
        builder = current(f"hx.attrs.cuda.{name}")
        value: object = told(builder, name)
        if value is None:
            raise builder.error(
                f"hx.attrs.cuda.{name} is read before it is set", fix="set it first"
            )
        return value

    def __setattr__(self, name: str, value: object) -> None:
        builder = current(f"hx.attrs.cuda.{name}")
        if builder.region.at_run_time:
            raise builder.error(
                f"hx.attrs.cuda.{name} is set inside {builder.region.describe()}",
                fix="set it at the top of the kernel",
            )
        before = str(getattr(builder.launch, name, None))
        match name:
            case "grid_dim":
                builder.launch.grid_dim = _grid(value)
            case "block_dim":
                builder.launch.block_dim = _count(name, value, MAX_THREADS)
            case "min_blocks":
                builder.launch.min_blocks = _count(name, value, 32)
            case "cluster_dim":
                builder.launch.cluster_dim = _cluster(value)
            case "merge_roles":
                if not isinstance(value, bool):
                    raise builder.error(
                        f"merge_roles is True or False, known at compile time; got {value}",
                        fix="write hx.attrs.cuda.merge_roles = True",
                    )
                builder.launch.merge_roles = value
            case _:
                raise builder.error(
                    f"there is no attribute hx.attrs.cuda.{name}",
                    fix=f"the attributes are {', '.join(_ATTRIBUTES)}",
                )
        read = builder.launch.read.get(name)
        if read is not None and str(getattr(builder.launch, name)) != before:
            raise builder.error(
                f"hx.attrs.cuda.{name} is set after it was read at line {read.line}, where it was "
                f"{before}",
                fix="set it at the top of the kernel, before anything depends on it",
            )


class Attrs:
    """How a kernel is launched; set inside a kernel, read there once set.

    `hx.attrs.cuda.grid_dim`: one to three extents, of symbols, scalar parameters and constants.
    `.block_dim`: threads per block, an int. `.min_blocks`: blocks that must fit a multiprocessor.
    `.cluster_dim`: blocks a cluster along x, y, z. `.merge_roles`: roles that are one text but for
    numbers have one machine code. Raises FrontendError for what is read before it
    is set, or set where it is decided at run time.
    """

    def __init__(self) -> None:
        self.cuda = CudaAttrs()


def before_launch(builder: Builder, e: Scalar) -> Scalar:
    """`e` in symbols and scalar parameters where it is made of those alone: the launch knows no
    variables of the kernel.

    Raises FrontendError, located, where it is longer than any grid has use for.
    """
    while free_vars(e) & builder.of_symbols.keys():
        e = substitute(e, builder.of_symbols)
        if sum(1 for _ in islice(walk(e), MOST_OF_GRID + 1)) > MOST_OF_GRID:
            raise builder.error(
                f"an extent of the grid is an expression of more than {MOST_OF_GRID} operations",
                fix="compute it before the launch and give it to the kernel as a scalar parameter",
            )
    return e


def _grid(value: object) -> tuple[Scalar, Scalar, Scalar]:
    builder = current("hx.attrs.cuda.grid_dim")
    entries = value if isinstance(value, (tuple, list)) else (value,)
    if not 1 <= len(entries) <= 3:
        raise builder.error(
            f"grid_dim takes one to three extents, got {len(entries)}", fix="write grid_dim = x, y"
        )
    extents: list[Scalar] = []
    for entry in entries:
        number = isinstance(entry, (int, ScalarBase)) and not isinstance(entry, bool)
        extent = as_scalar(entry) if number else None
        known = None if extent is None else static_int(extent)
        below = known is not None and known < 1
        if extent is None or not extent.dtype.is_integer or below:
            raise builder.error(
                f"grid_dim takes positive integers and integer scalars, got {entry!r}",
                fix="write hx.cdiv(m, BM)",
            )
        extent = before_launch(builder, extent)
        unknown = free_vars(extent) - builder.uniform
        if unknown:
            raise builder.error(
                f"grid_dim depends on {', '.join(sorted(unknown))}, unknown before the launch",
                fix="use symbols, scalar parameters and compile-time constants only",
            )
        extents.append(extent)
    one = as_scalar(1)
    extents += [one] * (3 - len(extents))
    return extents[0], extents[1], extents[2]


def _cluster(value: object) -> tuple[int, int, int]:
    builder = current("hx.attrs.cuda.cluster_dim")
    entries = value if isinstance(value, (tuple, list)) else (value,)
    extents = [static_int(entry) for entry in entries]
    known = [extent for extent in extents if extent is not None and extent >= 1]
    if len(known) != len(extents) or not 1 <= len(known) <= 3 or math.prod(known) > MAX_CLUSTER:
        raise builder.error(
            f"cluster_dim takes one to three positive ints known at compile time, of product "
            f"{MAX_CLUSTER} at most, got {value}",
            fix="write hx.attrs.cuda.cluster_dim = 2, 1",
        )
    x, y, z = (*known, 1, 1)[:3]
    return x, y, z


def _count(name: str, value: object, limit: int) -> int:
    builder = current(f"hx.attrs.cuda.{name}")
    count = static_int(value)
    if count is None or not 1 <= count <= limit:
        raise builder.error(
            f"{name} must be an int from 1 to {limit} known at compile time, got {value}",
            fix=f"write hx.attrs.cuda.{name} = {128 if name == 'block_dim' else 1}",
        )
    if name == "block_dim" and count % 32:
        raise builder.error(
            f"block_dim must be a multiple of 32 (whole warps), got {count}",
            fix=f"use {-(-count // 32) * 32}",
        )
    return count
