"""In a loop over the elements (i, j, ...) of a tile, `t[i, j + 16, p]` is an element of the tile
`t[:, 16:..., p]`: the modes that the loop's coordinates index, in order, make a tile of its shape.
Of a tensor of as many modes `t[i, p]` is one of `t[:, p : p + 1]`, which repeats along j.
"""

from __future__ import annotations

from collections.abc import Sequence

from hexcute_core.dtypes import i32
from hexcute_core.scalar import Const, Scalar, Var, binary, substitute
from hexcute_core.scalar.visit import free_vars
from hexcute_core.tile.tensors import TileRef

Place = tuple[str, tuple[Scalar, ...]]
"""A register tensor and the indices of one of its elements."""


def element_tile(
    place: Place, coords: Sequence[Var], shape: Sequence[int]
) -> TileRef | None:
    """The tile of `shape` that `place` walks through as `coords` go over it, of extent 1 where it
    repeats; None where its indices do not have every coordinate in order."""
    name, indices = place
    own = {var.name for var in coords}
    if len(indices) == len(coords):
        begins = [_start(index, at) for index, at in zip(indices, coords)]
        if any(b is None and free_vars(i) & own for b, i in zip(begins, indices)):
            return None
        return TileRef(
            name,
            tuple(index if b is None else b for index, b in zip(indices, begins)),
            tuple(1 if b is None else extent for b, extent in zip(begins, shape)),
            tuple(range(len(indices))),
        )
    starts: list[Scalar] = []
    extents: list[int] = []
    kept: list[int] = []
    for mode, index in enumerate(indices):
        start = _start(index, coords[len(kept)]) if len(kept) < len(coords) else None
        extents.append(1 if start is None else shape[len(kept)])
        starts.append(index if start is None else start)
        if start is not None:
            kept.append(mode)
    if len(kept) < len(coords):
        return None
    return TileRef(name, tuple(starts), tuple(extents), tuple(kept))


def _start(index: Scalar, coordinate: Var) -> Scalar | None:
    """What `index` adds to `coordinate`, or None where it is no such sum."""
    start = substitute(index, {coordinate.name: Const(0, i32)})
    return start if index == binary("add", start, coordinate) else None
