"""copy: a nest of unrolled loops over the plan's repetitions around one instruction."""

from __future__ import annotations

from collections.abc import Sequence

from hexcute_core import thread as th
from hexcute_core.arch import Mode, product
from hexcute_core.arch.groups import WARP
from hexcute_core.dtypes import boolean, i32
from hexcute_core.lowering.bounds import inside
from hexcute_core.lowering.context import Context, nest, register_offset, rep_modes
from hexcute_core.lowering.digits import digits
from hexcute_core.lowering.elements import resolve
from hexcute_core.lowering.elementwise import lower_same
from hexcute_core.lowering.global_address import GlobalAddress
from hexcute_core.lowering.rows import LookedUp, look_up
from hexcute_core.lowering.shared_address import SharedAddress, address
from hexcute_core.scalar import Const, Scalar, add, compare, land
from hexcute_core.synthesis.solution import CopyPlan
from hexcute_core.tile import Copy, GlobalView, RegisterTensor, TileRef

UNROLLED = 16
"""Calls of a copy between memories written out one after another."""


def lower_copy(ctx: Context, op: Copy) -> tuple[th.Stmt, ...]:
    """Statements of one copy."""
    src, dst = ctx.program.tensor(op.src.tensor), ctx.program.tensor(op.dst.tensor)
    if isinstance(src, RegisterTensor) and isinstance(dst, RegisterTensor):
        return lower_same(ctx, op.dst, op.src, op.span)
    plan = ctx.solution.copies[op.id]
    sizes = [rep.size for rep in plan.reps]
    loops = ctx.loops(sizes)
    looked_up = look_up(ctx, op, plan, loops)
    sides = [side(ctx, ref, plan, loops, looked_up) for ref in (op.src, op.dst)]
    (source, source_ok), (target, target_ok) = sides
    predicate = target_ok if source_ok is None else source_ok
    within = inside(
        ctx, op.dst.shape, plan.thread, list(zip(rep_modes(plan.reps), loops)), plan.run
    )
    # The lanes of a matrix store act together.
    together = WARP if plan.row.access == "matrix" else 1
    stores = not isinstance(dst, RegisterTensor)
    guard = first_holder(ctx, plan.thread, together) if stores else None
    if plan.second is not None:
        body = _staged(ctx, op, plan, source, target, predicate)
    else:
        operands: tuple[th.Operand, ...] = (target, source)
        if predicate is not None and guard is not None and plan.row.name.startswith("st."):
            predicate, guard = land(guard, predicate), None
        if predicate is not None:
            if within is not None and not plan.row.asynchronous and looked_up is None:
                predicate, within = land(within, predicate), None
            operands = (*operands, predicate)
        body = (th.Prim(plan.row.name, operands, op.span, op.id),)
        if op.outside is not None and predicate is not None and not _is_true(predicate):
            other = _set(target, resolve(ctx, op.outside))
            body = (*body, th.If(predicate, (), other, op.span))
    if looked_up is not None:
        body = (*looked_up.statements, *body)
    if within is not None:
        beyond = () if isinstance(source, th.Regs) else _zeros(target)
        body = (th.If(within, body, beyond, op.span, op.id),)
    # A copy between memories holds no register from call to call: long ones need not unroll.
    registers = any(isinstance(t, RegisterTensor) for t in (src, dst))
    whole = nest(loops, sizes, body, None if registers else UNROLLED)
    return whole if guard is None else (th.If(guard, whole, (), op.span, op.id),)


def _zeros(target: th.Operand) -> tuple[th.Stmt, ...]:
    """What a thread's registers hold of coordinates beyond the tile."""
    if not isinstance(target, th.Regs):
        return ()
    return _set(target, Const(0.0 if target.dtype.is_float else 0, target.dtype))


def _set(target: th.Operand, value: Scalar) -> tuple[th.Stmt, ...]:
    """The registers of one call, all of them `value`."""
    assert isinstance(target, th.Regs)
    places = [add(target.offset, p + w) for p in target.pieces for w in range(target.width)]
    return tuple(th.SetElement(target.array, place, value) for place in places)


def _is_true(predicate: Scalar) -> bool:
    return isinstance(predicate, Const) and bool(predicate.value)


def first_holder(ctx: Context, thread: Sequence[Mode], together: int = 1) -> Scalar | None:
    """Whether a thread is the first of those that hold the same elements, by its digits; None where
    all are. Where so many lanes act `together`, it is they that may be the first."""
    conditions: list[Scalar] = []
    sizes, place = [m.size for m in thread], 1
    for mode, digit in zip(thread, digits(ctx.lane, sizes, ctx.team.threads)):
        if mode.step == 0 and mode.size > 1 and place >= together:
            conditions.append(compare("eq", digit, 0))
        place *= mode.size
    if product(thread) < ctx.team.threads:
        conditions.append(compare("lt", ctx.lane, product(thread)))
    return ctx.once(land(*conditions)) if conditions else None


def side(
    ctx: Context,
    ref: TileRef,
    plan: CopyPlan,
    loops: list[Scalar],
    looked_up: LookedUp | None,
) -> tuple[th.Operand, Scalar | None]:
    """The operand for one side of the copy and, for global memory, its predicate."""
    tensor = ctx.program.tensor(ref.tensor)
    modes = rep_modes(plan.reps)
    if isinstance(tensor, RegisterTensor):
        offset = register_offset(ctx.register_base(ref), plan.reps, loops)
        return th.Regs(ref.tensor, offset, plan.pieces, plan.width, tensor.dtype), None
    if isinstance(tensor, GlobalView):
        reps = list(zip(modes, loops))
        place = GlobalAddress(
            ctx.program, ctx.facts, ref, ctx.team, plan.thread, reps, ctx.once,
            None if looked_up is None else looked_up.number,
        )  # fmt: skip
        offset, predicate = place.at()
        return th.GlobalPtr(tensor.param, offset, tensor.dtype), predicate
    shared = SharedAddress(
        ctx.solution.shared[ref.tensor],
        ref,
        tensor.dtype.bits / 8,
        ctx.team,
        ctx.facts,
    )
    base, xors, adds = shared.split(plan.thread, modes, loops)
    offset = address(ctx.once(base), xors, adds, ctx.arena.offsets[ref.tensor])
    if ref.rank is not None:
        return th.RemotePtr(offset, ref.rank), None
    return th.SharedPtr(offset), None


def _staged(
    ctx: Context,
    op: Copy,
    plan: CopyPlan,
    source: th.Operand,
    target: th.Operand,
    predicate: Scalar | None,
) -> tuple[th.Stmt, ...]:
    """A copy between two memories through registers: load, then store."""
    assert plan.second is not None
    dtype = ctx.dtype(op.src)
    width = product(plan.run) if plan.run else 1
    array = ctx.fresh("staging_")
    regs = th.Regs(array, Const(0, i32), (0,), width, dtype)
    load: tuple[th.Operand, ...] = (regs, source)
    store: tuple[th.Operand, ...] = (target, regs)
    if plan.row.src == "global":
        load = (*load, _always(predicate))
    else:
        store = (*store, _always(predicate))
    return (
        th.DeclareArray(array, dtype, width),
        th.Prim(plan.row.name, load, op.span, op.id),
        th.Prim(plan.second.name, store, op.span, op.id),
    )


def _always(predicate: Scalar | None) -> Scalar:
    return Const(True, boolean) if predicate is None else predicate
