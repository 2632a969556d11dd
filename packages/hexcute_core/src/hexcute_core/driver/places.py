"""places(view, where) = how far behind the first element of a tensor the elements of a view lie.

Coordinates along a mode become digits over its sub-modes, digits become coordinates of the tensor,
and these are multiplied by its strides: its own, or those of rows that follow one another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod

import numpy as np

from hexcute_core.runtime.specialisation import NARROW_LIMIT
from hexcute_core.scalar import Scalar
from hexcute_core.strides import reach
from hexcute_core.synthesis.proof.tables import Table
from hexcute_core.tile import GlobalView, SubMode, TileProgram


class Unsuited(Exception):
    """These values of variables name no part of a tensor, or a tensor too large for the kernel."""


def places(
    program: TileProgram,
    view: GlobalView,
    where: Sequence[Table],
    named: Table | None,
    number: Callable[[Scalar], int],
) -> tuple[Table, Table]:
    """For elements of `view` at the coordinates `where`, one array per mode: the distance in
    elements from the tensor's first, and whether they exist. `named` are the numbers of their rows,
    where a tile names them, `number` is what a scalar is. Raises Unsuited.
    """
    param = program.param(view.param)
    shape = [number(e) for e in param.shape]
    strides = [number(e) for e in param.strides]
    strides = strides or [prod(shape[d + 1 :]) for d in range(len(shape))]
    if reach(shape, strides) >= (1 << 62 if program.promise.wide else NARROW_LIMIT):
        raise Unsuited
    at = [np.full(len(where[0]), number(e)) for e in view.origin]
    for m, (index, subs) in enumerate(zip(where, view.modes)):
        if named is not None and m == view.named:
            at[subs[0].dim] = at[subs[0].dim] + named
            continue
        for sub, digit in _digits(subs, index, number):
            at[sub.dim] = at[sub.dim] + digit * number(sub.step)
    distance, exists = np.zeros_like(at[0]), np.ones(len(at[0]), dtype=bool)
    for coordinate, extent, stride in zip(at, shape, strides):
        distance = distance + coordinate * stride
        exists &= (coordinate >= 0) & (coordinate < extent)
    return distance, exists


def _digits(
    subs: Sequence[SubMode], index: Table, number: Callable[[Scalar], int]
) -> Iterable[tuple[SubMode, Table]]:
    for sub in subs[:-1]:
        extent = number(sub.extent)
        yield sub, index % extent
        index = index // extent
    yield subs[-1], index
