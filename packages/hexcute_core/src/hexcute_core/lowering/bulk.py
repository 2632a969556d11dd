"""Copies by TMA: an elected thread issues a box for every repetition of the plan."""

from __future__ import annotations

from dataclasses import replace

from hexcute_core import thread as th
from hexcute_core.arch import Mode
from hexcute_core.lowering.cluster import mask, part_of
from hexcute_core.lowering.context import Context, nest, rep_modes
from hexcute_core.lowering.global_address import GlobalAddress
from hexcute_core.lowering.shared_address import SharedAddress
from hexcute_core.scalar import Scalar, add, compare
from hexcute_core.synthesis.operands import BulkPlan
from hexcute_core.tile import Copy


def lower_bulk_load(ctx: Context, op: Copy, barrier: th.SharedPtr) -> tuple[th.Stmt, ...]:
    """Boxes from global to shared memory that complete on `barrier`; one thread runs this."""
    return _boxes(ctx, op, ctx.solution.bulk[op.id], barrier)


def lower_bulk_store(ctx: Context, op: Copy) -> tuple[th.Stmt, ...]:
    """Boxes from shared to global memory, issued by the team's first thread; `stores.py` says when
    the buffer has been read. The team has met since it was written, its writes fenced."""
    plan = ctx.solution.bulk[op.id]
    body = (*_boxes(ctx, op, plan, None), th.Prim("tma.commit", (), op.span))
    return (th.If(compare("eq", ctx.lane, 0), body, (), op.span),)


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
    place = GlobalAddress(ctx.program, ctx.facts, outside, ctx.team)
    own, moves = place.coordinates((), list(zip(modes, digits)))
    coords = tuple(add(base, *steps) for base, steps in zip(place.corner(own), moves))
    box = th.MapRef(ctx.map_name(plan), coords)
    shared = SharedAddress(
        ctx.solution.shared[inside.tensor],
        inside,
        ctx.dtype(inside).bits // 8,
        ctx.team,
        ctx.facts,
        op.span,
    )
    parts: list[Scalar] = [p.value for p in shared.rep_parts(modes, digits)]
    offset = add(shared.start_bytes(), *parts, ctx.arena.offsets[inside.tensor])
    buffer = th.SharedPtr(offset)
    if barrier is not None and shared_load is not None:
        targets = mask(ctx.program, shared_load.axes)
        call = th.Prim("tma.load.multicast", (buffer, box, barrier, targets), op.span)
    elif barrier is not None:
        call = th.Prim("tma.load", (buffer, box, barrier), op.span)
    else:
        call = th.Prim("tma.store", (box, buffer), op.span)
    return nest(loops, sizes, (call,))
