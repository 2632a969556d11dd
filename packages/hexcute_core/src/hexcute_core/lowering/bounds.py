"""Where a layout overhangs its tile: which of a thread's coordinates are inside.

A tile whose extents do not suit the number of threads is spread over more than its extent; what
lies beyond is nobody's: not loaded, not stored, not reduced.
"""

from __future__ import annotations

from collections.abc import Sequence

from hexcute_core.arch import Mode, overhang
from hexcute_core.dtypes import i32
from hexcute_core.lowering.context import Context
from hexcute_core.lowering.digits import digits
from hexcute_core.scalar import Const, Scalar, add, compare, land, mul


def inside(
    ctx: Context,
    shape: Sequence[int],
    thread: Sequence[Mode],
    values: Sequence[tuple[Mode, Scalar]],
    run: Sequence[Mode] = (),
) -> Scalar | None:
    """Whether the coordinate of this thread and of the value digits given by loop variables lies
    in the tile; None where all do. A `run` begins at a multiple of its length and divides the
    extent, so its start speaks for it."""
    dims = overhang(shape, (*thread, *(m for m, _ in values), *run))
    if not dims:
        return None
    coords: dict[int, Scalar] = {d: Const(0, i32) for d in dims}
    moved = digits(ctx.lane, [m.size for m in thread], ctx.team.threads)
    for mode, digit in zip(thread, moved):
        if mode.step and mode.dim in coords:
            coords[mode.dim] = add(coords[mode.dim], mul(digit, mode.step))
    coords = {d: ctx.once(c) for d, c in coords.items()}
    for mode, loop in values:
        if mode.step and mode.dim in coords:
            coords[mode.dim] = add(coords[mode.dim], mul(loop, mode.step))
    return land(*(compare("lt", c, shape[d]) for d, c in coords.items()))
