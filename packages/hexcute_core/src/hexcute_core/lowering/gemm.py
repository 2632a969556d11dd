"""gemm: one instruction inside unrolled loops over its K, N and M repetitions."""

from __future__ import annotations

from hexcute_core import thread as th
from hexcute_core.arch.fragment import overhang
from hexcute_core.dtypes import i32
from hexcute_core.lowering.context import Context, nest
from hexcute_core.lowering.digits import digits, index_in
from hexcute_core.scalar import Const, Element, Scalar, add, compare, mul
from hexcute_core.tile import Gemm, TileRef


def lower_gemm(ctx: Context, op: Gemm) -> tuple[th.Stmt, ...]:
    """c += a * b^T; M innermost, so that consecutive instructions share the B registers."""
    plan = ctx.solution.gemms[op.id]
    levels = (*plan.m, *plan.n, *plan.k)
    sizes = [level.size for level in levels]
    loops = ctx.loops(sizes)
    m, n = loops[: len(plan.m)], loops[len(plan.m) : len(plan.m) + len(plan.n)]
    k = loops[len(plan.m) + len(plan.n) :]
    c, a, b = (ctx.register_base(ref) for ref in (op.c, op.a, op.b))
    for loop, level in zip(m, plan.m):
        c, a = add(c, mul(loop, level.first)), add(a, mul(loop, level.second))
    for loop, level in zip(n, plan.n):
        c, b = add(c, mul(loop, level.first)), add(b, mul(loop, level.second))
    for loop, level in zip(k, plan.k):
        a, b = add(a, mul(loop, level.first)), add(b, mul(loop, level.second))
    if plan.row.name.startswith("fma"):
        body: th.Stmt = _fma(ctx, op, c, a, b)
    else:
        total, left, right = (
            _operand(ctx, ref.tensor, offset, pieces)
            for ref, offset, pieces in (
                (op.c, c, plan.c_pieces), (op.a, a, plan.a_pieces), (op.b, b, plan.b_pieces)
            )
        )  # fmt: skip
        operands = (total, right, left) if plan.row.turned else (total, left, right)
        body = th.Prim(plan.row.name, operands, op.span)
    return (*_cleared(ctx, op.a, op), *_cleared(ctx, op.b, op), *nest(loops, sizes, (body,)))


def _cleared(ctx: Context, ref: TileRef, op: Gemm) -> tuple[th.Stmt, ...]:
    """Zeros in the registers of an operand that lie beyond the last of K, where instructions go on
    behind it: what is there else may be no number, and makes none of every product."""
    f = ctx.solution.fragments[ref.tensor]
    depth = op.a.shape[1]
    if f.shape != ref.shape or 1 not in overhang(f.shape, (*f.thread, *f.value)):
        return ()
    mine: list[Scalar] = [
        mul(digit, mode.step)
        for mode, digit in zip(
            f.thread, digits(index_in(ctx.team), [x.size for x in f.thread], ctx.team.threads)
        )
        if mode.dim == 1
    ]
    reach = sum((x.size - 1) * x.step for x in f.thread if x.dim == 1)
    begin, dtype = add(Const(0, i32), *mine), ctx.dtype(ref)
    zero = Const(0.0 if dtype.is_float else 0, dtype)
    at: dict[int, list[th.Stmt]] = {}
    for register in range(f.values):
        k, rest = 0, register
        for mode in f.value:
            k += rest % mode.size * mode.step * (mode.dim == 1)
            rest //= mode.size
        if k + reach >= depth:
            cell = th.SetElement(ref.tensor, Const(register, i32), zero, op.span)
            at.setdefault(k, []).append(cell)
    return tuple(
        th.If(compare("ge", begin, depth - k), tuple(cells), (), op.span)
        for k, cells in at.items()
    )


def _operand(ctx: Context, tensor: str, offset: Scalar, pieces: tuple[int, ...]) -> th.Regs:
    """Instruction registers: 32-bit words of consecutive elements, one element if 32 bits wide."""
    dtype = ctx.program.tensor(tensor).dtype
    word = max(1, 32 // dtype.bits)
    return th.Regs(tensor, offset, pieces[::word], word, dtype)


def _fma(ctx: Context, op: Gemm, c: Scalar, a: Scalar, b: Scalar) -> th.Stmt:
    dtype = ctx.dtype(op.c)
    left = Element(op.a.tensor, (a,), ctx.dtype(op.a))
    right = Element(op.b.tensor, (b,), ctx.dtype(op.b))
    return th.SetElement(op.c.tensor, c, Element(op.c.tensor, (c,), dtype) + left * right, op.span)
