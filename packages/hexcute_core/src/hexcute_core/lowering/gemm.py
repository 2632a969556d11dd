"""gemm: one instruction inside unrolled loops over its K, N and M repetitions."""

from __future__ import annotations

from hexcute_core import thread as th
from hexcute_core.lowering.context import Context, nest
from hexcute_core.scalar import Element, Scalar, add, mul
from hexcute_core.tile import Gemm


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
    return nest(loops, sizes, (body,))


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
