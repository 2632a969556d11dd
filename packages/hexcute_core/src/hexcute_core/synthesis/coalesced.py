"""The layout of a tensor that no equation reaches: coalesce the copies that move it.

Memory modes are sorted by stride; the first gives each thread a vector as wide as divisibility
allows, consecutive threads take consecutive vectors, and what is left repeats. Threads beyond the
tile hold what others hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from math import gcd, prod
from typing import TypeAlias

from hexcute_core.arch import Fragment, Mode, product

Along: TypeAlias = Mapping[int, bool]
"""Dimensions along which threads tell each other something: by a scan (True), or by reductions."""

QUAD = 4
WORD_BITS = 32
BYTE_BITS = 8


@lru_cache(maxsize=4096)
def coalesced(
    shape: tuple[int, ...], order: tuple[int, ...], vector: int, threads: int, second: int = 1
) -> Fragment:
    """Tile `shape` over `threads`, dimension order[0] contiguous in memory with vectors of
    `vector` elements, `second` of them a thread along order[1].

    Threads split the tile by powers of two and other common divisors; where more of them find
    work that way, by any divisors of the extents, the last threads repeating the first.
    """
    steps = [vector, *([second] if len(order) > 1 else []), *([1] * (len(order) - 2))]
    extents = [shape[d] // step for d, step in zip(order, steps)]
    common = _takes(extents, threads, gcd)
    other = _takes(extents, threads, _largest_divisor)
    takes = common if prod(common) >= prod(other) else other
    spare = threads // prod(takes) if takes is common else 1
    thread: list[Mode] = []
    value = [Mode(step, 1, dim) for dim, step in zip(order, steps) if step > 1]
    for dim, step, take in zip(order, steps, takes):
        extent = shape[dim] // step
        if take > 1:
            thread.append(Mode(take, step, dim))
        if extent > take:
            value.append(Mode(extent // take, step * take, dim))
    if spare > 1:
        thread.append(Mode(spare, 0, 0))
    return Fragment(shape, tuple(thread), tuple(value))


@lru_cache(maxsize=4096)
def overhanging(
    shape: tuple[int, ...], order: tuple[int, ...], vector: int, threads: int
) -> Fragment | None:
    """As `coalesced`, with powers of two of the threads along extents that they do not divide, so
    that the last ones reach beyond the tile; None where at least half of the threads find work
    without that, or there is not enough of it."""
    exact = coalesced(shape, order, vector, threads)
    busy = prod(m.size for m in exact.thread if m.step)
    if 2 * busy > threads or prod(shape) // vector < threads:
        return None
    left = threads
    thread: list[Mode] = []
    value = [Mode(vector, 1, order[0])] if vector > 1 else []
    for dim in order:
        step = vector if dim == order[0] else 1
        extent = shape[dim] // step
        take = gcd(extent, left)
        if take < min(extent, left):
            take = min(1 << (left.bit_length() - 1), 1 << (extent - 1).bit_length())
        reps = -(-extent // take)
        if take > 1:
            thread.append(Mode(take, step, dim))
        if reps > 1:
            value.append(Mode(reps, step * take, dim))
        left //= take
    if left > 1 and threads % left == 0:
        thread.append(Mode(left, 0, 0))
    found = Fragment(shape, tuple(thread), tuple(value))
    return None if found.exact else found


def _takes(extents: list[int], threads: int, pick: Callable[[int, int], int]) -> list[int]:
    """Threads along each dimension, contiguous first."""
    left, out = threads, []
    for extent in extents:
        take = pick(extent, left)
        out.append(take)
        left //= take
    return out


def _largest_divisor(extent: int, limit: int) -> int:
    return next(d for d in range(min(extent, limit), 0, -1) if extent % d == 0)


@lru_cache(maxsize=4096)
def quads(
    shape: tuple[int, ...], order: tuple[int, ...], vector: int, threads: int
) -> Fragment | None:
    """Vectors along order[0] given to four lanes, the next eight lanes along order[1]: what a
    matrix load, plain or transposed, can fill; None where the tile is too small."""
    if len(order) < 2 or threads % 32 or vector < 2:
        return None
    first, second = order[:2]
    if shape[first] % (QUAD * vector) or shape[second] % 8:
        return None
    warps = threads // 32
    left = {first: shape[first] // (QUAD * vector), second: shape[second] // 8}
    step = {first: QUAD * vector, second: 8}
    thread = [Mode(QUAD, vector, first), Mode(8, 1, second)]
    value = [Mode(vector, 1, first)]
    for dim in (second, first):
        take = gcd(left[dim], warps)
        if take > 1:
            thread.append(Mode(take, step[dim], dim))
        if left[dim] > take:
            value.append(Mode(left[dim] // take, step[dim] * take, dim))
        warps //= take
    for dim in order[2:]:
        if shape[dim] > 1:
            value.append(Mode(shape[dim], 1, dim))
    if warps > 1:
        thread.append(Mode(warps, 0, 0))
    return Fragment(shape, tuple(thread), tuple(value))


def vector_that_spreads(
    shape: tuple[int, ...], order: tuple[int, ...], widest: int, threads: int, least: int = 1
) -> int:
    """The widest vector <= `widest` with which every thread still has work, `widest` where none
    has; it divides the contiguous extent, and is no narrower than `least` but for that."""
    while widest > 1 and shape[order[0]] % widest:
        widest //= 2
    vector = widest
    while vector > 1 and vector >= least:
        f = coalesced(shape, order, vector, threads)
        if f.threads == threads and not any(m.step == 0 for m in f.thread):
            return vector
        vector //= 2
    return max(widest, 1)


def laid_out(
    shape: tuple[int, ...],
    dims: tuple[int, ...],
    vector: int,
    counts: Mapping[int, int],
    threads: int,
    run: int | None = None,
) -> Fragment:
    """Tile `shape` with counts[d] threads along each dimension, lanes first along dims[0], with
    vectors of `vector` elements there; what is left repeats, but lies side by side along `run`.
    The last of `threads` hold what the first do."""
    thread: list[Mode] = []
    value = [Mode(vector, 1, dims[0])] if vector > 1 else []
    for d in dims:
        step = vector if d == dims[0] else 1
        held = -(-(shape[d] // step) // counts[d])
        apart, between = (held * step, step) if d == run else (step, step * counts[d])
        thread += [Mode(counts[d], apart, d)] if counts[d] > 1 else []
        value += [Mode(held, between, d)] if held > 1 else []
    used = prod(counts.values())
    spare = threads // used if threads % used == 0 else 1
    thread += [Mode(spare, 0, 0)] if spare > 1 else []
    return Fragment(shape, tuple(thread), tuple(value))


def shared_along(
    shape: tuple[int, ...],
    order: tuple[int, ...],
    vector: int,
    threads: int,
    axis: int,
    runs: bool,
) -> Iterator[Fragment]:
    """As `coalesced`, with fewer and fewer threads along `axis`, as long as as many find work along
    other dimensions: what is reduced or scanned along it then passes between fewer of them, lanes
    of one warp where it can. Where `runs`, what a thread holds of the axis may lie side by side."""
    plain = coalesced(shape, order, vector, threads)
    busy = product(m for m in plain.thread if m.step)
    dims = tuple(dict.fromkeys((order[0], axis, *order[1:])))
    extents = {d: shape[d] // (vector if d == order[0] else 1) for d in dims}
    most = min(threads, extents[axis])
    for count in (1 << i for i in reversed(range(most.bit_length()))):
        counts, left = {axis: count}, threads // count
        for d in dims:
            if d != axis:
                counts[d] = gcd(extents[d], left)
                left //= counts[d]
        used = prod(counts.values())
        if used >= busy and threads % used == 0:
            for run in (axis, None) if runs else (None,):
                found = laid_out(shape, dims, vector, counts, threads, run)
                if found != plain:
                    yield found


def layouts(
    shape: tuple[int, ...],
    order: tuple[int, ...],
    widest: int,
    least: int,
    threads: int,
    bits: int,
    turned: bool,
    along: Along,
) -> Iterator[Fragment]:
    """Layouts worth trying for a tile of `bits`-wide elements that memory holds along `order`,
    best first, in vectors of `least` to `widest`; `turned` where other memory may hold it along
    another dimension, and something passes `along` some of them."""
    vector = vector_that_spreads(shape, order, widest, threads, least)
    yield coalesced(shape, order, vector, threads)
    beyond = overhanging(shape, order, vector, threads)
    if beyond is not None:
        yield beyond
    for axis, runs in along.items():
        yield from shared_along(shape, order, vector, threads, axis, runs)
    if not turned or len(shape) < 2:
        return
    if bits > 8:
        found = quads(shape, order, vector, threads)
        if found is not None:
            yield found
        return
    # Blocks that are wide both ways: a thread turns them in its registers.
    for run in (WORD_BITS // bits, max(1, BYTE_BITS // bits)):
        if run > 1 and shape[order[1]] % run == 0:
            yield coalesced(shape, order, vector, threads, run)
