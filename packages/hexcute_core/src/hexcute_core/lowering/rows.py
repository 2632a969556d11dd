"""Rows that a tile of numbers names: before each call of a copy, the number of its row is read.

The numbers are in shared memory, so a thread finds those of the rows that it moves, whoever wrote
them; `ld.shared.4` brings the one of the call into a register, and the address is made of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hexcute_core import thread as th
from hexcute_core.arch import Mode
from hexcute_core.dtypes import i32
from hexcute_core.lowering.context import Context, rep_modes
from hexcute_core.lowering.shared_address import SharedAddress, address
from hexcute_core.scalar import Const, Element, Scalar
from hexcute_core.synthesis.solution import CopyPlan
from hexcute_core.tile import Copy, GlobalView, TileRef, rows_of


@dataclass(frozen=True)
class LookedUp:
    """The statements that read the number of a call's row, and the register that then has it."""

    statements: tuple[th.Stmt, ...]
    number: Element


def look_up(ctx: Context, op: Copy, plan: CopyPlan, loops: Sequence[Scalar]) -> LookedUp | None:
    """The number of the row that a call of `op` moves; None where no side's rows are named."""
    for ref in (op.src, op.dst):
        view = ctx.program.tensor(ref.tensor)
        if isinstance(view, GlobalView) and (rows := rows_of(view, ref)) is not None:
            named = ref.kept.index(view.named) if view.named in ref.kept else None
            return _read(ctx, op, rows, named, plan, loops)
    return None


def _read(
    ctx: Context,
    op: Copy,
    rows: TileRef,
    named: int | None,
    plan: CopyPlan,
    loops: Sequence[Scalar],
) -> LookedUp:
    """Reads the number of `rows` for the coordinate of a call along its tile's mode `named`."""
    shared = SharedAddress(ctx.solution.shared[rows.tensor], rows, 4.0, ctx.team, ctx.facts)
    thread, reps = _along(plan.thread, named), _along(rep_modes(plan.reps), named)
    base, xors, adds = shared.split(thread, reps, loops)
    place = address(ctx.once(base), xors, adds, ctx.arena.offsets[rows.tensor])
    array, zero = ctx.fresh("row_"), Const(0, i32)
    read = th.Prim(
        "ld.shared.4", (th.Regs(array, zero, (0,), 1, i32), th.SharedPtr(place)), op.span
    )
    return LookedUp((th.DeclareArray(array, i32, 1), read), Element(array, (zero,), i32))


def _along(modes: Sequence[Mode], named: int | None) -> list[Mode]:
    """What `modes` move along tile dimension `named` alone, as moves of a tile of one dimension."""
    return [Mode(m.size, m.step if m.dim == named else 0, 0) for m in modes]
