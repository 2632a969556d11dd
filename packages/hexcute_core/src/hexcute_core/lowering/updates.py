"""Atomic updates: of tiles by the registers that hold them, and of one element by one thread.

Of threads that hold the same elements the first one updates. Where the others want to know what was
there, it tells them through cells of shared memory: `share`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from hexcute_core import thread as th
from hexcute_core.arch import Fragment, Mode
from hexcute_core.arch.registers import locate
from hexcute_core.arch.updates import ordered, update_name
from hexcute_core.dtypes import DType, i32
from hexcute_core.errors import LayoutConflict, SourceSpan
from hexcute_core.lowering.bounds import inside
from hexcute_core.lowering.context import Context, nest, rep_modes
from hexcute_core.lowering.copy import first_holder, side
from hexcute_core.lowering.digits import digits
from hexcute_core.lowering.elements import Lower, lower_elements, resolve, written
from hexcute_core.lowering.global_address import GlobalAddress
from hexcute_core.lowering.rows import look_up
from hexcute_core.lowering.shared_address import SharedAddress, address
from hexcute_core.lowering.threads import ThreadDigit, cell, thread_in, together, without
from hexcute_core.scalar import Const, Element, Scalar, add, compare, land, mul
from hexcute_core.synthesis.solution import CopyPlan
from hexcute_core.tile import Copy, ForElements, GlobalView, SharedTensor, TileRef, UpdateElement

ZERO = Const(0, i32)


def lower_update(ctx: Context, op: Copy) -> tuple[th.Stmt, ...]:
    """Statements of a copy that updates what it would write."""
    plan, update, dtype = ctx.solution.copies[op.id], op.update, ctx.dtype(op.dst)
    assert update is not None
    sizes = [rep.size for rep in plan.reps]
    loops = ctx.loops(sizes)
    looked_up = look_up(ctx, op, plan, loops)
    value, _ = side(ctx, op.src, plan, loops, None)
    target, predicate = side(ctx, op.dst, plan, loops, looked_up)
    count = prod(m.size for m in plan.run)
    body: list[th.Stmt] = [] if looked_up is None else [*looked_up.statements]
    operands: list[th.Operand] = []
    found = ctx.fresh("old_")
    if plan.row.name.startswith("atom."):
        body.append(th.DeclareArray(found, dtype, count))
        operands.append(th.Regs(found, ZERO, (0,), count, dtype))
    operands.append(target)
    if update.compare is not None:
        compared = ctx.fresh("compared_")
        body.append(th.DeclareArray(compared, dtype, count))
        for i, index in enumerate(_indices(ctx, update.compare, plan, loops)):
            held = ctx.element(update.compare, index)
            body.append(th.SetElement(compared, Const(i, i32), held, op.span))
        operands.append(th.Regs(compared, ZERO, (0,), count, dtype))
    operands.append(value)
    operands += [] if predicate is None else [predicate]
    body.append(th.Prim(plan.row.name, tuple(operands), op.span, op.id))
    beyond: list[th.Stmt] = []
    if update.old is not None:
        for i, index in enumerate(_indices(ctx, update.old, plan, loops)):
            given = Element(found, (Const(i, i32),), dtype)
            body.append(ctx.assign(update.old, index, given, op.span))
            beyond.append(ctx.assign(update.old, index, _zero(dtype), op.span))
    within = inside(
        ctx, op.dst.shape, plan.thread, list(zip(rep_modes(plan.reps), loops)), plan.run
    )
    if within is not None:
        body = [th.If(within, tuple(body), tuple(beyond), op.span, op.id)]
    whole = nest(loops, sizes, body)
    first = first_holder(ctx, plan.thread)
    if first is None:
        return whole
    told = () if update.old is None else share(ctx, update.old, op.span)
    return (th.If(first, whole, (), op.span, op.id), *told)


def _indices(
    ctx: Context, ref: TileRef, plan: CopyPlan, loops: Sequence[Scalar]
) -> list[Scalar]:
    """The values of register tile `ref` that a call works on, in the order of its run."""
    f = ctx.fragment(ref)
    base = add(ZERO, *(_place(f, mode, loop) for mode, loop in zip(rep_modes(plan.reps), loops)))
    runs = [base]
    for mode in plan.run:
        runs = [add(i, _place(f, mode, Const(d, i32))) for d in range(mode.size) for i in runs]
    return runs


def _place(f: Fragment, mode: Mode, digit: Scalar) -> Scalar:
    """How far step `digit` of `mode` leads through the values of `f`."""
    parts = locate(f, mode)
    if parts is None:
        raise TypeError(f"{f} does not hold the digit {mode}")
    found = digits(digit, [n for n, _ in parts], mode.size)
    return add(ZERO, *(mul(d, stride) for d, (_, stride) in zip(found, parts)))


def _zero(dtype: DType) -> Const:
    return Const(0.0 if dtype.is_float else 0, dtype)


def share_bytes(f: Fragment, dtype: DType, team: int, block: int) -> int:
    """Shared memory in which the first of the threads that hold the same elements of `f` tells the
    others of a team; each thread of the block has cells of its own."""
    if f.threads >= team and not _copies(f):
        return 0
    return block * together(f.values) * max(1, dtype.bits // 8)


def _copies(f: Fragment) -> list[ThreadDigit]:
    """Digits of the thread index whose threads hold the same elements."""
    out, stride = [], 1
    for m in f.thread:
        if m.step == 0 and m.size > 1:
            out.append(ThreadDigit(m.size, stride, 0))
        stride *= m.size
    return out


def share(ctx: Context, ref: TileRef, span: SourceSpan) -> tuple[th.Stmt, ...]:
    """All threads that hold an element of register tile `ref` get what the first of them has."""
    f, dtype = ctx.fragment(ref), ctx.dtype(ref)
    first = first_holder(ctx, f.thread)
    if first is None:
        return ()
    if dtype.bits < 8:
        raise LayoutConflict(
            f"threads tell each other elements of {dtype} `{ref.tensor}`, which share bytes",
            span,
            "keep them in a wider type: hx.cast(x, i8)",
        )
    size, batch = dtype.bits // 8, together(f.values)
    lane = ctx.once(thread_in(ctx, f))
    home = ctx.once(without(thread_in(ctx, f), _copies(f)))
    chunk, at = ctx.loops([f.values // batch]), ctx.loops([batch])
    register = add(mul(chunk[0], batch), at[0])
    got = ctx.fresh("cell_")
    held = th.Regs(got, ZERO, (0,), 1, dtype)
    own = th.Regs(ref.tensor, add(ctx.register_base(ref), register), (0,), 1, dtype)
    publish = th.Prim(f"st.shared.{size}", (cell(ctx, lane, at[0], dtype), own), span)
    load = th.Prim(f"ld.shared.{size}", (held, cell(ctx, home, at[0], dtype)), span)
    take = ctx.assign(ref, register, Element(got, (ZERO,), dtype), span)
    barrier = ctx.barrier(span)
    published = th.If(first, nest(at, [batch], (publish,)), (), span)
    body = [barrier, published, barrier, *nest(at, [batch], (load, take))]
    return (th.DeclareArray(got, dtype, 1), *nest(chunk, [f.values // batch], body))


def lower_updating(ctx: Context, op: ForElements, lower: Lower) -> tuple[th.Stmt, ...]:
    """A loop over elements that updates memory: each element is visited by the first thread that
    holds it, which tells the others what it set."""
    body = lower_elements(ctx, op, lower)
    first = first_holder(ctx, ctx.fragment(op.ref).thread)
    if first is None:
        return body
    told = [stmt for ref in written(op) for stmt in share(ctx, ref, op.span)]
    return (th.If(first, body, (), op.span), *told)


def lower_update_element(ctx: Context, stmt: UpdateElement) -> tuple[th.Stmt, ...]:
    """One thread's update of one element, which does nothing outside its tensor."""
    tensor, span = ctx.program.tensor(stmt.dst.tensor), stmt.span
    dtype = tensor.dtype
    ref = replace(stmt.dst, starts=tuple(resolve(ctx, e) for e in stmt.dst.starts))
    swaps = stmt.op in ("exch", "cas") or "acq" in stmt.order
    family = "atom" if stmt.old is not None or swaps else "red"
    space = "global" if isinstance(tensor, GlobalView) else "shared"
    near = stmt.scope == "block"
    name = update_name(family, space, stmt.op, dtype.name, 1, ordered(stmt.order), near)
    out: list[th.Stmt] = []

    def register(stem: str, value: Scalar) -> th.Regs:
        array = ctx.fresh(stem)
        out.append(th.DeclareArray(array, dtype, 1))
        out.append(th.SetElement(array, ZERO, value, span))
        return th.Regs(array, ZERO, (0,), 1, dtype)

    old = [register("old_", _zero(dtype))] if family == "atom" else []
    compared = [] if stmt.compare is None else [register("compared_", resolve(ctx, stmt.compare))]
    given = [*compared, register("given_", resolve(ctx, stmt.value))]
    if isinstance(tensor, GlobalView):
        offset, inside = GlobalAddress(
            ctx.program, ctx.facts, ref, ctx.team, (), [], ctx.once
        ).at()
        target: th.Operand = th.GlobalPtr(tensor.param, offset, dtype)
        out.append(th.Prim(name, (*old, target, *given, inside), span))
    else:
        assert isinstance(tensor, SharedTensor)
        target, inside = _shared(ctx, tensor, ref, span)
        update = th.Prim(name, (*old, target, *given), span)
        known = isinstance(inside, Const) and bool(inside.value)
        out.append(update if known else th.If(inside, (update,), (), span))
    out += _fence(ctx, tensor, span)
    if stmt.old is not None:
        out.append(th.Assign(stmt.old, Element(old[0].array, (ZERO,), dtype), True, span))
    return tuple(out)


def _shared(
    ctx: Context, tensor: SharedTensor, ref: TileRef, span: SourceSpan
) -> tuple[th.SharedPtr, Scalar]:
    """Where an element of shared memory lies, and whether its tensor has it."""
    layout = ctx.solution.shared.get(tensor.name)
    if layout is None:
        raise LayoutConflict(
            f"nothing is ever copied to or from `{tensor.name}`: what is updated there has no "
            "beginning and no use",
            span,
            "fill it before, hx.fill(s, 0), and copy it to where it is needed",
        )
    place = SharedAddress(layout, ref, tensor.dtype.bits / 8, ctx.team, ctx.facts)
    base, xors, adds = place.split((), (), ())
    inside = []
    for start, extent in zip(ref.starts, tensor.shape):
        low, high = ctx.facts.bounds(start)
        if low is None or low < 0:
            inside.append(compare("ge", start, 0))
        if high is None or high >= extent:
            inside.append(compare("lt", start, extent))
    return th.SharedPtr(address(base, xors, adds, ctx.arena.offsets[tensor.name])), land(*inside)


def _fence(ctx: Context, tensor: object, span: SourceSpan) -> tuple[th.Stmt, ...]:
    """What the thread wrote is shown to TMA and wgmma, where they use the same bytes."""
    if isinstance(tensor, GlobalView) and tensor.param in ctx.async_params:
        return (th.Prim("fence.proxy.global", (), span),)
    if isinstance(tensor, SharedTensor) and tensor.name in ctx.async_used:
        return (th.Prim("fence.proxy", (), span),)
    return ()
