"""The tile operations of the language: tensors, fill, cast, reduce, rearrange, sync.

Each checks spaces, shapes and element types, then writes one statement of the tile program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hexcute_core.dtypes import DType, i32
from hexcute_core.frontend.language.builder import Builder, current
from hexcute_core.frontend.language.subscript import static_int, whole
from hexcute_core.frontend.language.tiles import (
    LazyTile,
    Tile,
    TileValue,
    describe,
    materialize,
    new_register,
    number_of,
    require_static,
)
from hexcute_core.scalar import Call, Const, ScalarBase, as_scalar
from hexcute_core.scalar import cast as cast_scalar
from hexcute_core.scalar.numbers import typed
from hexcute_core.tile import (
    Arrangement,
    AsyncCommit,
    AsyncWait,
    CallStmt,
    CastTile,
    Fill,
    GlobalView,
    Rearrange,
    Reduce,
    SharedTensor,
    Sync,
    TileRef,
)
from hexcute_core.tile.ir import ReduceOp

_REDUCTIONS: tuple[ReduceOp, ...] = ("sum", "max", "min")


def register_tensor(
    dtype: DType,
    shape: int | Sequence[int],
    *,
    layout: str | None = None,
    threads: int | Sequence[int] | None = None,
    vector: int | None = None,
) -> Tile:
    """A tile of `shape` elements of type `dtype` spread over the registers of the block,
    uninitialised.

    `layout` is the layout that it is to have, as `explain()` prints them; or `threads` are to lie
    along each mode, and each is to have `vector` elements side by side along the mode that memory
    has contiguous. Raises FrontendError; what no thread could have is refused where layouts are
    found.
    """
    builder = current("hx.register_tensor")
    extents = _shape(builder, "hx.register_tensor", dtype, shape)
    counts = None if threads is None else _counts(builder, threads, extents)
    width = None if vector is None else static_int(vector)
    if vector is not None and (width is None or width < 1):
        raise builder.error(
            f"vector={vector!r}: how many elements a thread has side by side",
            fix="write a positive int known at compile time, as in vector=8",
        )
    if layout is not None and (counts or width):
        raise builder.error(
            "layout= says already how threads and vectors lie",
            fix="leave threads= and vector= out, or name these alone",
        )
    arranged = Arrangement(_text(builder, layout), counts, width)
    return new_register(dtype, extents, "r", None if arranged == Arrangement() else arranged)


def _text(builder: Builder, layout: object) -> str | None:
    if layout is not None and not isinstance(layout, str):
        raise builder.error(
            f"layout={layout!r} is no text", fix="write it as explain() prints it, in quotes"
        )
    return layout


def _counts(builder: Builder, threads: object, extents: tuple[int, ...]) -> tuple[int, ...]:
    entries = threads if isinstance(threads, (tuple, list)) else (threads,)
    counts = [static_int(entry) for entry in entries]
    if len(counts) != len(extents) or any(count is None or count < 1 for count in counts):
        shown = ", ".join(map(str, entries))
        raise builder.error(
            f"threads=({shown}) beside a shape of {len(extents)} modes",
            fix="write how many threads lie along each mode, as in threads=(4, 32)",
        )
    return tuple(count for count in counts if count is not None)


def shared_tensor(
    dtype: DType, shape: int | Sequence[int], *, layout: str | None = None
) -> Tile:
    """A tile of `shape` elements of type `dtype` in the block's shared memory, uninitialised;
    `layout` is the one that it is to have, as `explain()` prints them. Raises FrontendError."""
    builder = current("hx.shared_tensor")
    extents = _shape(builder, "hx.shared_tensor", dtype, shape)
    named = _text(builder, layout)
    tensor = SharedTensor(builder.take_hint("s"), dtype, extents, builder.span, named)
    builder.add_tensor(tensor)
    return Tile(tensor, whole(tensor))


def _shape(builder: Builder, what: str, dtype: object, shape: object) -> tuple[int, ...]:
    if not isinstance(dtype, DType):
        raise builder.error(
            f"{what} expects an element type first, got {describe(dtype)}",
            fix=f"write {what}(f16, (BM, BK))",
        )
    entries = shape if isinstance(shape, (tuple, list)) else (shape,)
    extents = [static_int(entry) for entry in entries]
    if not extents or any(extent is None or extent < 1 for extent in extents):
        shown = ", ".join(str(entry) for entry in entries)
        raise builder.error(
            f"{what} needs a shape of positive ints known at compile time, got ({shown})",
            fix="use ints or compile-time constants (keyword-only parameters) of the kernel",
        )
    return tuple(extent for extent in extents if extent is not None)


def tile_of(value: object, what: str) -> Tile:
    """`value` as a tile that an operation may touch."""
    builder = current(what)
    if not isinstance(value, (Tile, LazyTile)):
        raise builder.error(
            f"{what} expects a tile, got {describe(value)}",
            fix="pass a register or shared tensor, or a global view, or a part of one",
        )
    tile = materialize(value)
    require_static(tile)
    return tile


def register_of(value: object, what: str) -> Tile:
    tile = tile_of(value, what)
    if not tile.in_registers:
        raise current(what).error(
            f"{what} works on registers, got {describe(tile)}",
            fix="copy it to a register tensor first: hx.copy(tile, registers)",
        )
    return tile


def fill(dst: object, value: object) -> None:
    """Sets every element of register or shared tile `dst` to the scalar `value`."""
    builder = current("hx.fill")
    tile = tile_of(dst, "hx.fill")
    if isinstance(value, TileValue):
        raise builder.error(
            f"hx.fill takes a scalar, got {describe(value)}", fix="write hx.copy(src, dst)"
        )
    if isinstance(tile.tensor, GlobalView):
        raise builder.error(
            f"hx.fill cannot write {describe(tile)}",
            fix="fill a register tensor and hx.copy it to the view",
        )
    filled = number_of(value, tile.dtype)
    builder.emit(Fill(builder.next_id(), tile.ref, filled, builder.span))


def sync_role() -> None:
    """All threads of the role meet; shared memory they wrote before is visible after."""
    builder = current("hx.sync_role")
    if builder.region.inside("role") is None:
        raise builder.error("hx.sync_role outside a role", fix="write hx.syncthreads()")
    builder.emit(Sync(builder.span))


def cast(a: object, dtype: DType) -> Any:
    """`a` converted to element type `dtype`: a new register tile, or a scalar for a scalar.

    Integers wrap; floats round to nearest, become integers towards zero, saturating, and NaN 0.
    """
    builder = current("hx.cast")
    if not isinstance(dtype, DType):
        raise builder.error(
            f"hx.cast expects an element type, got {describe(dtype)}", fix="write hx.cast(x, f16)"
        )
    if not isinstance(a, TileValue):
        if isinstance(a, (int, float)):
            return Const(typed(a, dtype), dtype)
        return cast_scalar(as_scalar(a), dtype)
    src = register_of(a, "hx.cast")
    if src.dtype == dtype:
        return src

    def emit(dst: TileRef) -> None:
        builder.emit(CastTile(builder.next_id(), dst, src.ref, builder.span))

    return lazy(builder, LazyTile(src.shape, dtype, (src.ref,), emit, base="cast"))


def lazy(builder: Builder, value: LazyTile) -> LazyTile | Tile:
    return materialize(value) if builder.native else value


def reduce(a: object, d: int, op: ReduceOp = "sum", keep: int = 1) -> Any:
    """`a` reduced along mode `d`, which stays with extent `keep`: place x is what stands at x,
    x + keep, x + 2 keep, ... combined. `op` is "sum", "max" or "min"."""
    builder = current("hx.reduce")
    if op not in _REDUCTIONS:
        raise builder.error(
            f"hx.reduce has no operation {op!r}", fix="use sum, max or min, or a function"
        )
    if isinstance(a, ScalarBase) or not isinstance(a, TileValue):
        raise builder.error(
            f"hx.{op} reduces a tile along a mode, got {describe(a)}",
            fix="for the smaller or larger of two values use hx.minimum, hx.maximum",
        )
    src = register_of(a, "hx.reduce")
    if op == "sum" and src.dtype.kind == "bool":
        src = register_of(cast(src, i32), "hx.reduce")
    axis = static_int(d)
    rank = len(src.shape)
    if axis is None or not -rank <= axis < rank:
        raise builder.error(
            f"hx.reduce along mode {d} of {describe(src)}", fix=f"use a mode from 0 to {rank - 1}"
        )
    axis %= rank
    left = static_int(keep)
    if left is None or left < 1 or src.shape[axis] % left:
        raise builder.error(
            f"hx.{op} of {describe(src)} with keep={keep}",
            fix=f"keep a number that divides the {src.shape[axis]} places of mode {axis}",
        )
    shape = tuple(left if mode == axis else extent for mode, extent in enumerate(src.shape))

    def emit(dst: TileRef) -> None:
        builder.emit(Reduce(builder.next_id(), dst, src.ref, axis, op, builder.span, left))

    return lazy(builder, LazyTile(shape, src.dtype, (src.ref,), emit, base=op))


def sum(a: object, d: int, keep: int = 1) -> Any:
    """The sum of `a` along mode `d`, which stays with extent `keep`: place x is the sum of what
    stands at x, x + keep, x + 2 keep, ...; of conditions their number.

    Types narrower than 32 bits are added in f32 or i32, and the sum converted back once.
    """
    return reduce(a, d, "sum", keep)


def max(a: object, d: int, keep: int = 1) -> Any:
    """The maximum of `a` along mode `d`, which stays with extent `keep` as in `hx.sum`."""
    return reduce(a, d, "max", keep)


def min(a: object, d: int, keep: int = 1) -> Any:
    """The minimum of `a` along mode `d`, which stays with extent `keep` as in `hx.sum`."""
    return reduce(a, d, "min", keep)


def rearrange(a: object, layout: object = None) -> Any:
    """`a` in another thread-value layout: the one given in CuTe notation, or whatever fits."""
    builder = current("hx.rearrange")
    src = register_of(a, "hx.rearrange")
    text = None if layout is None else str(layout)

    def emit(dst: TileRef) -> None:
        builder.emit(Rearrange(builder.next_id(), dst, src.ref, text, builder.span))

    return lazy(builder, LazyTile(src.shape, src.dtype, (src.ref,), emit, base="moved"))


def syncthreads() -> None:
    """All threads of the block meet; shared memory written before is visible after."""
    builder = current("hx.syncthreads")
    if builder.region.inside("role") is not None:
        raise builder.error(
            "hx.syncthreads inside a role, which the other roles never reach",
            fix="write hx.sync_role()",
        )
    builder.emit(Sync(builder.span))


def cp_async_commit() -> None:
    """Closes the group of asynchronous copies issued so far."""
    builder = current("hx.cp_async_commit")
    builder.emit(AsyncCommit(builder.span))


def cp_async_wait(pending: int) -> None:
    """Waits until at most `pending` of the latest groups are unfinished."""
    builder = current("hx.cp_async_wait")
    count = static_int(pending)
    if count is None or count < 0:
        raise builder.error(
            f"hx.cp_async_wait needs a count known at compile time, got {describe(pending)}",
            fix="pass an int >= 0 or a compile-time constant",
        )
    builder.emit(AsyncWait(count, builder.span))


def primitive(name: str, *args: object, dtype: DType | None = None) -> Any:
    """Calls the code generator's primitive `name`: for its effect, or for a value of `dtype`."""
    builder = current("hx.primitive")
    if not isinstance(name, str):
        raise builder.error(
            f"hx.primitive expects the primitive's name, got {describe(name)}",
            fix='write hx.primitive("name", x, dtype=i32)',
        )
    for arg in args:
        if isinstance(arg, TileValue):
            raise builder.error(
                f"hx.primitive takes scalars, got {describe(arg)}",
                fix="pass elements of the tile inside `for i, j in hx.elements(tile):`",
            )
    scalars = tuple(as_scalar(arg) for arg in args)
    if dtype is None:
        builder.emit(CallStmt(name, scalars, builder.span))
        return None
    call = Call(name, scalars, dtype)
    return builder.hold(call, builder.hint or "call") if builder.native else call
