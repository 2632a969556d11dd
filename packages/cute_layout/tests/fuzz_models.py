"""Random cases of thread-value layouts, swizzle choice, tilings and symbols."""

from __future__ import annotations

import itertools
import random
from typing import Any

import layout_reference as ref
from fuzz_registry import Tally, check, operation

import cute_layout as cl
from cute_layout import Layout, LayoutError, Symbol


@operation
def thread_values(rng: random.Random, tally: Tally) -> None:
    rows, cols = rng.choice([4, 8, 6]), rng.choice([4, 8, 12])
    total = rows * cols
    modes = ref.primes(total)
    rng.shuffle(modes)
    step, strides = 1, []
    for p in modes:
        strides.append(step)
        step *= p
    order = rng.sample(range(len(modes)), len(modes))
    cut = rng.randint(1, len(modes) - 1)
    parts = [
        [(modes[k], strides[k]) for k in order[:cut]],
        [(modes[k], strides[k]) for k in order[cut:]],
    ]
    thread, value = (Layout(tuple(s for s, _ in part), tuple(d for _, d in part)) for part in parts)
    f = cl.TVLayout(thread, value, (rows, cols))
    spots = [[f(t, v) for v in range(f.values)] for t in range(f.threads)]
    held = [spot for row in spots for spot in row]
    check(sorted(held) == sorted(itertools.product(range(rows), range(cols))), f, "is onto")
    try:
        back = f.invert()
    except LayoutError:
        tally.rejected += 1
        flat = cl.right_inverse(f.index)
        check(not ref.composable(flat, Layout((rows, cols))), f, "has an inverse")
        return
    for t, v in itertools.product(range(f.threads), range(f.values)):
        check(back(*spots[t][v]) == t + v * f.threads, f, back, "at", t, v)
    copies = f.replicate(threads=2, values=3)
    t, v = rng.randrange(copies.threads), rng.randrange(copies.values)
    check(copies(t, v) == spots[t % f.threads][v % f.values], f, "replicated at", t, v)
    n = rng.randint(1, 2), rng.randint(1, 3)
    m = rng.randint(1, 3), rng.randint(1, 2)
    try:
        big = f.repeat(threads=n, values=m)
    except LayoutError:
        tally.rejected += 1
        rows_of, cols_of = Layout((rows, cols), (1, 0)), Layout((rows, cols), (0, 1))
        check(not (ref.composable(rows_of, f.index) and ref.composable(cols_of, f.index)), f, n, m)
        return
    t, v = rng.randrange(big.threads), rng.randrange(big.values)
    (i, j), tc, vc = spots[t % f.threads][v % f.values], t // f.threads, v // f.values
    row = i + rows * (tc % n[0]) + rows * n[0] * (vc % m[0])
    col = j + cols * (tc // n[0]) + cols * n[1] * (vc // m[0])
    check(big(t, v) == (row, col), f, n, m, "at", t, v)


@operation
def swizzle_choice(rng: random.Random, tally: Tally) -> None:
    rows, cols = 8, rng.choice([32, 64])
    bits = 16
    tile = Layout((rows, cols), (cols, 1))
    accesses = [
        rng.choice([
            Layout((8, 8), (1, rows)),
            Layout((8, 2), (1, rows)),
            Layout((8, 4), (rows * 4, 1)),
            Layout(((4, 8), 2), ((2 * rows, 1), rows)),
        ])
        for _ in range(rng.randint(1, 2))
    ]  # fmt: skip
    chosen = cl.choose_swizzle(tile, accesses, bits)
    values = sorted(chosen(v) for v in ref.table(tile))
    check(values == list(range(rows * cols)), tile, chosen, "leaves the buffer")

    def cost(swizzle: cl.Swizzle) -> int:
        buffer = cl.ComposedLayout(swizzle, 0, tile)
        return sum(cl.bank_conflicts(buffer, a, bits).wavefronts for a in accesses)

    plain = [cl.bank_conflicts(tile, a, bits) for a in accesses]
    keep = max(p.vector_bits for p in plain) // bits
    best = cost(chosen)
    check(best <= sum(p.wavefronts for p in plain), tile, chosen, "is worse than none")
    count, base = rng.randint(1, 3), rng.randint(0, 4)
    shift = rng.randint(count, 5)
    other = cl.Swizzle(count, base, shift)
    if 1 << base >= keep and rows * cols % other.period == 0:
        check(best <= cost(other), tile, accesses, chosen, "is worse than", other)


@operation
def tilings(rng: random.Random, tally: Tally) -> None:
    block_shape = rng.choice([2, 3, 4]), rng.choice([2, 4, 5])
    block = Layout(block_shape, rng.choice([(1, block_shape[0]), (block_shape[1], 1)]))
    copies = rng.choice([1, 2, 3]), rng.choice([1, 2, 4])
    order = rng.choice([(0, 1), (1, 0)])
    tiler = Layout(copies, (1, copies[0]) if order == (0, 1) else (copies[1], 1))
    size = block.size
    blocked, raked = cl.blocked_product(block, tiler), cl.raked_product(block, tiler)
    target = tuple(b * c for b, c in zip(block_shape, copies, strict=True))
    covered = cl.tile_to_shape(block, target, order)
    for i, j in itertools.product(range(target[0]), range(target[1])):
        inner = block(i % block_shape[0], j % block_shape[1])
        outer = tiler(i // block_shape[0], j // block_shape[1])
        check(blocked(i, j) == inner + size * outer, block, tiler, blocked, "at", i, j)
        check(covered(i, j) == inner + size * outer, block, target, covered, "at", i, j)
        inner = block(i // copies[0], j // copies[1])
        outer = tiler(i % copies[0], j % copies[1])
        check(raked(i, j) == inner + size * outer, block, tiler, raked, "at", i, j)


def numeric(tree: Any, values: dict[str, int]) -> Any:
    """The tree with numbers for its symbols."""
    if isinstance(tree, tuple):
        return tuple(numeric(child, values) for child in tree)
    if isinstance(tree, int):
        return tree
    total = 0
    for names, coefficient in tree.terms.items():
        for name in names:
            coefficient = coefficient * values[name]
        total += coefficient
    check(total == int(total), tree, "is no whole number")
    return int(total)


@operation
def symbols(rng: random.Random, tally: Tally) -> None:
    """What is computed with symbols must hold for every value they may have."""
    n, m = Symbol("N", multiple_of=rng.choice([1, 4, 8])), Symbol("M")
    known = [1, 2, 3, 4, 8]
    shape = tuple(rng.choice([n, m, *known]) for _ in range(rng.randint(1, 3)))
    a = Layout(shape) if rng.random() < 0.5 else Layout(shape, tuple(
        rng.choice([1, 2, 16, n, m * 2, 0]) for _ in shape))  # fmt: skip
    inner = tuple(rng.choice([n, m, 1, 2, 4]) for _ in range(rng.randint(1, 2)))
    b = Layout(inner) if rng.random() < 0.5 else Layout(inner, tuple(
        rng.choice([1, 2, 4, 8, n]) for _ in inner))  # fmt: skip
    try:
        r = cl.composition(a, b)
    except LayoutError:
        tally.rejected += 1
        return
    step = max(n.multiples.values())
    for values in ({"N": step, "M": 1}, {"N": 2 * step, "M": 3}, {"N": 3 * step, "M": 4}):
        left, right, got = (
            Layout(numeric(x.shape, values), numeric(x.stride, values)) for x in (a, b, r)
        )
        wanted = [ref.value(left.shape, left.stride, v) for v in ref.table(right)]
        check(ref.table(got) == wanted, a, "o", b, "=", r, "for", values)
        check(ref.refines(right.shape, got.shape), a, "o", b, "=", r, "is not compatible")
