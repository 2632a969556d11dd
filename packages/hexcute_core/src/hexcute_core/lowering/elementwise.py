"""fill, cast, elementwise: one expression per value, over the values a thread holds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hexcute_core import thread as th
from hexcute_core.arch import Mode
from hexcute_core.arch.registers import locate
from hexcute_core.errors import SourceSpan
from hexcute_core.lowering.context import Context, nest
from hexcute_core.scalar import Scalar, add, mul, substitute
from hexcute_core.tile import CastTile, Elementwise, Fill, TileRef
from hexcute_core.tile.layouts import broadcast_dims


def lower_fill(ctx: Context, op: Fill) -> tuple[th.Stmt, ...]:
    """dst = value over every register of the tile."""
    count = ctx.fragment(op.dst).values
    loops = ctx.loops([count])
    return nest(loops, [count], (ctx.assign(op.dst, loops[0], op.value, op.span),))


def lower_cast(ctx: Context, op: CastTile) -> tuple[th.Stmt, ...]:
    """dst = src converted, value by value."""
    return lower_same(ctx, op.dst, op.src, op.span)


def lower_same(ctx: Context, dst: TileRef, src: TileRef, span: SourceSpan) -> tuple[th.Stmt, ...]:
    """dst = src, value by value, each in its own register order."""
    sizes, loops, indices = walk_values(ctx, dst, (src,))
    index, (source,) = indices[0], indices[1:]
    return nest(loops, sizes, (ctx.assign(dst, index, ctx.element(src, source), span),))


def lower_elementwise(ctx: Context, op: Elementwise) -> tuple[th.Stmt, ...]:
    """dst = expr(srcs), broadcast operands indexed without the dimensions they lack."""
    sizes, loops, (index, *sources) = walk_values(ctx, op.dst, op.srcs)
    values: dict[str, Scalar] = {
        f"${i}": ctx.element(src, at) for i, (src, at) in enumerate(zip(op.srcs, sources))
    }
    result = substitute(op.expr, values)
    return nest(loops, sizes, (ctx.assign(op.dst, index, result, op.span),))


def walk_values(
    ctx: Context, dst: TileRef, srcs: Sequence[TileRef]
) -> tuple[list[int], list[Scalar], list[Scalar]]:
    """Loop sizes and variables over a thread's values of `dst`, and the value index in `dst` and
    in each of `srcs` that they mean."""
    fragment = ctx.fragment(dst)
    digits = [[(mode, broadcast_dims(src, dst)) for mode in fragment.value] for src in (dst, *srcs)]
    strides = [_strides(ctx, src, per_src) for src, per_src in zip((dst, *srcs), digits)]
    sizes, columns = refine([m.size for m in fragment.value], strides)
    loops = ctx.loops(sizes)
    indices = [add(*(mul(loop, s) for loop, s in zip(loops, column))) for column in columns]
    return sizes, loops, indices


Parts = list[tuple[int, int]]


def _strides(
    ctx: Context, src: TileRef, digits: Sequence[tuple[Mode, tuple[int, ...]]]
) -> list[Parts]:
    """For each value digit of the destination, its (size, register stride) parts in `src`; stride
    0 along dimensions that `src` lacks."""
    held = ctx.fragment(src)
    out: list[Parts] = []
    for mode, gone in digits:
        if mode.dim in gone:
            out.append([(mode.size, 0)])
            continue
        parts = locate(held, mode)
        if parts is None:
            raise TypeError(f"{src.tensor}: {held} does not hold the digit {mode}")
        out.append(list(parts) or [(1, 0)])
    return out


def refine(
    sizes: Sequence[int], strides: Sequence[Sequence[Parts]]
) -> tuple[list[int], list[list[int]]]:
    """Digits cut so that every operand has one stride a digit: (sizes, strides an operand)."""
    out: list[int] = []
    columns: list[list[int]] = [[] for _ in strides]
    for i, size in enumerate(sizes):
        cuts = {1, size}
        for operand in strides:
            place = 1
            for n, _ in operand[i]:
                place *= n
                cuts.add(place)
        ordered = sorted(cuts)
        for low, high in pairwise(ordered):
            out.append(high // low)
            for column, operand in zip(columns, strides):
                column.append(_stride_at(operand[i], low))
    return out, columns


def _stride_at(parts: Parts, at: int) -> int:
    place = 1
    for n, stride in parts:
        if at < place * n:
            return stride * (at // place)
        place *= n
    return 0
