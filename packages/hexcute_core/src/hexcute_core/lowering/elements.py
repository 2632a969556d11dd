"""for i, j in elements(t): a loop over the thread's values with their tile coordinates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from hexcute_core import thread as th
from hexcute_core.arch import Fragment, Mode
from hexcute_core.dtypes import i32
from hexcute_core.lowering.bounds import inside
from hexcute_core.lowering.context import Context, Visited, nest
from hexcute_core.lowering.digits import digits
from hexcute_core.lowering.elementwise import walk_values
from hexcute_core.scalar import Const, Element, Scalar, Var, add, cast, mul, rebuild
from hexcute_core.scalar.visit import free_vars, walk
from hexcute_core.tile import ForElements, SetElement, Stmt, TileRef
from hexcute_core.tile.elements import Place
from hexcute_core.tile.visit import element_tiles, elements

_WORTH_A_JUMP = 8
"""Values that a thread visits: for fewer a choice of each costs less than going past them."""
Lower = Callable[[Context, tuple[Stmt, ...]], tuple[th.Stmt, ...]]


def lower_elements(ctx: Context, op: ForElements, lower: Lower) -> tuple[th.Stmt, ...]:
    """Coordinates become locals; element accesses become registers of the current value."""
    f = ctx.fragment(op.ref)
    tiles = element_tiles(op)
    sizes, loops, (_, *indices) = walk_values(ctx, op.ref, tuple(tiles.values()))
    places = {p: (ref, index) for (p, ref), index in zip(tiles.items(), indices)}
    coords: list[Scalar] = [Const(0, i32) for _ in f.shape]
    own = list(coords)
    mine = digits(ctx.lane, [m.size for m in f.thread], ctx.team.threads)
    for mode, digit in zip(f.thread, mine):
        own[mode.dim] = add(own[mode.dim], mul(digit, mode.step))
    # A role's lane may be unsigned; coordinates are not.
    own = [ctx.once(cast(c, i32)) for c in own]
    value = coordinate_digits(f, sizes)
    for (dim, step), loop in zip(value, loops):
        coords[dim] = add(coords[dim], mul(loop, step))
    starts = [
        th.Assign(var, add(start, moved), True, op.span)
        for var, start, moved in zip(op.coords, own, coords)
    ]
    with ctx.visiting(places):
        body = lower(ctx, op.body)
    digits_of = [(Mode(n, step, dim), loop) for n, (dim, step), loop in zip(sizes, value, loops)]
    within = inside(ctx, f.shape, f.thread, digits_of)
    every: tuple[th.Stmt, ...] = (*starts, *body)
    if within is not None:
        edge = th.If(within, every, _zeros(ctx, op, places), op.span)
        return nest(loops, sizes, (edge,))
    match body:
        case (th.If() as branch,) if _same_in_any_order(branch, loops):
            once = _branch_outside(branch, starts, loops, sizes)
            return nest(loops, sizes, every) if once is None else once
        case _:
            return nest(loops, sizes, every)


def _same_in_any_order(branch: th.If, loops: Sequence[Scalar]) -> bool:
    """Whether a branch, reached once for every round of `loops`, does no more than to set elements,
    each another one, of arrays that its condition does not read."""
    counters = {loop.name for loop in loops if isinstance(loop, Var)}
    read = {node.array for node in walk(branch.cond) if isinstance(node, Element)}
    return not branch.otherwise and all(
        isinstance(s, th.SetElement) and s.array not in read and counters <= free_vars(s.index)
        for s in branch.then
    )


def _branch_outside(
    branch: th.If, starts: Sequence[th.Assign], loops: Sequence[Scalar], sizes: Sequence[int]
) -> tuple[th.Stmt, ...] | None:
    """The branch outside of the loops that do not change its condition, so that a thread goes past
    all of their rounds at once; None where they are too few to be worth a jump."""
    asked = free_vars(branch.cond)
    before = [s for s in starts if s.var.name in asked]
    after = [s for s in starts if s.var.name not in asked]
    asked |= {name for s in before for name in free_vars(s.value)}
    turned = [(loop, n) for loop, n in zip(loops, sizes) if free_vars(loop) & asked]
    still = [(loop, n) for loop, n in zip(loops, sizes) if not free_vars(loop) & asked]
    if prod(n for _, n in still) < _WORTH_A_JUMP:
        return None
    inner = nest([x for x, _ in still], [n for _, n in still], (*after, *branch.then))
    outer: tuple[th.Stmt, ...] = (*before, th.If(branch.cond, inner, (), branch.span))
    return nest([x for x, _ in turned], [n for _, n in turned], outer)


def written(op: ForElements) -> tuple[TileRef, ...]:
    """The tiles whose elements the loop sets, each once."""
    tiles = element_tiles(op)
    return tuple(dict.fromkeys(tiles[place] for place, sets in elements(op.body) if sets))


def _zeros(
    ctx: Context, op: ForElements, places: Mapping[Place, Visited]
) -> tuple[th.SetElement, ...]:
    """What the tiles that the loop writes hold beyond their edge."""
    out = []
    for place in dict.fromkeys(p for p, written in elements(op.body) if written):
        ref, index = places[place]
        dtype = ctx.dtype(ref)
        zero = Const(0.0 if dtype.is_float else 0, dtype)
        out.append(ctx.assign(ref, index, zero, op.span))
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
        ref, index = ctx.visited((e.array, e.indices))
        return ctx.element(ref, index)
    return rebuild(e, lambda child: resolve(ctx, child))


def set_element(ctx: Context, stmt: SetElement) -> th.SetElement:
    """A store to the value being visited."""
    ref, index = ctx.visited((stmt.tensor, stmt.coords))
    return ctx.assign(ref, index, resolve(ctx, stmt.value), stmt.span)
