"""reduce: a thread's own values, then lanes by shuffles, then the rest through shared memory.

Only thread digits that move along the reduced dimension take part, so replicated values are never
counted twice. Types narrower than 32 bits are accumulated in 32.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from hexcute_core import thread as th
from hexcute_core.arch import Fragment, Mode
from hexcute_core.dtypes import DType, f32, i32
from hexcute_core.lowering.bounds import inside
from hexcute_core.lowering.context import Context, nest
from hexcute_core.lowering.elementwise import refine
from hexcute_core.scalar import (
    Call,
    Const,
    Element,
    Scalar,
    Var,
    add,
    binary,
    cast,
    floordiv,
    mod,
    mul,
    select,
    sub,
)
from hexcute_core.scalar.expr import BinaryOp
from hexcute_core.synthesis.registers import locate
from hexcute_core.tile import Reduce

WARP = 32
# Values of a thread that go through shared memory between two barriers.
TOGETHER = 16
_OPS: dict[str, BinaryOp] = {"sum": "add", "max": "max", "min": "min"}


@dataclass(frozen=True)
class ThreadDigit:
    """A digit of the thread index along the reduced dimension: `(t / stride) % size`."""

    size: int
    stride: int

    @property
    def shuffles(self) -> bool:
        """Whether XOR shuffles within a warp reach all of its values."""
        powers = self.size & (self.size - 1) == 0 and self.stride & (self.stride - 1) == 0
        return powers and self.size * self.stride <= WARP


def thread_digits(f: Fragment, axis: int) -> tuple[ThreadDigit, ...]:
    """Digits of the thread index that move along `axis`, cut at the warp's end."""
    out: list[ThreadDigit] = []
    stride = 1
    for m in f.thread:
        if m.step and m.dim == axis:
            inside = WARP // stride if stride < WARP else 1
            if 1 < inside < m.size and m.size % inside == 0:
                out += [
                    ThreadDigit(inside, stride),
                    ThreadDigit(m.size // inside, stride * inside),
                ]
            else:
                out.append(ThreadDigit(m.size, stride))
        stride *= m.size
    return tuple(out)


def accumulator(dtype: DType) -> DType:
    """The type that values of `dtype` are combined in."""
    if dtype.bits >= 32:
        return dtype
    return f32 if dtype.is_float else i32


def scratch_bytes(f: Fragment, axis: int, dtype: DType, threads: int) -> int:
    """Shared memory that the exchange between warps needs in a block of `threads`: every thread
    of the block has cells of its own, so roles may reduce side by side."""
    if all(d.shuffles for d in thread_digits(f, axis)):
        return 0
    return threads * _together(_kept(f, axis)) * accumulator(dtype).bits // 8


def _kept(f: Fragment, axis: int) -> int:
    """Results a thread holds."""
    return prod(m.size for m in f.value if m.dim != axis)


def _together(count: int) -> int:
    return next(n for n in range(min(count, TOGETHER), 0, -1) if count % n == 0)


def lower_reduce(ctx: Context, op: Reduce) -> tuple[th.Stmt, ...]:
    """dst[..., 0, ...] = op over src along `axis`."""
    f, g = ctx.fragment(op.src), ctx.fragment(op.dst)
    strided = _strided(f)
    kept = [(m, s) for m, s in strided if m.dim != op.axis]
    gone = [(m, s) for m, s in strided if m.dim == op.axis]
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
    along = [m if m.dim == op.axis else Mode(m.size, 0, 0) for m in f.thread]
    within = inside(ctx, f.shape, along, [(m, loop) for (m, _), loop in zip(gone, inner)])
    if within is not None:
        # A value beyond the tile is the neutral element.
        neutral = _neutral(op.op, wide)
        value, first = select(within, value, neutral), neutral
    # max and min need no neutral element where they can start from a value.
    body: list[th.Stmt] = [th.Assign(total, _seed(op.op, first, wide), True, op.span)]
    step = th.Assign(total, binary(combine, total, value), False, op.span)
    body += nest(inner, [m.size for m, _ in gone], (step,))
    digits = thread_digits(f, op.axis)
    for digit in digits:
        mask = digit.stride
        while digit.shuffles and mask < digit.size * digit.stride:
            other = Call("shfl.xor", (total, Const(mask, i32)), wide)
            body.append(th.Assign(total, binary(combine, total, other), False, op.span))
            mask *= 2
    rest = [d for d in digits if not d.shuffles]
    if not rest:
        body.append(ctx.assign(op.dst, target, total, op.span))
        return nest(outer, sizes, body)
    partial, count = ctx.fresh("partial_"), _kept(f, op.axis)
    body.append(th.SetElement(partial, target, total, op.span))
    return (
        th.DeclareArray(partial, wide, count),
        *nest(outer, sizes, body),
        *_exchange(ctx, op, rest, partial, count, dtype),
    )


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
    f, wide = ctx.fragment(op.src), accumulator(dtype)
    scratch, size, together = ctx.arena.offsets[""], wide.bits // 8, _together(count)
    lane = ctx.lane if f.threads == ctx.team.threads else mod(ctx.lane, f.threads)
    home: Scalar = lane
    for digit in rest:
        home = sub(home, mul(mod(floordiv(lane, digit.stride), digit.size), digit.stride))
    lane, home = ctx.once(lane), ctx.once(home)
    chunk, at = ctx.loops([count // together]), ctx.loops([together])
    others = ctx.loops([d.size for d in rest])
    register = add(mul(chunk[0], together), at[0])

    def place(thread: Scalar) -> th.SharedPtr:
        number = add(thread, ctx.team.first, mul(at[0], ctx.program.block_dim))
        return th.SharedPtr(add(mul(number, size), scratch))

    cell = ctx.fresh("cell_")
    held = th.Regs(cell, Const(0, i32), (0,), 1, wide)
    value = Element(cell, (Const(0, i32),), wide)
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
    body = [barrier, *nest(at, [together], (publish,)), barrier, *nest(at, [together], gather)]
    return (th.DeclareArray(cell, wide, 1), *nest(chunk, [count // together], body))
