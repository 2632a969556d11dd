"""for i, j in elements(t): a loop over the thread's values with their tile coordinates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from hexcute_core import thread as th
from hexcute_core.arch import Fragment
from hexcute_core.dtypes import i32
from hexcute_core.lowering.context import Context, nest
from hexcute_core.lowering.digits import digits
from hexcute_core.lowering.elementwise import walk_values
from hexcute_core.scalar import Const, Element, Scalar, add, mul, rebuild
from hexcute_core.synthesis.graph import op_tensors
from hexcute_core.tile import ForElements, SetElement, Stmt

Lower = Callable[[Context, tuple[Stmt, ...]], tuple[th.Stmt, ...]]


def lower_elements(ctx: Context, op: ForElements, lower: Lower) -> tuple[th.Stmt, ...]:
    """Coordinates become locals; element accesses become registers of the current value."""
    f = ctx.fragment(op.ref)
    names = [n for n in op_tensors(op) if n != op.ref.tensor]
    others = [replace(op.ref, tensor=n) for n in names]
    sizes, loops, indices = walk_values(ctx, op.ref, others)
    coords: list[Scalar] = [Const(0, i32) for _ in f.shape]
    own = list(coords)
    for mode, digit in zip(f.thread, digits(ctx.lane, [m.size for m in f.thread], f.threads)):
        own[mode.dim] = add(own[mode.dim], mul(digit, mode.step))
    own = [ctx.once(c) for c in own]
    value = coordinate_digits(f, sizes)
    for (dim, step), loop in zip(value, loops):
        coords[dim] = add(coords[dim], mul(loop, step))
    body: list[th.Stmt] = [
        th.Assign(var, add(mine, moved), True, op.span)
        for var, mine, moved in zip(op.coords, own, coords)
    ]
    with ctx.visiting(dict(zip((op.ref.tensor, *names), indices))):
        body += lower(ctx, op.body)
    return nest(loops, sizes, body)


def coordinate_digits(f: Fragment, sizes: Sequence[int]) -> list[tuple[int, int]]:
    """(dimension, step) of value digits of `sizes`, which cut the digits of `f`."""
    out: list[tuple[int, int]] = []
    left = list(sizes)
    for mode in f.value:
        size, step = mode.size, mode.step
        while size > 1:
            n = left.pop(0)
            out.append((mode.dim, step))
            size //= n
            step *= n
    return out


def resolve(ctx: Context, e: Scalar) -> Scalar:
    """`e` with element accesses turned into registers of the value being visited."""
    if isinstance(e, Element):
        return Element(e.array, (ctx.visited(e.array),), e.dtype)
    return rebuild(e, lambda child: resolve(ctx, child))


def set_element(ctx: Context, stmt: SetElement) -> th.SetElement:
    """A store to the value being visited."""
    index = ctx.visited(stmt.tensor)
    return th.SetElement(stmt.tensor, index, resolve(ctx, stmt.value), stmt.span)
