"""gemm by warp groups: fence, products over K, N and M repetitions, commit.

Operands in shared memory become descriptors: a byte address (before the swizzle, which the
hardware applies) and the strides between core matrices, read off the synthesized layout.
"""

from __future__ import annotations

from itertools import product
from math import prod

from hexcute_core import thread as th
from hexcute_core.arch.groups import WARP_GROUP
from hexcute_core.dtypes import boolean, i32
from hexcute_core.errors import LayoutConflict
from hexcute_core.lowering.context import Context
from hexcute_core.lowering.elements import resolve
from hexcute_core.lowering.shared_address import SharedAddress
from hexcute_core.scalar import Call, Const, Scalar, add, floordiv, mod, mul
from hexcute_core.synthesis.operands import descriptor_steps
from hexcute_core.synthesis.solution import WgmmaPlan
from hexcute_core.tile import Gemm, TileRef


def lower_wgmma(ctx: Context, op: Gemm) -> tuple[th.Stmt, ...]:
    """c += a * b^T; waits for the result unless the gemm is asynchronous."""
    plan = ctx.solution.wgmmas[op.id]
    group = _warp_group(ctx, plan)
    along = (mod(group, plan.groups[0]), floordiv(group, plan.groups[0]))
    out: list[th.Stmt] = [th.Prim("wgmma.fence", (), op.span)]
    a_side = None if plan.a_in_registers else _Side(ctx, op, op.a, "a", along[0], plan)
    b_side = _Side(ctx, op, op.b, "b", along[1], plan)
    majors = ("r" if a_side is None else a_side.letter) + b_side.letter
    name = plan.row.name(majors)
    true = Const(True, boolean)
    first = resolve(ctx, op.accumulate)
    m_reps, n_reps, k_reps = plan.repeats
    for k, n, m in product(range(k_reps), range(n_reps), range(m_reps)):
        c = _registers(ctx, op.c, plan.c_pieces, (m, n), plan.c_strides)
        if a_side is None:
            a: th.Operand = _registers(ctx, op.a, plan.a_pieces, (m, k), plan.a_strides)
        else:
            a = a_side.at(m, k)
        out.append(th.Prim(name, (c, a, b_side.at(n, k), true if k else first), op.span))
    out.append(th.Prim("wgmma.commit", (), op.span))
    if not op.asynchronous:
        out.append(th.Prim("wgmma.wait", (Const(0, i32),), op.span))
    return tuple(out)


def _warp_group(ctx: Context, plan: WgmmaPlan) -> Scalar:
    """Which warp group of the team this is. Told by one lane of each warp, it is known to be the
    same for all of them, and descriptors stay in uniform registers from which wgmma reads them."""
    if prod(plan.groups) == 1:
        return Const(0, i32)
    number = floordiv(ctx.lane, WARP_GROUP)
    return ctx.once(Call("shfl.idx", (number, Const(0, i32)), i32))


def _registers(
    ctx: Context,
    ref: TileRef,
    pieces: tuple[int, ...],
    at: tuple[int, int],
    strides: tuple[int, int],
) -> th.Regs:
    """Instruction registers: 32-bit words of consecutive elements, one element if 32 bits wide."""
    dtype = ctx.dtype(ref)
    word = max(1, 32 // dtype.bits)
    offset = add(ctx.register_base(ref), at[0] * strides[0] + at[1] * strides[1])
    return th.Regs(ref.tensor, offset, pieces[::word], word, dtype)


class _Side:
    """One operand in shared memory: descriptors for its repetitions."""

    def __init__(
        self, ctx: Context, op: Gemm, ref: TileRef, side: str, group: Scalar, plan: WgmmaPlan
    ) -> None:
        self._layout, self._ref = ctx.solution.shared[ref.tensor], ref
        self._operand = ctx.solution.operands[op.id, side]
        self._bytes = ctx.dtype(ref).bits // 8
        self.letter = "k" if self._operand.major == "k" else "m"
        starts = SharedAddress(
            self._layout, ref, self._bytes, ctx.team, ctx.facts
        ).start_bytes()
        count = plan.groups[0 if side == "a" else 1]
        share = self._offset(ref.shape[0] // count, 0) * self._bytes if count > 1 else 0
        self._base = add(starts, mul(group, share), ctx.arena.offsets[ref.tensor])
        steps = descriptor_steps(self._operand, self._offset, self._bytes)
        if isinstance(steps, str):
            raise LayoutConflict(f"`{ref.tensor}` as {self._layout}: {steps}", op.span)
        self._leading, self._stride = steps

    def _offset(self, row: int, k: int) -> int:
        """Element offset of tile element (row, k), before the swizzle."""
        whole = [0] * len(self._layout.shape)
        for m, c in zip(self._ref.kept, (row, k)):
            whole[m] = c
        return int(self._layout.layout(*whole))

    def at(self, rep: int, step: int) -> th.MatrixDesc:
        """The operand of repetition `rep` along its rows and `step` along K."""
        operand = self._operand
        offset = self._offset(rep * operand.rows, step * operand.depth) * self._bytes
        return th.MatrixDesc(add(self._base, offset), self._leading, self._stride, operand.swizzle)
