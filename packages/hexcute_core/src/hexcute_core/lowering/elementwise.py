"""fill, cast, elementwise: one expression a value, over the values a thread holds."""

from __future__ import annotations

from hexcute_core import thread as th
from hexcute_core.dtypes import i32
from hexcute_core.lowering.context import Context, nest
from hexcute_core.scalar import Const, Scalar, add, mul, substitute
from hexcute_core.synthesis.propagate import broadcast_dims
from hexcute_core.tile import CastTile, Elementwise, Fill, RegisterTensor, TileRef


def lower_fill(ctx: Context, op: Fill) -> tuple[th.Stmt, ...]:
    """dst = value over every register of the tile, outer modes included."""
    tensor = ctx.program.tensor(op.dst.tensor)
    fragment = ctx.fragment(op.dst)
    count = fragment.values
    if isinstance(tensor, RegisterTensor) and len(op.dst.shape) > len(fragment.shape):
        count = ctx.array_size(tensor)
    loops = ctx.loops([count])
    return nest(loops, [count], (ctx.assign(op.dst, loops[0], op.value, op.span),))


def lower_cast(ctx: Context, op: CastTile) -> tuple[th.Stmt, ...]:
    """dst = src converted, value by value."""
    count = ctx.fragment(op.dst).values
    loops = ctx.loops([count])
    value = ctx.element(op.src, loops[0])
    return nest(loops, [count], (ctx.assign(op.dst, loops[0], value, op.span),))


def lower_elementwise(ctx: Context, op: Elementwise) -> tuple[th.Stmt, ...]:
    """dst = expr(srcs), broadcast operands indexed without the dimensions they lack."""
    fragment = ctx.fragment(op.dst)
    sizes = [m.size for m in fragment.value]
    loops = ctx.loops(sizes)
    index = _index(ctx, op.dst, op.dst, loops)
    values: dict[str, Scalar] = {
        f"${i}": ctx.element(src, _index(ctx, op.dst, src, loops)) for i, src in enumerate(op.srcs)
    }
    result = substitute(op.expr, values)
    return nest(loops, sizes, (ctx.assign(op.dst, index, result, op.span),))


def _index(ctx: Context, dst: TileRef, src: TileRef, loops: list[Scalar]) -> Scalar:
    """Value index of `src` for the digits `loops` of `dst`'s values."""
    gone = broadcast_dims(src, dst)
    index: Scalar = Const(0, i32)
    stride = 1
    for mode, loop in zip(ctx.fragment(dst).value, loops):
        if mode.dim in gone:
            continue
        index = add(index, mul(loop, stride))
        stride *= mode.size
    return index
