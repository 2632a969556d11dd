"""The layout of a component without a gemm: coalesce the copy that moves most bytes.

Memory modes are sorted by stride; the first gives each thread a vector as wide as divisibility
allows, consecutive threads take consecutive vectors, and what is left repeats.
"""

from __future__ import annotations

from math import gcd

from hexcute_core.arch import Fragment, Mode


def coalesced(
    shape: tuple[int, ...], order: tuple[int, ...], vector: int, threads: int
) -> Fragment:
    """Tile `shape` over `threads`, dimension order[0] contiguous in memory with vectors of
    `vector` elements; threads beyond the tile replicate it."""
    thread: list[Mode] = []
    value: list[Mode] = []
    left = threads
    first = order[0]
    if vector > 1:
        value.append(Mode(vector, 1, first))
    for dim in order:
        step = vector if dim == first else 1
        extent = shape[dim] // step
        take = gcd(extent, left)
        if take > 1:
            thread.append(Mode(take, step, dim))
        if extent > take:
            value.append(Mode(extent // take, step * take, dim))
        left //= take
    if left > 1:
        thread.append(Mode(left, 0, 0))
    return Fragment(shape, tuple(thread), tuple(value))


def vector_that_spreads(
    shape: tuple[int, ...], order: tuple[int, ...], widest: int, threads: int
) -> int:
    """The widest vector <= `widest` with which every thread still has work, 1 at least."""
    vector = widest
    while vector > 1:
        f = coalesced(shape, order, vector, threads)
        if not any(m.step == 0 for m in f.thread):
            return vector
        vector //= 2
    return widest if widest >= 1 else 1
