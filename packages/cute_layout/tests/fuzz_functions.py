"""Random cases of what reads or rewrites one layout: values, slices, coalesce, complement."""

from __future__ import annotations

import random

import layout_reference as ref
from fuzz_registry import Tally, check, operation

import cute_layout as cl
from cute_layout import Layout, LayoutError


@operation
def evaluate(rng: random.Random, tally: Tally) -> None:
    a = ref.random_layout(rng, negative=True)
    wanted = ref.table(a)
    check(cl.offsets(a) == wanted, a, "offsets")
    beyond = rng.randrange(a.size, 3 * a.size + 1)
    check(a(beyond) == ref.value(a.shape, a.stride, beyond), a, "past the size", beyond)
    i = rng.randrange(a.size)
    crd = cl.idx2crd(i, a.shape)
    check(cl.congruent(crd, a.shape) and cl.crd2idx(crd, a.shape) == i, a, "coordinates", i)
    check(a(crd) == wanted[i] == a(i), a, "at", i)
    check(Layout.parse(str(a)) == a and hash(Layout.parse(str(a))) == hash(a), a, "text")
    check(cl.cosize(a) == max(wanted) - min(wanted) + 1, a, "cosize")


@operation
def slices(rng: random.Random, tally: Tally) -> None:
    a = ref.random_layout(rng, negative=True)
    if type(a.shape) is not tuple:
        return
    crd = tuple(None if rng.random() < 0.5 else rng.randrange(m.size) for m in a)
    if None not in crd:
        return
    sub, offset = cl.slice_and_offset(crd, a)
    check(sub == a(*crd), a, crd, "sub-layout")
    sizes = [m.size for m, c in zip(a, crd, strict=True) if c is None]
    for i in range(sub.size):
        rest, free = i, []
        for s in sizes:
            free.append(rest % s)
            rest //= s
        full = tuple(free.pop(0) if c is None else c for c in crd)
        check(offset + sub(i) == a(full), a, crd, "at", i)


@operation
def coalesce(rng: random.Random, tally: Tally) -> None:
    a = ref.random_layout(rng, modes=4, negative=True)
    check(ref.table(cl.coalesce(a)) == ref.table(a), a, "coalesced")
    check(cl.rank(cl.coalesce(a)) <= len(ref.leaves(a.shape)), a, "rank")
    if type(a.shape) is tuple:
        by_mode = cl.coalesce(a, (1,) * rng.randint(1, len(a)))
        check(ref.table(by_mode) == ref.table(a), a, "by profile", by_mode)
        check([m.size for m in by_mode] == [m.size for m in a], a, "profile", by_mode)
    check(set(ref.table(cl.filter(a))) == set(ref.table(a)), a, "filtered")
    kept = cl.filter_zeros(a)
    check(set(ref.table(kept)) == set(ref.table(a)) and cl.congruent(kept, a), a, "filter_zeros")
    check(ref.table(cl.flatten(a)) == ref.table(a) and cl.depth(cl.flatten(a)) <= 1, a, "flat")


@operation
def complement(rng: random.Random, tally: Tally) -> None:
    a = ref.random_layout(rng, negative=True)
    bound = rng.choice([None, rng.randint(1, 200)])
    try:
        c = cl.complement(a, bound)
    except LayoutError:
        tally.rejected += 1
        check(ref.overlaps(a), a, "has a complement and was rejected")
        return
    image, gaps = set(ref.table(a)), ref.table(c)
    sums = {v + g for v in image for g in gaps}
    check(len(sums) == len(image) * len(gaps), a, bound, c, "not disjoint")
    check(gaps == sorted(set(gaps)), a, bound, c, "not ordered")
    ends = [abs(d) * s for s, d in zip(ref.leaves(a.shape), ref.leaves(a.stride), strict=True) if d]
    if bound is not None:
        check(max(gaps) + max(ends, default=1) >= bound, a, bound, c, "too short")


@operation
def exact_complement(rng: random.Random, tally: Tally) -> None:
    a = ref.random_layout(rng)
    bound = rng.choice([a.size * rng.randint(1, 4), rng.randint(1, 100)])
    image = ref.table(a)
    try:
        c = cl.complement(a, bound, exact=True)
    except LayoutError:
        tally.rejected += 1
        proven = ref.overlaps(a) or not _tiles(sorted(set(image)), bound)
        check(proven, a, bound, "tiles and was rejected")
        return
    sums = sorted(v + g for v in set(image) for g in ref.table(c))
    check(sums == list(range(bound)), a, bound, c, "does not tile")


def _tiles(image: list[int], bound: int) -> bool:
    """Whether some layout's values translate the image onto 0 .. bound-1 (the copies are
    forced)."""
    free = set(range(bound))
    copies: list[int] = []
    while free:
        start = min(free)
        copy = {start + v for v in image}
        if not copy <= free:
            return False
        free -= copy
        copies.append(start)
    return ref.layout_functions(copies)


@operation
def common(rng: random.Random, tally: Tally) -> None:
    a, b = ref.random_layout(rng), ref.random_layout(rng)
    if rng.random() < 0.5:
        b = Layout(a.shape)
    r = cl.max_common_layout(a, b)
    left, right = ref.table(a), ref.table(b)
    for i, index in enumerate(ref.table(r)):
        check(left[index] == i == right[index], a, b, r, "at", i)
    check(cl.max_common_vector(a, b) == r.size, a, b)
    zero = cl.nullspace(a)
    check(all(left[i] == 0 for i in ref.table(zero)), a, zero)
    wanted = len(left) // max(ref.size(cl.filter_zeros(a).shape), 1)
    check(zero.size == wanted and len(set(ref.table(zero))) == wanted, a, zero)


@operation
def predicates(rng: random.Random, tally: Tally) -> None:
    a = ref.random_layout(rng, negative=True)
    values = ref.table(a)
    check(cl.is_injective(a) == (len(set(values)) == len(values)), a, "injective")
    span = max(values) - min(values) + 1
    check(cl.is_surjective(a) == (len(set(values)) == span), a, "surjective")
    bound = rng.randint(1, 40)
    onto = set(range(bound)) <= set(values)
    check(cl.is_surjective(a, bound) == onto, a, "onto", bound)
    wanted = len(set(values)) == len(values) == span
    check(cl.is_bijective(a) == wanted, a, "bijective")
    b = ref.random_layout(rng) if rng.random() < 0.7 else cl.coalesce(a)
    check(cl.equivalent(a, b) == (values == ref.table(b)), a, b, "equivalent")
