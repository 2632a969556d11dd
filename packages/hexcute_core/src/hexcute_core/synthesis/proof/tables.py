"""Tables of a proof: digits, moves and offsets as numpy arrays, by evaluation alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product as cartesian
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hexcute_core.arch import Mode
from hexcute_core.synthesis.solution import CopyPlan, SharedLayout

Table: TypeAlias = NDArray[np.int64]


def digits(index: Any, modes: Sequence[Mode], rank: int) -> Table:
    """Tile coordinates [..., rank] of `index` split over `modes`, first fastest."""
    index = np.asarray(index, dtype=np.int64)
    out = np.zeros((*index.shape, rank), dtype=np.int64)
    for m in modes:
        out[..., m.dim] += index % m.size * m.step
        index = index // m.size
    return out


def inside(coords: Table, shape: Sequence[int]) -> NDArray[np.bool_]:
    """Which coordinates are those of elements of a tile; others are nobody's."""
    found: NDArray[np.bool_] = np.all((coords >= 0) & (coords < np.array(shape)), axis=-1)
    return found


def calls(plan: CopyPlan, rank: int) -> Iterator[tuple[Table, int]]:
    """(tile move, register offset) of every call."""
    for picks in cartesian(*(range(r.size) for r in plan.reps)):
        move, reg = np.zeros(rank, dtype=np.int64), 0
        for pick, rep in zip(picks, plan.reps):
            move[rep.dim] += pick * rep.step
            reg += pick * rep.reg
        yield move, reg


def offsets(layout: SharedLayout) -> Table:
    """The element offset of every coordinate of a shared tensor, by evaluation."""
    total = np.zeros(layout.shape, dtype=np.int64)
    for m, extent in enumerate(layout.shape):
        mode = layout.layout[m]
        line = np.array([int(mode(i)) for i in range(extent)])
        total += line.reshape([-1 if d == m else 1 for d in range(len(layout.shape))])
    if layout.swizzle is None:
        return total
    moved = np.array([int(layout.swizzle(i)) for i in range(int(total.max()) + 1)])
    return moved[total]
