"""Copies and prefetches by TMA: one thread issues a box for every repetition of the plan."""

from __future__ import annotations

from dataclasses import replace

from hexcute_core import thread as th
from hexcute_core.arch import Mode
from hexcute_core.lowering.cluster import mask, part_of
from hexcute_core.lowering.context import Context, nest, rep_modes
from hexcute_core.lowering.global_address import GlobalAddress
from hexcute_core.lowering.shared_address import SharedAddress
from hexcute_core.scalar import Scalar, add, compare, floordiv
from hexcute_core.synthesis.solution import BulkPlan
from hexcute_core.tile import Copy, Prefetch, TileRef


def lower_bulk_load(ctx: Context, op: Copy, barrier: th.SharedPtr) -> tuple[th.Stmt, ...]:
    """Boxes from global to shared memory that complete on `barrier`; one thread runs this."""
    return _boxes(ctx, op, ctx.solution.bulk[op.id], barrier)


def lower_bulk_store(ctx: Context, op: Copy) -> tuple[th.Stmt, ...]:
    """Boxes from shared to global memory, stored or combined with what is there, issued by the
    team's first thread; `stores.py` says when the buffer has been read. The team has met since it
    was written, its writes fenced."""
    plan = ctx.solution.bulk[op.id]
    body = (*_boxes(ctx, op, plan, None), th.Prim("tma.commit", (), op.span))
    return (th.If(compare("eq", ctx.lane, 0), body, (), op.span),)


def lower_prefetch(ctx: Context, op: Prefetch) -> tuple[th.Stmt, ...]:
    """Boxes into L2, issued by the team's first thread; nothing where TMA cannot."""
    plan = ctx.solution.bulk.get(op.id)
    if plan is None:
        return ()
    sizes = [rep.size for rep in plan.reps]
    loops = ctx.loops(sizes)
    box = _box(ctx, op.src, plan, list(zip(rep_modes(plan.reps), loops)))
    body = nest(loops, sizes, (th.Prim(plan.name, (box,), op.span),))
    return body if ctx.alone else (th.If(compare("eq", ctx.lane, 0), body, (), op.span),)


def _box(
    ctx: Context, outside: TileRef, plan: BulkPlan, moves: list[tuple[Mode, Scalar]]
) -> th.MapRef:
    """The box of global tile `outside` that the digits of `moves` lead to."""
    place = GlobalAddress(ctx.program, ctx.facts, outside, ctx.team, (), moves, ctx.once)
    coordinates = place.corner()
    *corner, last = [coordinates[d] for d in place.param.inward]
    # A map of packed elements is one of the bytes they lie in.
    per_byte = max(1, 8 // ctx.dtype(outside).bits)
    return th.MapRef(ctx.map_name(plan), (*corner, floordiv(last, per_byte)))


def _boxes(
    ctx: Context, op: Copy, plan: BulkPlan, barrier: th.SharedPtr | None
) -> tuple[th.Stmt, ...]:
    outside, inside = (op.src, op.dst) if plan.load else (op.dst, op.src)
    sizes = [rep.size for rep in plan.reps]
    loops = ctx.loops(sizes)
    modes, digits = rep_modes(plan.reps), list(loops)
    shared_load = ctx.solution.multicasts.get(op.id)
    if shared_load is not None:
        # Of every box, this block's part; the parts of all blocks make up the box.
        d, rows = shared_load.dim, shared_load.rows
        box_dim = plan.dims[d]
        plan = replace(plan, box=(*plan.box[:box_dim], rows, *plan.box[box_dim + 1 :]))
        modes.append(Mode(shared_load.blocks, rows, d))
        digits.append(part_of(ctx, shared_load))
    box = _box(ctx, outside, plan, list(zip(modes, digits)))
    shared = SharedAddress(
        ctx.solution.shared[inside.tensor],
        inside,
        ctx.dtype(inside).bits / 8,
        ctx.team,
        ctx.facts,
    )
    parts: list[Scalar] = [p.value for p in shared.rep_parts(modes, digits)]
    offset = add(shared.start_bytes(), *parts, ctx.arena.offsets[inside.tensor])
    buffer = th.SharedPtr(offset)
    name = plan.name
    operands: tuple[th.Operand, ...] = (box, buffer)
    if barrier is not None:
        operands = (buffer, box, barrier)
    if shared_load is not None:
        name, operands = f"{name}.multicast", (*operands, mask(ctx.program, shared_load.axes))
    if op.hint is not None:
        name = f"{name}.{op.hint}"
    return nest(loops, sizes, (th.Prim(name, operands, op.span),))
