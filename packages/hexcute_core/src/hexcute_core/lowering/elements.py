"""for i, j in elements(t): a loop over the thread's values with their tile coordinates."""

from __future__ import annotations

from collections.abc import Callable

from hexcute_core import thread as th
from hexcute_core.dtypes import i32
from hexcute_core.lowering.context import Context, nest
from hexcute_core.lowering.digits import THREAD, digits
from hexcute_core.scalar import Const, Element, Scalar, add, mul, rebuild
from hexcute_core.tile import ForElements, SetElement, Stmt

Lower = Callable[[Context, tuple[Stmt, ...]], tuple[th.Stmt, ...]]


def lower_elements(ctx: Context, op: ForElements, lower: Lower) -> tuple[th.Stmt, ...]:
    """Coordinates become locals; element accesses become registers of the current value."""
    f = ctx.fragment(op.ref)
    sizes = [m.size for m in f.value]
    loops = ctx.loops(sizes)
    coords: list[Scalar] = [Const(0, i32) for _ in f.shape]
    own = list(coords)
    for mode, digit in zip(f.thread, digits(THREAD, [m.size for m in f.thread], f.threads)):
        own[mode.dim] = add(own[mode.dim], mul(digit, mode.step))
    own = [ctx.once(c) for c in own]
    index: Scalar = Const(0, i32)
    stride = 1
    for mode, loop in zip(f.value, loops):
        coords[mode.dim] = add(coords[mode.dim], mul(loop, mode.step))
        index = add(index, mul(loop, stride))
        stride *= mode.size
    body: list[th.Stmt] = [
        th.Assign(var, add(mine, moved), True, op.span)
        for var, mine, moved in zip(op.coords, own, coords)
    ]
    with ctx.visiting(index):
        body += lower(ctx, op.body)
    return nest(loops, sizes, body)


def resolve(ctx: Context, e: Scalar) -> Scalar:
    """`e` with element accesses turned into registers of the value being visited."""
    if isinstance(e, Element):
        return Element(e.array, (ctx.visited(),), e.dtype)
    return rebuild(e, lambda child: resolve(ctx, child))


def set_element(ctx: Context, stmt: SetElement) -> th.SetElement:
    """A store to the value being visited."""
    return th.SetElement(stmt.tensor, ctx.visited(), resolve(ctx, stmt.value), stmt.span)
