"""The layout of a part, from that of its register tensor, and of a tile that one operation sees.

A `TileRef` cuts a tensor and drops dimensions; a reduction folds its tile. Both say what becomes of
a fragment: which thread holds which element of the tile, and in which of its registers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from hexcute_core.arch import Fragment, Mode
from hexcute_core.tile.ir import Reduce
from hexcute_core.tile.tensors import TileRef

Shape = tuple[int, ...]


def cut_modes(ref: TileRef, shape: Shape) -> tuple[int, ...]:
    """Modes of a tensor of `shape` of which `ref` has a part."""
    return tuple(m for m, extent in enumerate(shape) if ref.extents[m] < extent)


def layout_of(fragments: Mapping[str, Fragment], ref: TileRef) -> Fragment:
    """The layout of tile `ref`, of tensors spread as `fragments`."""
    f = fragments[ref.tensor]
    return f if ref.extents == f.shape == ref.shape else _part(f, ref.extents, ref.kept)


@lru_cache(maxsize=4096)
def _part(f: Fragment, extents: Shape, kept: tuple[int, ...]) -> Fragment:
    place = {m: d for d, m in enumerate(kept)}
    value = []
    for m in f.value:
        if m.dim not in place:
            continue
        if extents[m.dim] == f.shape[m.dim]:
            value.append(Mode(m.size, m.step, place[m.dim]))
        elif extents[m.dim] > 1:
            value.append(Mode(extents[m.dim], 1, place[m.dim]))
    thread = tuple(Mode(m.size, m.step, place[m.dim] if m.step else 0) for m in f.thread)
    return Fragment(tuple(extents[m] for m in kept), thread, tuple(value))


@lru_cache(maxsize=4096)
def whole(
    g: Fragment, kept: tuple[int, ...], order: tuple[int, ...], shape: Shape
) -> Fragment | None:
    """The layout of a tensor of `shape` whose tile of modes `kept` has layout `g`, with the modes
    `order` as its parts; None where `g` spreads one of them over threads."""
    if not order and g.shape == shape:
        return g
    if any(m.step and kept[m.dim] in order for m in g.thread):
        return None
    thread = tuple(Mode(m.size, m.step, kept[m.dim] if m.step else 0) for m in g.thread)
    value = [Mode(m.size, m.step, kept[m.dim]) for m in g.value if kept[m.dim] not in order]
    value += [Mode(shape[m], 1, m) for m in order]
    return Fragment(shape, thread, tuple(value))


def strides(f: Fragment, modes: Iterable[int]) -> dict[int, int]:
    """How many registers one step along each mode of parts is."""
    wanted, place = set(modes), 1
    found: dict[int, int] = {}
    for m in f.value:
        if m.dim in wanted:
            found.setdefault(m.dim, place)
        place *= m.size
    return found


def broadcast_dims(src: TileRef, dst: TileRef) -> tuple[int, ...]:
    """Dimensions along which `src` has extent 1 and `dst` more."""
    return tuple(d for d, (s, t) in enumerate(zip(src.shape, dst.shape)) if s == 1 and t > 1)


def folded(op: Reduce, f: Fragment) -> tuple[Fragment, int]:
    """The layout of what `op` reduces, `f`, and the dimension that goes, which is one more than
    the tile has where some of its own is kept."""
    if op.keep == 1:
        return f, op.axis
    cut = f.fold(op.axis, op.keep)
    if cut is None:
        raise TypeError(f"{op.src.tensor}: {f} has digits that straddle {op.keep} places")
    return cut, len(f.shape)
