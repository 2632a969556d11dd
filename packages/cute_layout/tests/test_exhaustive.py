"""Every layout of a small domain, against function tables: nothing is left to chance there."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import layout_reference as ref
import pytest

import cute_layout as cl
from cute_layout import Layout, LayoutError

EXTENTS, STRIDES = (1, 2, 3, 4), (0, 1, 2, 3, -1)


def flat(extents: tuple[int, ...], strides: tuple[int, ...], rank: int) -> Iterator[Layout]:
    for shape in itertools.product(extents, repeat=rank):
        for stride in itertools.product(strides, repeat=rank):
            yield Layout(shape, stride) if rank > 1 else Layout(shape[0], stride[0])


ALL = [*flat(EXTENTS, STRIDES, 1), *flat(EXTENTS, STRIDES, 2)]
INNER = [*flat(EXTENTS, STRIDES, 1), *flat((2, 3), (0, 1, 2, 3), 2)]


@pytest.mark.parametrize("first", EXTENTS)
def test_composition(first: int) -> None:
    for a in ALL:
        if ref.leaves(a.shape)[0] != first:
            continue
        for b in INNER:
            try:
                r = cl.composition(a, b)
            except LayoutError:
                assert not ref.composable(a, b), (a, b)
                continue
            wanted = [ref.value(a.shape, a.stride, v) for v in ref.table(b)]
            assert ref.table(r) == wanted and ref.refines(b.shape, r.shape), (a, b, r)


def test_single_layouts() -> None:
    for a in [*ALL, *flat((2, 3), (1, 2, 3, 6), 3)]:
        table = ref.table(a)
        assert cl.offsets(a) == table and ref.table(cl.coalesce(a)) == table
        assert cl.is_injective(a) == (len(set(table)) == len(table)), a
        span = max(table) - min(table) + 1
        assert cl.cosize(a) == span and cl.is_surjective(a) == (len(set(table)) == span), a
        r = cl.right_inverse(a)
        assert [table[i] for i in ref.table(r)] == list(range(r.size)), a
        assert set(ref.table(cl.filter(a))) == set(table), a


def test_left_inverse_exists_exactly_where_it_is_found() -> None:
    for a in [*flat((1, 2, 3), (1, 2, 3, 4, 5, 7), 2), *flat((2,), (1, 2, 3, 5, 6), 3)]:
        table = ref.table(a)
        if len(set(table)) < len(table):
            with pytest.raises(cl.NotInjectiveError):
                cl.left_inverse(a)
            continue
        try:
            back = cl.left_inverse(a)
        except cl.DivisibilityError:
            assert not ref.left_invertible(a, 40), a
            continue
        assert [ref.value(back.shape, back.stride, v) for v in table] == list(range(a.size)), a


def test_complement_and_coordinates() -> None:
    for a in [*ALL, *flat((2, 3), (1, 2, 4, 6), 3)]:
        try:
            c = cl.complement(a, 24)
        except cl.NotInjectiveError:
            assert ref.overlaps(a), a
        else:
            image = set(ref.table(a))
            assert len({x + y for x in image for y in ref.table(c)}) == len(image) * c.size, a
    for shape in ((2, 3), (2, (3, 2)), ((2, 2), (3, 1)), 5, ((2, 3),)):
        for i in range(ref.size(shape)):
            crd = cl.idx2crd(i, shape)
            assert cl.crd2idx(crd, shape) == i and cl.congruent(crd, shape)


def test_swizzles() -> None:
    for bits, base, shift in itertools.product(range(4), range(3), range(-4, 5)):
        if abs(shift) < bits:
            with pytest.raises(cl.DomainError):
                cl.Swizzle(bits, base, shift)
            continue
        s = cl.Swizzle(bits, base, shift)
        assert sorted(map(s, range(s.period))) == list(range(s.period))
        assert [s(s(x)) for x in range(s.period)] == list(range(s.period))
