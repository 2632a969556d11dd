"""rearrange within warps: registers renamed, or lanes shuffling.

A destination value's digits say which lane holds it and in which of its registers. Digits that are
values there and threads here choose among registers: one shuffle for each, and a select. All lanes
run every shuffle before they select: a branch of a select runs in the lanes that take it.
"""

from __future__ import annotations

from hexcute_core import thread as th
from hexcute_core.dtypes import i32
from hexcute_core.lowering.context import Context, nest
from hexcute_core.lowering.digits import digits
from hexcute_core.scalar import (
    Call,
    Const,
    Scalar,
    Var,
    add,
    compare,
    floordiv,
    land,
    mod,
    mul,
    select,
)
from hexcute_core.synthesis.solution import Exchange
from hexcute_core.tile import Rearrange


def lower_exchange(ctx: Context, op: Rearrange, plan: Exchange) -> tuple[th.Stmt, ...]:
    """dst = src in dst's layout."""
    values = [m for m in plan.moves if not m.dst.lane]
    sizes = [m.size for m in values]
    loops = ctx.loops(sizes)
    target = add(*(mul(loop, m.dst.stride) for loop, m in zip(loops, values)))
    register = add(*(mul(loop, m.src.stride) for loop, m in zip(loops, values) if not m.src.lane))
    if not plan.shuffles:
        moved = ctx.assign(op.dst, target, ctx.element(op.src, register), op.span)
        return nest(loops, sizes, (moved,))
    lane = _source_lane(ctx, plan, loops)
    value: Scalar | None = None
    body: list[th.Stmt] = []
    for condition, offset in _choices(ctx, plan):
        held = ctx.element(op.src, add(register, offset))
        got = Var(ctx.fresh("got_"), held.dtype)
        body.append(th.Assign(got, Call("shfl.idx", (held, lane), held.dtype), True, op.span))
        value = got if value is None else select(condition, got, value)
    assert value is not None
    body.append(ctx.assign(op.dst, target, value, op.span))
    return nest(loops, sizes, body)


def _digit(ctx: Context, size: int, place: int) -> Scalar:
    """`(t / place) % size`."""
    whole = floordiv(ctx.lane, place)
    return whole if place * size == ctx.team.threads else mod(whole, size)


def _source_lane(ctx: Context, plan: Exchange, loops: list[Scalar]) -> Scalar:
    """The lane of the warp that holds what this thread asks for."""
    fixed: list[Scalar] = [mul(_digit(ctx, n, place), place) for n, place in plan.own]
    moving: list[Scalar] = []
    picked = iter(loops)
    for m in plan.moves:
        loop = None if m.dst.lane else next(picked)
        if not m.src.lane:
            continue
        if loop is None:
            fixed.append(mul(_digit(ctx, m.size, m.dst.stride), m.src.stride))
        else:
            moving.append(mul(loop, m.src.stride))
    return mod(add(ctx.once(add(*fixed)), *moving), 32)


def _choices(ctx: Context, plan: Exchange) -> list[tuple[Scalar, int]]:
    """(condition on the asking thread, register offset) for every value of the crossing digits."""
    crossing = plan.crossing
    asked = [_digit(ctx, m.size, m.dst.stride) for m in crossing]
    out: list[tuple[Scalar, int]] = []
    total = 1
    for m in crossing:
        total *= m.size
    for index in range(total):
        picks = [int(d.value) for d in digits(Const(index, i32), [m.size for m in crossing], total)
                 if isinstance(d, Const)]  # fmt: skip
        condition = land(*(compare("eq", a, p) for a, p in zip(asked, picks)))
        out.append((condition, sum(p * m.src.stride for p, m in zip(picks, crossing))))
    return out
