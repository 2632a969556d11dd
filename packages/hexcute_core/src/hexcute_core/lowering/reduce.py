"""reduce: a thread's own values, then lanes by shuffles, then the rest through shared memory.

Only thread modes that move along the reduced dimension take part, so replicated values are never
counted twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from hexcute_core import thread as th
from hexcute_core.arch import Fragment, Mode
from hexcute_core.dtypes import DType, i32
from hexcute_core.lowering.context import Context, nest
from hexcute_core.lowering.digits import THREAD
from hexcute_core.scalar import (
    Call,
    Const,
    Element,
    Scalar,
    Var,
    add,
    binary,
    floordiv,
    mod,
    mul,
    sub,
)
from hexcute_core.scalar.expr import BinaryOp
from hexcute_core.tile import Reduce

WARP = 32
_OPS: dict[str, BinaryOp] = {"sum": "add", "max": "max", "min": "min"}


@dataclass(frozen=True)
class ThreadDigit:
    """A digit of the thread index along the reduced dimension: `(t / stride) % size`."""

    size: int
    stride: int

    @property
    def shuffles(self) -> bool:
        """Whether XOR shuffles within a warp reach all of its values."""
        return self.size & (self.size - 1) == 0 and self.size * self.stride <= WARP


def thread_digits(f: Fragment, axis: int) -> tuple[ThreadDigit, ...]:
    """Digits of the thread index that move along `axis`, cut at the warp's end."""
    out: list[ThreadDigit] = []
    stride = 1
    for m in f.thread:
        if m.step and m.dim == axis:
            inside = WARP // stride if stride < WARP else 1
            if 1 < inside < m.size and m.size % inside == 0:
                out += [ThreadDigit(inside, stride), ThreadDigit(m.size // inside, WARP)]
            else:
                out.append(ThreadDigit(m.size, stride))
        stride *= m.size
    return tuple(out)


def scratch_bytes(f: Fragment, axis: int, dtype: DType) -> int:
    """Shared memory that the exchange between warps needs."""
    if all(d.shuffles for d in thread_digits(f, axis)):
        return 0
    return f.threads * max(4, dtype.bits // 8)


def lower_reduce(ctx: Context, op: Reduce) -> tuple[th.Stmt, ...]:
    """dst[..., 0, ...] = op over src along `axis`."""
    f = ctx.fragment(op.src)
    kept = [(m, s) for m, s in _strided(f) if m.dim != op.axis]
    gone = [(m, s) for m, s in _strided(f) if m.dim == op.axis]
    outer, inner = ctx.loops([m.size for m, _ in kept]), ctx.loops([m.size for m, _ in gone])
    target: Scalar = Const(0, i32)
    stride = 1
    for (m, _), loop in zip(kept, outer):
        target = add(target, mul(loop, stride))
        stride *= m.size
    start = add(*(mul(loop, s) for (_, s), loop in zip(kept, outer)))
    source = add(start, *(mul(loop, s) for (_, s), loop in zip(gone, inner)))
    dtype = ctx.dtype(op.dst)
    total = Var(ctx.fresh("total_"), dtype)
    first = ctx.element(op.src, start)
    value = ctx.element(op.src, source)
    combine = _OPS[op.op]
    # max and min have no neutral element that every type can hold: they start from a value.
    body: list[th.Stmt] = [th.Assign(total, _seed(op.op, first, dtype), True, op.span)]
    step = th.Assign(total, binary(combine, total, value), False, op.span)
    body += nest(inner, [m.size for m, _ in gone], (step,))
    rest = []
    for digit in thread_digits(f, op.axis):
        if not digit.shuffles:
            rest.append(digit)
            continue
        mask = digit.stride
        while mask < digit.size * digit.stride:
            other = Call("shfl.xor", (total, Const(mask, i32)), dtype)
            body.append(th.Assign(total, binary(combine, total, other), False, op.span))
            mask *= 2
    for digit in rest:
        body += _exchange(ctx, op, digit, total, combine)
    body.append(ctx.assign(op.dst, target, total, op.span))
    return nest(outer, [m.size for m, _ in kept], body)


def _seed(op: str, first: Element, dtype: DType) -> Scalar:
    if op == "sum":
        return Const(0.0 if dtype.is_float else 0, dtype)
    return first


def _strided(f: Fragment) -> list[tuple[Mode, int]]:
    """Value digits with their register strides."""
    out: list[tuple[Mode, int]] = []
    stride = 1
    for m in f.value:
        out.append((m, stride))
        stride *= m.size
    return out


def _exchange(
    ctx: Context, op: Reduce, digit: ThreadDigit, total: Var, combine: BinaryOp
) -> list[th.Stmt]:
    """All threads publish their totals; each combines those that differ from it in `digit`."""
    scratch = ctx.arena.offsets[""]
    size = total.dtype.bits // 8
    cell = ctx.fresh("cell_")
    own = th.Regs(cell, Const(0, i32), (0,), 1, total.dtype)
    index = Element(cell, (Const(0, i32),), total.dtype)
    mine = mod(floordiv(THREAD, digit.stride), digit.size)
    home = sub(THREAD, mul(mine, digit.stride))
    loop = Var(ctx.fresh("i"), i32)
    there = add(mul(add(home, mul(loop, digit.stride)), size), scratch)
    zero, one = Const(0, i32), Const(1, i32)
    barrier = th.Prim("bar.sync", (), op.span)
    result = Var(ctx.fresh("total_"), total.dtype)
    load = th.Prim(f"ld.shared.{size}", (own, th.SharedPtr(there)), op.span)
    first = th.Prim(
        f"ld.shared.{size}", (own, th.SharedPtr(add(mul(home, size), scratch))), op.span
    )
    return [
        th.DeclareArray(cell, total.dtype, 1),
        th.SetElement(cell, zero, total, op.span),
        barrier,
        th.Prim(
            f"st.shared.{size}", (th.SharedPtr(add(mul(THREAD, size), scratch)), own), op.span
        ),
        barrier,
        first,
        th.Assign(result, index, True, op.span),
        th.For(
            loop, one, Const(digit.size, i32), one,
            (load, th.Assign(result, binary(combine, result, index), False, op.span)),
            unroll=True, span=op.span,
        ),
        th.Assign(total, result, False, op.span),
    ]  # fmt: skip
