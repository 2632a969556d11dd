"""What a `for` may iterate over: run-time ranges and grids, elements of a tile, Python values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hexcute_core.dtypes import i32
from hexcute_core.errors import FrontendError
from hexcute_core.frontend.language.builder import Builder, current
from hexcute_core.frontend.language.launch import before_launch, told
from hexcute_core.frontend.language.subscript import static_int
from hexcute_core.frontend.language.tiles import LazyTile, Tile, describe
from hexcute_core.scalar import (
    MULTIPROCESSORS,
    Scalar,
    ScalarBase,
    Var,
    as_scalar,
    cdiv,
    floordiv,
    free_vars,
    maximum,
    minimum,
    mul,
)


def _no_python_loop(what: str) -> FrontendError:
    return FrontendError(
        f"{what} drives a loop of the program, not of Python",
        fix="write the `for` in the kernel or in an @hx.device function",
    )

MOST_TURNS = 2**16
"""Turns of a loop that is expanded: more would take the compiler hours."""


@dataclass(frozen=True)
class LoopRange:
    """range(start, stop, step), step > 0, run by the program."""

    start: Scalar
    stop: Scalar
    step: Scalar
    unroll: bool = False

    def __iter__(self) -> Iterator[Any]:
        raise _no_python_loop("hx.unroll" if self.unroll else "range")


@dataclass(frozen=True)
class Grid:
    """A nest of ranges, the last one innermost."""

    ranges: tuple[LoopRange, ...]

    def __iter__(self) -> Iterator[Any]:
        raise _no_python_loop("hx.grid")


@dataclass(frozen=True, eq=False)
class Elements:
    """A thread's own elements of a register tile."""

    tile: Tile

    def __iter__(self) -> Iterator[Any]:
        raise _no_python_loop("hx.elements")


def loop_range(builder: Builder, what: str, args: tuple[object, ...]) -> LoopRange:
    """The bounds of `range(...)`: one to three integers, scalars allowed."""
    if not 1 <= len(args) <= 3:
        raise builder.error(f"{what} takes one to three integers, got {len(args)}")
    for arg in args:
        number = isinstance(arg, (int, ScalarBase)) and not isinstance(arg, bool)
        if not number or not as_scalar(arg).dtype.is_integer:
            raise builder.error(
                f"{what} takes integers, got {describe(arg)}",
                fix="use integers, or hx.cast(x, i32)",
            )
    start, stop = (0, args[0]) if len(args) == 1 else args[:2]
    step = args[2] if len(args) == 3 else 1
    known = static_int(step)
    if known is not None and known < 1:
        raise builder.error(
            f"{what} with step {known}",
            fix="count up and compute the falling index, or use hx.static_range",
        )
    return LoopRange(as_scalar(start), as_scalar(stop), as_scalar(step))


def grid(*extents: object) -> Grid:
    """`for i, j in hx.grid(a, b):` a nest of run-time loops from 0."""
    builder = current("hx.grid")
    if not extents:
        raise builder.error("hx.grid needs at least one extent", fix="write hx.grid(a, b)")
    return Grid(tuple(loop_range(builder, "hx.grid", (extent,)) for extent in extents))


def persistent(count: object, *, even: bool = False) -> LoopRange:
    """`for tile in hx.persistent(tiles):` shares tiles 0 to `count` - 1 out among blocks that stay:
    block b gets b, b + gridDim.x, ... In a kernel with clusters, whose blocks lie along x, it is
    clusters that get a tile, all blocks of one the same.

    Where `hx.attrs.cuda.grid_dim` is not set, it becomes one block per multiprocessor, whole
    clusters of them, or as many as there are tiles; `even`, only as many of them as it takes to
    share the tiles out in no more rounds.
    """
    builder = current("hx.persistent")
    if not isinstance(even, bool):
        raise builder.error(
            f"hx.persistent with even={describe(even)}", fix="write even=True or even=False"
        )
    tiles = loop_range(builder, "hx.persistent", (count,)).stop
    x, y, z = told(builder, "cluster_dim")
    if y * z > 1:
        raise builder.error(
            f"hx.persistent in clusters of {x} x {y} x {z} blocks",
            fix=f"put a cluster's blocks along x: hx.attrs.cuda.cluster_dim = {x * y * z}",
        )
    if builder.launch.grid_dim is None:
        extent = before_launch(builder, tiles)
        unknown = free_vars(extent) - builder.uniform
        if unknown:
            raise builder.error(
                f"the number of tiles depends on {', '.join(sorted(unknown))}, unknown before the "
                "launch",
                fix="set hx.attrs.cuda.grid_dim yourself",
            )
        clusters = maximum(floordiv(MULTIPROCESSORS, x), 1)
        if even:
            clusters = as_scalar(cdiv(extent, maximum(cdiv(extent, clusters), 1)))
        else:
            clusters = minimum(clusters, extent)
        one = as_scalar(1)
        builder.launch.grid_dim = mul(maximum(clusters, 1), x), one, one
    first, step = (floordiv(Var(f"{base}.x", i32), x) for base in ("blockIdx", "gridDim"))
    return LoopRange(first, tiles, step)


def unroll(*bounds: object) -> LoopRange:
    """`for i in hx.unroll(n):` like range, with bounds known at compile time, unrolled by the
    compiler; the variable is a run-time scalar."""
    builder = current("hx.unroll")
    found = loop_range(builder, "hx.unroll", bounds)
    for bound in (found.start, found.stop, found.step):
        if static_int(bound) is None:
            raise builder.error(
                f"hx.unroll needs bounds known at compile time, got `{bound}`", fix="use range"
            )
    return LoopRange(found.start, found.stop, found.step, unroll=True)


def static_range(*bounds: object) -> range:
    """`for i in hx.static_range(n):` expanded while tracing; the variable is a Python int."""
    builder = current("hx.static_range")
    known = [static_int(bound) for bound in bounds]
    if not 1 <= len(known) <= 3 or any(bound is None for bound in known):
        shown = ", ".join(str(bound) for bound in bounds)
        raise builder.error(
            f"hx.static_range takes one to three ints known at compile time, got ({shown})",
            fix="use range for run-time bounds",
        )
    ints = [bound for bound in known if bound is not None]
    if len(ints) == 3 and ints[2] == 0:
        raise builder.error("hx.static_range with step 0", fix="use a step other than 0")
    steps = range(*ints)
    if steps and (max(map(abs, (steps[0], steps[-1]))) >= 2**63 or steps[MOST_TURNS:]):
        raise builder.error(
            f"hx.static_range({', '.join(map(str, ints))}) is expanded a turn at a time",
            fix="use range: a loop of the run takes any number of turns",
        )
    return steps


def elements(tile: object) -> Elements:
    """`for i, j in hx.elements(r):` each thread visits its own elements of register tile `r`, a
    tensor or a part of one.

    Inside, `r[i, j]` reads and `r[i, j] = v` writes one element; so do other register tiles of
    `r`'s shape. The coordinates are i32 scalars that count from where the tile begins.
    """
    builder = current("hx.elements")
    if isinstance(tile, LazyTile) or not isinstance(tile, Tile):
        raise builder.error(
            f"hx.elements expects a register tensor, got {describe(tile)}", fix="name it first"
        )
    if not tile.in_registers:
        raise builder.error(
            f"hx.elements visits a tile in registers, got {describe(tile)}",
            fix="copy it to a register tensor first: hx.copy(tile, hx.register_tensor(...))",
        )
    return Elements(tile)
