"""Fragments and cute_layout's layouts: a tile coordinate is its colexicographic index.

`to_linear(f)` is f as a flat integer layout; `from_linear` reads a layout of tile indices back as
modes along tile dimensions.
"""

from __future__ import annotations

from math import prod

from cute_layout import Layout
from hexcute_core.arch import Fragment, Mode


def unit(shape: tuple[int, ...], dim: int) -> int:
    """Index step of one step along `dim`."""
    return prod(shape[:dim])


def to_linear(f: Fragment) -> Layout:
    """f over flattened (thread modes, value modes)."""
    modes = (*f.thread, *f.value)
    if not modes:
        return Layout(1, 0)
    return Layout(tuple(m.size for m in modes), tuple(m.step * unit(f.shape, m.dim) for m in modes))


def modes_to_layout(modes: tuple[Mode, ...], shape: tuple[int, ...]) -> Layout:
    """Digits over `modes` -> tile index."""
    return to_linear(Fragment(shape, modes, ()))


def from_linear(layout: Layout, shape: tuple[int, ...]) -> tuple[tuple[Mode, ...], ...] | None:
    """For each top-level mode of `layout`, its digits as tile modes; None where a digit does not
    stay within one dimension."""
    shapes = layout.shape if isinstance(layout.shape, tuple) else (layout.shape,)
    strides = layout.stride if isinstance(layout.stride, tuple) else (layout.stride,)
    out = []
    for size, stride in zip(shapes, strides):
        modes: list[Mode] = []
        for n, s in zip(_leaves(size), _leaves(stride)):
            found = digit_modes(n, s, shape)
            if found is None:
                return None
            modes += found
        out.append(tuple(modes))
    return tuple(out)


def _leaves(tree: object) -> list[int]:
    if isinstance(tree, tuple):
        return [leaf for part in tree for leaf in _leaves(part)]
    assert isinstance(tree, int)
    return [tree]


def digit_modes(size: int, stride: int, shape: tuple[int, ...]) -> list[Mode] | None:
    """`size:stride` of tile indices as modes; a digit that runs off one dimension's end onto the
    next is cut there."""
    if size == 1:
        return []
    if stride == 0:
        return [Mode(size, 0, 0)]
    for dim in reversed(range(len(shape))):
        u = unit(shape, dim)
        if stride % u == 0 and stride // u < shape[dim]:
            step = stride // u
            room = shape[dim] // step
            if size <= room:
                return [Mode(size, step, dim)]
            if shape[dim] % step or size % room:
                return None
            rest = digit_modes(size // room, unit(shape, dim + 1), shape)
            return None if rest is None else [Mode(room, step, dim), *rest]
    return None
