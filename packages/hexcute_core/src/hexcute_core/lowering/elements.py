"""for i, j in elements(t): a loop over the thread's values with their tile coordinates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from hexcute_core import thread as th
from hexcute_core.arch import Fragment, Mode
from hexcute_core.dtypes import i32
from hexcute_core.lowering.bounds import inside
from hexcute_core.lowering.context import Context, nest
from hexcute_core.lowering.digits import digits
from hexcute_core.lowering.elementwise import walk_values
from hexcute_core.scalar import Const, Element, Scalar, add, cast, mul, rebuild
from hexcute_core.tile import ForElements, SetElement, Stmt
from hexcute_core.tile.visit import statements, tensors

Lower = Callable[[Context, tuple[Stmt, ...]], tuple[th.Stmt, ...]]


def lower_elements(ctx: Context, op: ForElements, lower: Lower) -> tuple[th.Stmt, ...]:
    """Coordinates become locals; element accesses become registers of the current value."""
    f = ctx.fragment(op.ref)
    names = [n for n in tensors(op) if n != op.ref.tensor]
    others = [replace(op.ref, tensor=n) for n in names]
    sizes, loops, indices = walk_values(ctx, op.ref, others)
    coords: list[Scalar] = [Const(0, i32) for _ in f.shape]
    own = list(coords)
    for mode, digit in zip(f.thread, digits(ctx.lane, [m.size for m in f.thread], f.threads)):
        own[mode.dim] = add(own[mode.dim], mul(digit, mode.step))
    # A role's lane may be unsigned; coordinates are not.
    own = [ctx.once(cast(c, i32)) for c in own]
    value = coordinate_digits(f, sizes)
    for (dim, step), loop in zip(value, loops):
        coords[dim] = add(coords[dim], mul(loop, step))
    body: list[th.Stmt] = [
        th.Assign(var, add(mine, moved), True, op.span)
        for var, mine, moved in zip(op.coords, own, coords)
    ]
    with ctx.visiting(dict(zip((op.ref.tensor, *names), indices))):
        body += lower(ctx, op.body)
    digits_of = [(Mode(n, step, dim), loop) for n, (dim, step), loop in zip(sizes, value, loops)]
    within = inside(ctx, f.shape, f.thread, digits_of)
    if within is not None:
        places = dict(zip((op.ref.tensor, *names), indices))
        body = [th.If(within, tuple(body), _zeros(ctx, op, places), op.span)]
    return nest(loops, sizes, body)


def _zeros(
    ctx: Context, op: ForElements, places: Mapping[str, Scalar]
) -> tuple[th.SetElement, ...]:
    """What the tensors that the loop writes hold beyond the tile."""
    written = dict.fromkeys(s.tensor for s in statements(op.body) if isinstance(s, SetElement))
    out = []
    for name in written:
        dtype = ctx.program.tensor(name).dtype
        zero = Const(0.0 if dtype.is_float else 0, dtype)
        out.append(th.SetElement(name, places[name], zero, op.span))
    return tuple(out)


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
