"""Proof of what a copy's calls touch in memory: runs of consecutive elements, aligned to their
bytes, wherever the tile may begin.

A tile's start along a mode is its constant, or any multiple of what is known to divide it. In
global memory an element's coordinate is `origin + sum of digit * step@dim`, the digits those of
start + tile coordinate over the mode's sub-modes; a run must be a row's next elements and begin at
a multiple of its length, in the row and in memory, so that no edge cuts it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product as cartesian
from math import gcd, lcm, prod

import numpy as np

from hexcute_core.errors import VerifyError
from hexcute_core.scalar import Const, Scalar, is_const
from hexcute_core.synthesis.proof.tables import Table, calls, digits, inside, offsets
from hexcute_core.synthesis.solution import CopyPlan, SharedLayout
from hexcute_core.tile import Copy, GlobalTensor, GlobalView, SubMode, TileProgram, TileRef
from hexcute_core.tile.facts import Facts


def check_shared_runs(
    facts: Facts, plan: CopyPlan, layout: SharedLayout, ref: TileRef, op: Copy, threads: int
) -> None:
    """Raises VerifyError where a run is not consecutive and aligned in shared memory."""
    run, table = prod(m.size for m in plan.run), offsets(layout)
    ways = [
        begins(facts, start, size - extent + 1)
        for start, size, extent in zip(ref.starts, layout.shape, ref.extents)
    ]
    for coords in _runs(plan, op, ref.shape, threads):
        for corner in cartesian(*ways):
            where: list[Table | int] = list(corner)
            for d, m in enumerate(ref.kept):
                where[m] = corner[m] + coords[..., d]
            found = np.broadcast_to(table[tuple(where)], coords.shape[:-1])
            if (found != found[:, :1] + np.arange(run)).any() or (found[:, 0] % run).any():
                raise VerifyError(
                    f"{plan.name}: {run} elements are not aligned in {layout}", op.span
                )


def begins(facts: Facts, start: Scalar, end: int) -> Sequence[int]:
    """Where a part may begin along a mode, below `end`, as far as the compiler knows."""
    if isinstance(start, Const):
        return (int(start.value),)
    return range(0, max(end, 1), facts.divisor(start) or max(end, 1))


def check_global_runs(
    program: TileProgram, facts: Facts, plan: CopyPlan, ref: TileRef, op: Copy, threads: int
) -> None:
    """Raises VerifyError where a run is not consecutive and aligned in global memory."""
    run, view = prod(m.size for m in plan.run), program.tensor(ref.tensor)
    assert isinstance(view, GlobalView)
    if run == 1:
        return
    param = program.param(view.param)
    last = _inner(param)
    if last is None:
        raise VerifyError(f"{plan.name}: no elements of `{param.name}` are neighbours", op.span)
    if run * view.dtype.bits > 8 * program.promise.begin(param.name):
        raise VerifyError(f"{plan.name}: `{param.name}` is aligned to no {run} elements", op.span)
    # What is known at run time only adds multiples of `loose` to the last coordinate.
    loose = gcd(facts.divisor(view.origin[last]), facts.divisor(param.shape[last]))
    for d, stride in enumerate(param.strides):
        alone = is_const(param.shape[d], 1)
        loose = loose if d == last or alone else gcd(loose, facts.divisor(stride))
    ways: list[Sequence[int]] = []
    for m, start in enumerate(ref.starts):
        subs = view.modes[m]
        if m in ref.kept:
            firsts, more = _first_begins(facts, subs, start, last)
            ways.append(firsts)
            loose = gcd(loose, more)
        elif len(subs) == 1 and subs[0].dim == last:
            loose = gcd(loose, facts.divisor(start) * facts.divisor(subs[0].step))
        else:
            loose = gcd(loose, *(facts.divisor(s.step) for s in subs if s.dim == last))
    if loose % run:
        raise VerifyError(
            f"{plan.name}: {run} elements begin at any multiple of {loose} of a row", op.span
        )
    for coords in _runs(plan, op, ref.shape, threads):
        for corner in cartesian(*ways):
            at = np.zeros((*coords.shape[:-1], len(param.shape)), dtype=np.int64)
            for d, m in enumerate(ref.kept):
                _move(at, view.modes[m], corner[d] + coords[..., d], m == view.named)
            ahead = at - at[:, :1]
            ahead[..., last] -= np.arange(run)
            if ahead.any() or (at[:, 0, last] % run).any():
                raise VerifyError(
                    f"{plan.name}: {run} elements of `{ref.tensor}` are no aligned run of "
                    f"`{param.name}`",
                    op.span,
                )


def start_unit(program: TileProgram, facts: Facts, ref: TileRef) -> int:
    """What divides the coordinate along the tensor's innermost dimension where a tile begins, all
    of whose own modes are whole: 0 where it is 0."""
    view = program.tensor(ref.tensor)
    assert isinstance(view, GlobalView)
    last = _inner(program.param(view.param))
    if last is None:
        return 1
    unit = facts.divisor(view.origin[last])
    for subs, start in zip(view.modes, ref.starts):
        for s in subs:
            if s.dim == last:
                moved = facts.divisor(start) if len(subs) == 1 else 1
                unit = gcd(unit, moved * facts.divisor(s.step))
    return unit


def _inner(param: GlobalTensor) -> int | None:
    """The dimension along which elements are neighbours in memory."""
    if not param.strides:
        return len(param.shape) - 1
    found = [d for d in range(len(param.shape)) if is_const(param.strides[d], 1)]
    return max(found, key=lambda d: (not is_const(param.shape[d], 1), d), default=None)


def _first_begins(
    facts: Facts, subs: Sequence[SubMode], start: Scalar, last: int
) -> tuple[Sequence[int], int]:
    """The starts below the first one after which all digits but the top one repeat, and what
    divides the moves of the last coordinate from there on."""
    if isinstance(start, Const):
        return (int(start.value),), 0
    step = facts.divisor(start)
    if step == 0:
        return (0,), 0
    below = prod(_size(s) for s in subs[:-1])
    period, top = lcm(step, below), subs[-1]
    more = period // below * facts.divisor(top.step) if top.dim == last else 0
    return range(0, period, step), more


def _move(at: Table, subs: Sequence[SubMode], index: Table, named: bool) -> None:
    """Adds to the coordinates `at` how far `index` along a mode leads; where the places are named
    by numbers, these may be any, such as odd ones with gaps between."""
    if named:
        index = 3 * index + 1 - index % 2
    for i, sub in enumerate(subs):
        digit = index if i == len(subs) - 1 else index % _size(sub)
        assert isinstance(sub.step, Const)
        at[..., sub.dim] += digit * int(sub.step.value)
        index = index // _size(sub)


def _size(sub: SubMode) -> int:
    assert isinstance(sub.extent, Const)
    return int(sub.extent.value)


def _runs(plan: CopyPlan, op: Copy, shape: Sequence[int], threads: int) -> Iterator[Table]:
    """Tile coordinates [thread, element of the run, dimension] of every call, without the runs
    beyond the tile; raises VerifyError where a run is inside in part."""
    rank = len(shape)
    run = digits(np.arange(prod(m.size for m in plan.run)), plan.run, rank)
    starts = digits(np.arange(threads), plan.thread, rank)
    for move, _ in calls(plan, rank):
        coords = starts[:, None] + run + move
        held = inside(coords, shape)
        if (held != held[:, :1]).any():
            raise VerifyError(f"{plan.name} leaves its tile", op.span)
        yield coords[held[:, 0]]
