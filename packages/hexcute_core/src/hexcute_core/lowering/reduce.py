"""reduce: a thread's own values, then lanes by shuffles, then the rest through shared memory.
Conditions that a role makes one of meet at its barrier instead, which says whether any holds.

Only thread digits that move along the reduced dimension take part, so replicated values are never
counted twice. Types narrower than 32 bits are accumulated in 32.
"""

from __future__ import annotations

from math import prod

from hexcute_core import thread as th
from hexcute_core.arch import Fragment, Mode
from hexcute_core.arch.registers import locate
from hexcute_core.dtypes import DType, accumulator, i32
from hexcute_core.lowering.bounds import inside
from hexcute_core.lowering.context import Context, nest
from hexcute_core.lowering.elementwise import refine
from hexcute_core.lowering.threads import (
    WORD,
    ThreadDigit,
    cell,
    thread_digits,
    thread_in,
    together,
    without,
)
from hexcute_core.scalar import (
    Call,
    Const,
    Element,
    Scalar,
    Var,
    add,
    binary,
    cast,
    compare,
    mul,
    select,
)
from hexcute_core.scalar.expr import BinaryOp
from hexcute_core.tile import Reduce
from hexcute_core.tile.layouts import folded

_OPS: dict[str, BinaryOp] = {"sum": "add", "max": "max", "min": "min"}


def scratch_bytes(op: Reduce, whole: Fragment, dtype: DType, threads: int) -> int:
    """Shared memory that the exchange between warps needs in a block of `threads`: every thread
    of the block has cells of its own, so roles may reduce side by side."""
    f, axis = folded(op, whole)
    if not _far(f, axis, dtype):
        return 0
    return threads * together(_kept(f, axis)) * accumulator(dtype).bits // 8


def _far(f: Fragment, axis: int, dtype: DType) -> list[ThreadDigit]:
    """The thread digits that shuffles do not reach: all of them for types of 64 bits."""
    wide = accumulator(dtype).bits > WORD
    return [d for d in thread_digits(f, axis) if wide or not d.shuffles]


def _kept(f: Fragment, axis: int) -> int:
    """Results a thread holds."""
    return prod(m.size for m in f.value if m.dim != axis)


def lower_reduce(ctx: Context, op: Reduce) -> tuple[th.Stmt, ...]:
    """dst[..., 0, ...] = op over src along `axis`."""
    (f, axis), g = folded(op, ctx.fragment(op.src)), ctx.fragment(op.dst)
    strided = _strided(f)
    kept = [(m, s) for m, s in strided if m.dim != axis]
    gone = [(m, s) for m, s in strided if m.dim == axis]
    found = [locate(g, m) for m, _ in kept]
    sizes, (targets, sources) = refine(
        [m.size for m, _ in kept],
        [[list(p or ()) for p in found], [[(m.size, s)] for m, s in kept]],
    )
    outer, inner = ctx.loops(sizes), ctx.loops([m.size for m, _ in gone])
    target = add(*(mul(loop, s) for loop, s in zip(outer, targets)))
    start = add(*(mul(loop, s) for loop, s in zip(outer, sources)))
    source = add(start, *(mul(loop, s) for (_, s), loop in zip(gone, inner)))
    dtype, wide = ctx.dtype(op.dst), accumulator(ctx.dtype(op.dst))
    total = Var(ctx.fresh("total_"), wide)
    first = cast(ctx.element(op.src, start), wide)
    value = cast(ctx.element(op.src, source), wide)
    combine = _OPS[op.op]
    along = [m if m.dim == axis else Mode(m.size, 0, 0) for m in f.thread]
    within = inside(ctx, f.shape, along, [(m, loop) for (m, _), loop in zip(gone, inner)])
    if within is not None:
        # A value beyond the tile is the neutral element.
        neutral = _neutral(op.op, wide)
        value, first = select(within, value, neutral), neutral
    # max and min need no neutral element where they can start from a value.
    body: list[th.Stmt] = [th.Assign(total, _seed(op.op, first, wide), True, op.span)]
    step = th.Assign(total, binary(combine, total, value), False, op.span)
    body += nest(inner, [m.size for m, _ in gone], (step,))
    if ctx.role > 0 and is_vote(op, dtype):
        body += _voted(ctx, total, op)
        body.append(ctx.assign(op.dst, target, total, op.span))
        return nest(outer, sizes, body)
    rest = _far(f, axis, dtype)
    for digit in thread_digits(f, axis):
        mask = digit.stride
        while digit not in rest and mask < digit.size * digit.stride:
            other = Call("shfl.xor", (total, Const(mask, i32)), wide)
            body.append(th.Assign(total, binary(combine, total, other), False, op.span))
            mask *= 2
    if not rest:
        body.append(ctx.assign(op.dst, target, total, op.span))
        return nest(outer, sizes, body)
    partial, count = ctx.fresh("partial_"), _kept(f, axis)
    body.append(th.SetElement(partial, target, total, op.span))
    return (
        th.DeclareArray(partial, wide, count),
        *nest(outer, sizes, body),
        *_exchange(ctx, op, rest, partial, count, dtype),
    )


def is_vote(op: Reduce, dtype: DType) -> bool:
    """Whether conditions become one: whether any of them holds, or all."""
    return dtype.kind == "bool" and op.op in ("max", "min") and prod(op.dst.shape) == 1


def _voted(ctx: Context, total: Var, op: Reduce) -> list[th.Stmt]:
    """`total`: 1 where it is above 0 in any thread of the role, of a minimum in every one."""
    vote, zero = ctx.fresh("vote_"), Const(0, i32)
    flag, told = th.Regs(vote, zero, (0,), 1, i32), Element(vote, (zero,), i32)
    meeting = Const(ctx.role, i32), Const(ctx.team.threads, i32)
    every = op.op == "min"
    speaks = cast(compare("le" if every else "gt", total, 0), i32)
    return [
        th.DeclareArray(vote, i32, 1),
        th.SetElement(vote, zero, speaks, op.span),
        th.Prim("bar.named.any", (flag, *meeting), op.span),
        th.Assign(total, binary("xor", told, 1) if every else told, False, op.span),
    ]


def _seed(op: str, first: Scalar, dtype: DType) -> Scalar:
    if op == "sum":
        return Const(0.0 if dtype.is_float else 0, dtype)
    return first


def _neutral(op: str, dtype: DType) -> Const:
    """The element that changes nothing; the type's last value for min and max."""
    if op == "sum":
        return Const(0.0 if dtype.is_float else 0, dtype)
    if dtype.is_float:
        return Const(float("inf") if op == "min" else float("-inf"), dtype)
    low, high = (0, 2**dtype.bits) if dtype.kind == "uint" else _signed(dtype)
    return Const(high - 1 if op == "min" else low, dtype)


def _signed(dtype: DType) -> tuple[int, int]:
    return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1)


def _strided(f: Fragment) -> list[tuple[Mode, int]]:
    """Value digits with their register strides."""
    out: list[tuple[Mode, int]] = []
    stride = 1
    for m in f.value:
        out.append((m, stride))
        stride *= m.size
    return out


def _exchange(
    ctx: Context, op: Reduce, rest: list[ThreadDigit], partial: str, count: int, dtype: DType
) -> tuple[th.Stmt, ...]:
    """All threads publish their partial results, some registers at a time; each combines those of
    the threads that differ from it in the digits `rest`."""
    (f, _), wide = folded(op, ctx.fragment(op.src)), accumulator(dtype)
    size, batch = wide.bits // 8, together(count)
    lane, home = ctx.once(thread_in(ctx, f)), ctx.once(without(thread_in(ctx, f), rest))
    chunk, at = ctx.loops([count // batch]), ctx.loops([batch])
    others = ctx.loops([d.size for d in rest])
    register = add(mul(chunk[0], batch), at[0])

    def place(thread: Scalar) -> th.SharedPtr:
        return cell(ctx, thread, at[0], wide)

    got = ctx.fresh("cell_")
    held = th.Regs(got, Const(0, i32), (0,), 1, wide)
    value = Element(got, (Const(0, i32),), wide)
    total = Var(ctx.fresh("total_"), wide)
    there = add(home, *(mul(loop, d.stride) for loop, d in zip(others, rest)))
    own = th.Regs(partial, register, (0,), 1, wide)
    publish = th.Prim(f"st.shared.{size}", (place(lane), own), op.span)
    load = th.Prim(f"ld.shared.{size}", (held, place(there)), op.span)
    first = th.Prim(f"ld.shared.{size}", (held, place(home)), op.span)
    seed = _seed(op.op, value, wide)
    combine = th.Assign(total, binary(_OPS[op.op], total, value), False, op.span)
    gather: list[th.Stmt] = [
        *([first] if seed is value else []),
        th.Assign(total, seed, True, op.span),
        *nest(others, [d.size for d in rest], (load, combine)),
        ctx.assign(op.dst, register, total, op.span),
    ]
    barrier = ctx.barrier(op.span)
    body = [barrier, *nest(at, [batch], (publish,)), barrier, *nest(at, [batch], gather)]
    return (th.DeclareArray(got, wide, 1), *nest(chunk, [count // batch], body))
