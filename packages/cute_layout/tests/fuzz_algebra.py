"""Random cases of what combines layouts: composition, inverses, division, unification."""

from __future__ import annotations

import random

import layout_reference as ref
from fuzz_registry import Tally, check, operation

import cute_layout as cl
from cute_layout import Layout, LayoutError


@operation
def composition(rng: random.Random, tally: Tally) -> None:
    if rng.random() < 0.4:
        a, b = ref.random_divisible(rng), ref.random_divisible(rng)
    else:
        a = ref.random_layout(rng, negative=True)
        b = ref.random_layout(rng, negative=rng.random() < 0.3)
    try:
        r = cl.composition(a, b)
    except LayoutError:
        tally.rejected += 1
        check(not ref.composable(a, b), a, "o", b, "exists and was rejected")
        return
    check(ref.refines(b.shape, r.shape), a, "o", b, "=", r, "is not compatible")
    wanted = [ref.value(a.shape, a.stride, v) for v in ref.table(b)]
    check(ref.table(r) == wanted, a, "o", b, "=", r)


@operation
def strict_composition(rng: random.Random, tally: Tally) -> None:
    a, b = ref.random_divisible(rng), ref.random_divisible(rng)
    inside = all(0 <= v < ref.size(a.shape) for v in ref.table(b))
    try:
        r = cl.composition(a, b, strict=True)
    except LayoutError:
        tally.rejected += 1
        check(not inside or not ref.composable(a, b), a, "o", b, "rejected though inside")
        return
    check(inside, a, "o", b, "leaves the domain")
    check(ref.table(r) == [ref.value(a.shape, a.stride, v) for v in ref.table(b)], a, b, r)


@operation
def composition_by_mode(rng: random.Random, tally: Tally) -> None:
    a = ref.random_layout(rng)
    if type(a.shape) is not tuple:
        return
    tiler = tuple(
        rng.choice([None, rng.randint(1, 6), ref.random_layout(rng, modes=2, most=12)]) for _ in a
    )
    wanted = [
        m if t is None else [m(v) for v in ref.table(Layout(t) if isinstance(t, int) else t)]
        for m, t in zip(a, tiler, strict=True)
    ]
    try:
        r = cl.composition(a, tiler)
    except LayoutError:
        tally.rejected += 1
        pairs = [(m, t) for m, t in zip(a, tiler, strict=True) if t is not None]
        possible = [ref.composable(m, t if isinstance(t, Layout) else Layout(t)) for m, t in pairs]
        check(not all(possible), a, "o", tiler, "exists")
        return
    for mode, want in zip(r, wanted, strict=True):
        check(mode == want or ref.table(mode) == want, a, "o", tiler, "=", r)


@operation
def right_inverse(rng: random.Random, tally: Tally) -> None:
    a = ref.random_layout(rng, negative=True)
    r = cl.right_inverse(a)
    values = ref.table(a)
    indices = ref.table(r)
    check(all(0 <= i < len(values) for i in indices), a, r, "leaves the domain")
    check([values[i] for i in indices] == list(range(len(indices))), a, r)
    if sorted(values) == list(range(len(values))):
        check(len(indices) == len(values), a, r, "is not the whole inverse")


@operation
def left_inverse(rng: random.Random, tally: Tally) -> None:
    a = ref.random_layout(rng, most=12, negative=rng.random() < 0.2)
    values = ref.table(a)
    try:
        r = cl.left_inverse(a)
    except LayoutError as no:
        tally.rejected += 1
        if len(set(values)) < len(values):
            check(isinstance(no, cl.NotInjectiveError), a, no)
            return
        check(not isinstance(no, cl.NotInjectiveError), a, "is injective")
        try:
            check(not ref.left_invertible(a, 40), a, "has a left inverse and was rejected")
        except OverflowError:
            tally.unproven += 1
        return
    check([r(v) for v in values] == list(range(len(values))), a, r)


@operation
def inverse(rng: random.Random, tally: Tally) -> None:
    a = ref.random_layout(rng)
    values = ref.table(a)
    try:
        r = cl.inverse(a)
    except LayoutError:
        tally.rejected += 1
        check(sorted(values) != list(range(len(values))), a, "is a bijection and was rejected")
        return
    back = ref.table(r)
    check([values[i] for i in back] == list(range(len(values))) == [back[v] for v in values], a, r)


@operation
def divide(rng: random.Random, tally: Tally) -> None:
    a, b = ref.random_divisible(rng), ref.random_divisible(rng, modes=2, most=16)
    if rng.random() < 0.5:
        b = Layout(rng.choice([2, 3, 4, 6, 8]))
        a = ref.random_layout(rng)
    tiler = b.shape if type(b.shape) is int and b.stride == 1 else b
    try:
        r = cl.logical_divide(a, tiler)
    except LayoutError:
        tally.rejected += 1
        proven = ref.overlaps(b)
        if not proven:
            rest = cl.complement(b, ref.size(a.shape))
            proven = not ref.composable(a, Layout((b.shape, rest.shape), (b.stride, rest.stride)))
        check(proven, a, "/", b, "exists and was rejected")
        return
    check(ref.table(r[0]) == [ref.value(a.shape, a.stride, v) for v in ref.table(b)], a, b, r)
    rest = ref.table(cl.complement(b, ref.size(a.shape)))
    check(ref.table(r[1]) == [ref.value(a.shape, a.stride, v) for v in rest], a, b, r)
    wanted = ref.table(r)
    forms = (cl.zipped_divide, cl.tiled_divide, cl.flat_divide)
    check(r == cl.logical_divide(a, b), a, b, tiler)
    check(all(ref.table(form(a, b)) == wanted for form in forms), a, b, "forms differ")


@operation
def product(rng: random.Random, tally: Tally) -> None:
    a, b = ref.random_layout(rng, modes=2, most=16), ref.random_divisible(rng, modes=2, most=16)
    try:
        r = cl.logical_product(a, b)
    except LayoutError:
        tally.rejected += 1
        proven = ref.overlaps(a)
        if not proven:
            proven = not _placeable(a, b)
        check(proven, a, "x", b, "exists and was rejected")
        return
    check(r[0] == a, a, b, r, "lost the block")
    image, copies = set(ref.table(a)), ref.table(r[1])
    distinct = {v + g for v in image for g in copies}
    check(len(distinct) == len(image) * len(set(copies)), a, b, r, "copies overlap")
    order = ref.table(b)
    check((copies[0] == 0) and len(copies) == len(order), a, b, r)
    ranks = {v: k for k, v in enumerate(sorted(set(order)))}
    places = {v: k for k, v in enumerate(sorted(set(copies)))}
    check([ranks[v] for v in order] == [places[v] for v in copies], a, b, r, "order")
    wanted = sorted(ref.table(r))
    for form in (cl.zipped_product, cl.tiled_product, cl.flat_product):
        check(ref.table(form(a, b)) == ref.table(r), a, b, form.__name__)
    for form in (cl.blocked_product, cl.raked_product):
        check(sorted(ref.table(form(a, b))) == wanted, a, b, form.__name__)


def _placeable(a: Layout, b: Layout) -> bool:
    """Whether B's places, counted along the complement of A, are a layout's."""
    free = cl.complement(a, ref.size(a.shape) * 64 * b.cosize)
    return ref.composable(free, b)


@operation
def coordinates(rng: random.Random, tally: Tally) -> None:
    """delinearize, linearize, and composition with coordinate-valued layouts."""
    tile = (rng.choice([2, 4, 6, 8]), rng.choice([3, 4, 8]))
    a = ref.random_layout(rng, modes=3, most=24)
    try:
        f = cl.delinearize(a, tile)
    except LayoutError:
        tally.rejected += 1
        ident = [Layout(tile, (1, 0)), Layout(tile, (0, 1))]
        check(not all(ref.composable(m, a) for m in ident), a, tile, "exists")
        return
    wanted = [(v % tile[0], v // tile[0]) for v in ref.table(a)]
    check([tuple(f(i)) + (0,) * (2 - len(f(i))) if f.is_coordinate else (0, 0)
           for i in range(f.size)] == wanted, a, tile, f)  # fmt: skip
    check(ref.table(cl.linearize(f, tile)) == ref.table(a), f)
    memory = Layout(tile, (rng.choice([1, 8, 12]), rng.choice([1, 8, 16])))
    through = cl.composition(memory, f)
    check(cl.offsets(through) == [memory(c) for c in wanted], memory, f, through)


@operation
def unify(rng: random.Random, tally: Tally) -> None:
    extents = rng.choice([(4, 3), (6,), (12,), (2, 6), (8, 2), (4, 4), (3, 2), (16,), (6, 2)])
    total = ref.size(extents)
    sides = [[_random_modes(rng, e, total) for e in extents] for _ in range(2)]
    partials = [_partial(side) for side in sides]
    admitted = [
        columns
        for columns in set(ref.bijections(extents))
        if all(ref.admitted(m, c) for side in sides for m, c in zip(side, columns, strict=True))
    ]
    try:
        both = cl.unify(*partials)
    except LayoutError:
        tally.rejected += 1
        check(not admitted, *partials, "have a common layout and were rejected")
        return
    check(bool(admitted), *partials, "have no common layout, got", both)
    m = cl.materialize(both)
    values = sorted(ref.table(m))
    check(values == list(range(total)), *partials, m, "is no bijection")
    columns = [ref.table(d) for d in m]
    for side in sides:
        for modes, column in zip(side, columns, strict=True):
            check(ref.admitted(modes, tuple(column)), *partials, m, "breaks a constraint")
    for columns in admitted:
        dims = [ref_layout(c) for c in columns]
        one = Layout(tuple(d.shape for d in dims), tuple(d.stride for d in dims))
        check(both.admits(one), both, "does not admit", one)


def ref_layout(column: tuple[int, ...]) -> Layout:
    for shape in ref.factorizations(len(column)):
        steps = [ref.size(shape[:k]) for k in range(len(shape))]
        stride = tuple(column[step] for step in steps)
        if all(ref.value(shape, stride, i) == v for i, v in enumerate(column)):
            return Layout(shape, stride) if len(shape) > 1 else Layout(shape[0], stride[0])
    return Layout(1, 0)


def _random_modes(rng: random.Random, extent: int, total: int) -> list[tuple[int, int | None]]:
    shape = rng.choice(list(ref.factorizations(extent)))
    return [(s, _stride(rng, total)) for s in shape]


def _stride(rng: random.Random, total: int) -> int | None:
    if rng.random() < 0.6:
        return None
    return rng.choice([d for d in range(1, total + 1) if total % d == 0])


def _partial(side: list[list[tuple[int, int | None]]]) -> cl.PartialLayout:
    shape = tuple(tuple(s for s, _ in modes) for modes in side)
    stride = tuple(tuple(d for _, d in modes) for modes in side)
    return cl.PartialLayout(shape, stride)
