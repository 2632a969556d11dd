"""Independent references: function tables and exhaustive searches, from the definitions alone.

Nothing here calls the library's algebra: values are computed from shape and stride, and existence
is decided by trying everything.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

from cute_layout import Layout


def leaves(tree: Any) -> list[Any]:
    if not isinstance(tree, tuple):
        return [tree]
    return [leaf for child in tree for leaf in leaves(child)]


def value(shape: Any, stride: Any, index: int) -> int:
    """The value at an index; the last digit is not bounded."""
    shapes, strides = leaves(shape), leaves(stride)
    total = 0
    for s, d in zip(shapes[:-1], strides[:-1], strict=True):
        total += index % s * d
        index //= s
    return total + index * strides[-1]


def size(shape: Any) -> int:
    total = 1
    for s in leaves(shape):
        total *= s
    return total


def table(layout: Layout) -> list[int]:
    return [value(layout.shape, layout.stride, i) for i in range(size(layout.shape))]


def refines(coarse: Any, fine: Any) -> bool:
    """Whether shape `fine` refines shape `coarse` leaf by leaf."""
    if not isinstance(coarse, tuple):
        return coarse == size(fine)
    return (
        isinstance(fine, tuple)
        and len(coarse) == len(fine)
        and all(refines(c, f) for c, f in zip(coarse, fine, strict=True))
    )


def factorizations(n: int) -> Iterator[tuple[int, ...]]:
    """All ordered factorizations of n into factors of at least 2."""
    if n == 1:
        yield ()
    for first in range(2, n + 1):
        if n % first == 0:
            for rest in factorizations(n // first):
                yield (first, *rest)


def layout_functions(wanted: list[int]) -> bool:
    """Whether some layout of any shape has exactly this table (strides are forced by the shape)."""
    if len(wanted) == 1:
        return wanted[0] == 0
    for shape in factorizations(len(wanted)):
        steps = list(itertools.accumulate((1, *shape[:-1]), lambda a, b: a * b))
        strides = tuple(wanted[step] for step in steps)
        if all(value(shape, strides, i) == w for i, w in enumerate(wanted)):
            return True
    return False


def composable(a: Layout, b: Layout) -> bool:
    """Whether a layout compatible with B has the values A(B(i)), by exhaustive search.

    Along each leaf of B alone the wanted function must be a layout's; the sum of the leaves' values
    must be the value at the sum of their indices.
    """
    outer = [value(a.shape, a.stride, v) for v in table(b)]
    parts: list[list[int]] = []
    step = 1
    for s in leaves(b.shape):
        part = [outer[k * step] for k in range(s)]
        if not layout_functions(part):
            return False
        parts.append(part)
        step *= s
    summed = [sum(digits) for digits in itertools.product(*reversed(parts))]
    return summed == outer


def left_invertible(layout: Layout, most: int) -> bool:
    """Whether some layout L has L(layout(i)) = i, over every radix chain up to `most`.

    For each chain of radices the strides of L solve a linear system, decided modulo nothing: the
    solver below eliminates over the integers.
    """
    values = table(layout)
    top = max(values, default=0)
    if min(values, default=0) < 0 or top > most:
        raise OverflowError("the search covers small nonnegative layouts")
    return any(_solvable(chain, values) for chain in _chains(top))


def _chains(top: int) -> Iterator[tuple[int, ...]]:
    yield ()
    for first in range(2, top + 1):
        for rest in _chains(top // first):
            yield (first, *rest)


def _solvable(chain: tuple[int, ...], values: list[int]) -> bool:
    rows = []
    for wanted, x in enumerate(values):
        row = []
        for radix in chain:
            row.append(x % radix)
            x //= radix
        rows.append(([*row, x], wanted))
    return integer_solution(rows)


def integer_solution(rows: list[tuple[list[int], int]]) -> bool:
    """Whether integers x solve all rows: Euclid's algorithm on the columns of the first row."""
    while rows:
        coefficients, wanted = rows[0]
        live = [k for k, c in enumerate(coefficients) if c]
        if not live:
            if wanted:
                return False
            rows = rows[1:]
        elif len(live) == 1:
            k = live[0]
            if wanted % coefficients[k]:
                return False
            x = wanted // coefficients[k]
            rows = [([*r[:k], *r[k + 1 :]], w - r[k] * x) for r, w in rows[1:]]
        else:
            small = min(live, key=lambda k: abs(coefficients[k]))
            other = next(k for k in live if k != small)
            times = coefficients[other] // coefficients[small]
            rows = [
                ([c - times * r[small] if k == other else c for k, c in enumerate(r)], w)
                for r, w in rows
            ]
    return True


def bijections(extents: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Every layout of a tensor onto 0 .. n-1 with nonnegative strides, as one table a dimension.

    Such a layout has prime modes in some order a dimension, and the strides 1, p, p*q, ... in some
    order over all of them.
    """
    splits = [set(itertools.permutations(primes(e))) for e in extents]
    for choice in itertools.product(*splits):
        modes = [(k, j, p) for k, split in enumerate(choice) for j, p in enumerate(split)]
        for order in itertools.permutations(modes):
            stride: dict[tuple[int, int], int] = {}
            step = 1
            for k, j, p in order:
                stride[k, j] = step
                step *= p
            yield tuple(
                tuple(
                    value(split or (1,), tuple(stride[k, j] for j in range(len(split))) or (0,), i)
                    for i in range(size(split or (1,)))
                )
                for k, split in enumerate(choice)
            )


def primes(n: int) -> list[int]:
    found = []
    p = 2
    while n > 1:
        while n % p == 0:
            found.append(p)
            n //= p
        p += 1
    return found


def admitted(modes: list[tuple[int, int | None]], column: tuple[int, ...]) -> bool:
    """Whether one dimension's table satisfies (extent, stride or None): additive over the modes,
    the known ones linear, the unknown ones layouts."""
    whole = [0]
    step = 1
    for extent, stride in modes:
        part = [column[k * step] for k in range(extent)]
        if stride is not None:
            if part != [k * stride for k in range(extent)]:
                return False
        elif not layout_functions(part):
            return False
        whole = [low + high for high in part for low in whole]
        step *= extent
    return whole == list(column)


def overlaps(a: Layout) -> bool:
    """Whether sorted by stride some mode starts below the end of the one before it."""
    modes: list[tuple[int, int]] = []
    for s, d in zip(leaves(a.shape), leaves(a.stride), strict=True):
        if s > 1 and d:
            modes.append((abs(d), s))
    modes.sort()
    return any(e < d * s for (d, s), (e, _) in itertools.pairwise(modes))


def random_layout(
    rng: random.Random, modes: int = 3, most: int = 64, negative: bool = False, nested: bool = True
) -> Layout:
    """A small layout that is hard on purpose: stride 0, extent 1, odd extents, mixed order."""
    extents = [1, 2, 2, 3, 4, 4, 5, 6, 8]
    while True:
        count = rng.randint(1, modes)
        shape = [rng.choice(extents) for _ in range(count)]
        if size(tuple(shape)) <= most:
            break
    style = rng.random()
    if style < 0.4:
        order = rng.sample(range(count), count)
        stride = [0] * count
        step = rng.choice([1, 1, 1, 2, 3])
        for k in order:
            stride[k] = step
            step *= shape[k] * rng.choice([1, 1, 1, 2, 3])
    else:
        stride = [rng.choice([0, 1, 1, 2, 3, 4, 6, 8, 12, 16, 24, 5]) for _ in range(count)]
    if negative and rng.random() < 0.3:
        stride = [rng.choice([d, -d]) for d in stride]
    if rng.random() < 0.1:
        stride[rng.randrange(count)] = 0
    if count == 1:
        return Layout(shape[0], stride[0])
    if nested and count > 2 and rng.random() < 0.5:
        return Layout((tuple(shape[:2]), *shape[2:]), (tuple(stride[:2]), *stride[2:]))
    return Layout(tuple(shape), tuple(stride))


def random_divisible(rng: random.Random, modes: int = 3, most: int = 64) -> Layout:
    """A layout whose extents and strides are powers of two, for compositions that mostly exist."""
    while True:
        count = rng.randint(1, modes)
        shape = [rng.choice([1, 2, 4, 8]) for _ in range(count)]
        if size(tuple(shape)) <= most:
            break
    stride = [rng.choice([0, 1, 2, 4, 8, 16, 32]) for _ in range(count)]
    return Layout(tuple(shape), tuple(stride)) if count > 1 else Layout(shape[0], stride[0])
