"""Scans of register tiles: y[..., x, ...] = the combination of what stands at 0, ..., x.

The combination of `scan` is a function of scalars, traced once while the kernel is compiled; what
it gives must be an expression of its arguments alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from hexcute_core.dtypes import DType, accumulator, i32
from hexcute_core.errors import FrontendError, HexcuteError
from hexcute_core.frontend.functions.source import function_source
from hexcute_core.frontend.language.builder import Builder, current
from hexcute_core.frontend.language.helpers import behind
from hexcute_core.frontend.language.subscript import static_int
from hexcute_core.frontend.language.tileops import cast, register_of
from hexcute_core.frontend.language.tiles import (
    LazyTile,
    Tile,
    TileValue,
    describe,
    materialize,
    new_register,
)
from hexcute_core.scalar import Scalar, ScalarBase, Var, as_scalar, binary, free_vars, substitute
from hexcute_core.scalar.author import call_as_author
from hexcute_core.scalar.expr import BinaryOp
from hexcute_core.scalar.visit import between_lanes
from hexcute_core.tile import Assign, Scan, Stmt, TileRef
from hexcute_core.tile.ir import scan_operands

Combine = Callable[..., object]


def cumsum(x: object, axis: int, *, reverse: bool = False) -> Any:
    """The running sums of `x` along mode `axis`, a register tile of its shape and type.

    With `reverse`, of what stands from the end. Types narrower than 32 bits are summed in 32.
    """
    return _named("cumsum", "add", x, axis, reverse)


def cumprod(x: object, axis: int, *, reverse: bool = False) -> Any:
    """The running products of `x` along mode `axis`; see `cumsum`."""
    return _named("cumprod", "mul", x, axis, reverse)


def cummax(x: object, axis: int, *, reverse: bool = False) -> Any:
    """The running maxima of `x` along mode `axis`, NaN left out as in `max`; see `cumsum`."""
    return _named("cummax", "max", x, axis, reverse)


def cummin(x: object, axis: int, *, reverse: bool = False) -> Any:
    """The running minima of `x` along mode `axis`, NaN left out as in `min`; see `cumsum`."""
    return _named("cummin", "min", x, axis, reverse)


def scan(
    tiles: object, axis: int, combine: Combine, *, reverse: bool = False
) -> Any:
    """`tiles` scanned along mode `axis` by `combine`: each place holds what stands there combined
    with all before it, or, with `reverse`, all behind it.

    `tiles` is a register tile, or a tuple of tiles of one shape that are scanned as one; the
    result is alike. `combine(l, r)`, for n tiles `combine(l0, ..., ln-1, r0, ..., rn-1)`, is a
    function of scalars of the tiles' types that gives one scalar per tile of the same types. It
    must be associative, need not be commutative (l comes before r in the scan's order), and is
    computed in the tiles' own types.

    Raises FrontendError where tiles differ in shape or are not in registers, `axis` is no mode, or
    `combine` gives something else.
    """
    builder = current("hx.scan")
    several = isinstance(tiles, (tuple, list))
    given: Sequence[object] = tiles if isinstance(tiles, (tuple, list)) else (tiles,)
    odd = [t for t in given if isinstance(t, ScalarBase) or not isinstance(t, TileValue)]
    if odd or not given:
        raise builder.error(
            "hx.scan scans a register tile or a tuple of them, got "
            f"{describe(odd[0]) if odd else 'an empty tuple'}",
            fix="pass tiles of one shape, as in hx.scan((a, b), 0, combine)",
        )
    srcs = [register_of(tile, "hx.scan") for tile in given]
    other = next((tile for tile in srcs if tile.shape != srcs[0].shape), None)
    if other is not None:
        raise builder.error(
            f"hx.scan of different shapes: {describe(srcs[0])} and {describe(other)}",
            fix="scan tiles of one shape together",
        )
    place = _mode(builder, "hx.scan", srcs[0], axis)
    found = _traced(builder, combine, [tile.dtype for tile in srcs])
    refs = tuple(tile.ref for tile in srcs)
    if several:
        dsts = tuple(new_register(tile.dtype, tile.shape, "scanned") for tile in srcs)
        with builder.defining():
            _emit(builder, tuple(dst.ref for dst in dsts), refs, place, found, reverse)
        return dsts
    return _lazy(builder, srcs[0], place, found, reverse, "scanned")


def _named(what: str, op: BinaryOp, x: object, axis: int, reverse: bool) -> LazyTile | Tile:
    builder = current(f"hx.{what}")
    src = register_of(x, f"hx.{what}")
    if op in ("add", "mul") and src.dtype.kind == "bool":
        src = register_of(cast(src, i32), f"hx.{what}")
    (left,), (right,) = scan_operands([accumulator(src.dtype)])
    place = _mode(builder, f"hx.{what}", src, axis)
    return _lazy(builder, src, place, (binary(op, left, right),), reverse, what)


def _lazy(
    builder: Builder, src: Tile, axis: int, found: tuple[Scalar, ...], reverse: bool, base: str
) -> LazyTile | Tile:
    def emit(dst: TileRef) -> None:
        _emit(builder, (dst,), (src.ref,), axis, found, reverse)

    value = LazyTile(src.shape, src.dtype, (src.ref,), emit, base=base)
    return materialize(value) if builder.native else value


def _emit(
    builder: Builder,
    dsts: tuple[TileRef, ...],
    srcs: tuple[TileRef, ...],
    axis: int,
    found: tuple[Scalar, ...],
    reverse: bool,
) -> None:
    number, span = builder.next_id(), builder.span
    builder.emit(Scan(number, dsts, srcs, axis, found, bool(reverse), span))


def _mode(builder: Builder, what: str, tile: Tile, axis: object) -> int:
    place, rank = static_int(axis), len(tile.shape)
    if place is None or not -rank <= place < rank:
        raise builder.error(
            f"{what} along mode {axis} of {describe(tile)}", fix=f"use a mode from 0 to {rank - 1}"
        )
    return place % rank


def _traced(builder: Builder, combine: Combine, types: Sequence[DType]) -> tuple[Scalar, ...]:
    """What `combine` gives, as expressions of the variables of `scan_operands`."""
    left, right = scan_operands(types)
    name = getattr(combine, "__name__", "combine")
    hint, builder.hint = builder.hint, None
    with builder.nested("combine") as region:
        given = _call(builder, combine, name, (*left, *right))
    builder.hint = hint
    values: dict[str, Scalar] = {}
    for stmt in region.block:
        _note(values, stmt, name)
    results = given if isinstance(given, (tuple, list)) else (given,)
    found = [_scalar(result, dtype) for result, dtype in zip(results, types)]
    kinds = [None if e is None else e.dtype for e in found]
    if len(results) != len(types) or kinds != [*types]:
        wanted = ", ".join(str(t) for t in types)
        got = ", ".join(str(r.dtype) if isinstance(r, ScalarBase) else describe(r) for r in results)
        raise builder.error(
            f"`{name}` combines {wanted} and gives {got}: a scan needs one scalar per tile, of the "
            "tile's type",
            fix=f"return ({wanted}), converting by hx.cast(x, {types[0]}), or cast the tiles first",
        )
    combined = tuple(substitute(e, values) for e in found if e is not None)
    for e in combined:
        strange = sorted(free_vars(e) - {v.name for v in (*left, *right)})
        if strange or between_lanes(e) is not None:
            raise builder.error(
                f"`{name}` depends on {', '.join(strange) or 'other threads'}",
                fix="combine the arguments alone; scan another tile with them for what varies",
            )
    return combined


def _scalar(result: object, dtype: DType) -> Scalar | None:
    """A result as a scalar, a Python number that `dtype` holds in that type; None for others."""
    if isinstance(result, ScalarBase):
        return as_scalar(result)
    if isinstance(result, bool) or not isinstance(result, (int, float)):
        return None
    return as_scalar(result, dtype) if dtype.is_float or isinstance(result, int) else None


def _call(builder: Builder, combine: object, name: str, arguments: tuple[Var, ...]) -> object:
    """`combine` of the arguments: traced where its text is known, else run."""
    fn, given, named = behind(combine, arguments, {})
    if not callable(fn) or isinstance(fn, TileValue):
        raise builder.error(
            f"hx.scan combines by a function of scalars, got {describe(combine)}",
            fix="pass a function, as in `def add(l, r): return l + r`",
        )
    if isinstance(fn, FunctionType) and builder.inline is not None and _has_text(fn):
        return builder.inline(fn, given, named)
    builder.native += 1
    try:
        return call_as_author(fn, given, named)
    except HexcuteError:
        raise
    except Exception as error:
        raise builder.error(
            f"`{name}` raised {type(error).__name__}: {error}",
            fix=f"it is called with {len(arguments)} scalars: those of what comes first, then "
            "those of what follows",
        ) from None
    finally:
        builder.native -= 1


def _has_text(fn: FunctionType) -> bool:
    if (fn.__module__ or "").startswith("hexcute_core."):
        return False
    try:
        function_source(fn)
    except FrontendError:
        return False
    return True


def _note(values: dict[str, Scalar], stmt: Stmt, name: str) -> None:
    """Variables that the combination names for parts of itself stand for what they hold."""
    if not isinstance(stmt, Assign) or not stmt.declares:
        raise FrontendError(
            f"`{name}` does more than compute: a scan's combination is an expression",
            span=stmt.span,
            fix="write `a if c else b` or hx.select(c, a, b) instead of an `if`, and no loops, "
            "stores or tile operations",
        )
    values[stmt.var.name] = substitute(stmt.value, values)
