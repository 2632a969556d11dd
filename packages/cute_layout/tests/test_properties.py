"""Hypothesis properties of the algebra's laws, on layouts of any nesting."""

from __future__ import annotations

import layout_reference as ref
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import cute_layout as cl
from cute_layout import Layout, LayoutError

EXTENT = st.sampled_from([1, 2, 3, 4, 5, 6, 8])
STRIDE = st.sampled_from([0, 1, 2, 3, 4, 5, 8, 12, 16, -1, -4])


@st.composite
def layouts(draw: st.DrawFn, most: int = 200) -> Layout:
    mode = st.tuples(EXTENT, STRIDE)
    tree = draw(st.recursive(mode.map(lambda m: [m]), lambda t: st.lists(t, min_size=1, max_size=3),
                             max_leaves=4))  # fmt: skip

    def build(node: object, part: int) -> object:
        if isinstance(node, tuple):
            return node[part]
        return tuple(build(child, part) for child in node)

    shape, stride = build(tree, 0), build(tree, 1)
    assume(ref.size(shape) <= most)
    return Layout(shape, stride)


def compose_or_skip(a: Layout, b: Layout) -> Layout:
    try:
        return cl.composition(a, b)
    except LayoutError:
        assume(False)
        raise


@given(layouts())
def test_text_and_tables(a: Layout) -> None:
    assert Layout.parse(str(a)) == a
    assert cl.offsets(a) == ref.table(a) == [a(cl.idx2crd(i, a.shape)) for i in range(a.size)]


@given(layouts())
def test_coalesced_layouts_are_fixed_points_and_equal(a: Layout) -> None:
    once = cl.coalesce(a)
    assert cl.coalesce(once) == once and cl.equivalent(a, once)
    assert ref.table(once) == ref.table(a)


@given(layouts(60), layouts(40))
def test_composition_is_right_or_refused_rightly(a: Layout, b: Layout) -> None:
    try:
        r = cl.composition(a, b)
    except LayoutError:
        assert not ref.composable(a, b)
        return
    assert ref.refines(b.shape, r.shape)
    assert ref.table(r) == [ref.value(a.shape, a.stride, v) for v in ref.table(b)]


@given(layouts(40), layouts(30), layouts(20))
def test_composition_is_associative_where_it_exists(a: Layout, b: Layout, c: Layout) -> None:
    inner = compose_or_skip(b, c)
    left = compose_or_skip(a, inner)
    assert ref.table(left) == [a(b(v)) for v in ref.table(c)]


@given(layouts(60))
def test_identity_laws(a: Layout) -> None:
    assert cl.equivalent(cl.composition(a, Layout(a.shape)), a)
    assert cl.composition(Layout(1 << 20), a) == a


@given(layouts(60), st.integers(1, 300))
def test_complement_is_disjoint_and_ordered(a: Layout, bound: int) -> None:
    try:
        c = cl.complement(a, bound)
    except cl.NotInjectiveError:
        assert ref.overlaps(a)
        return
    image, gaps = set(ref.table(a)), ref.table(c)
    assert len({x + y for x in image for y in gaps}) == len(image) * len(gaps)
    assert gaps == sorted(set(gaps))


@given(layouts(60))
def test_inverses(a: Layout) -> None:
    table = ref.table(a)
    r = cl.right_inverse(a)
    assert [table[i] for i in ref.table(r)] == list(range(r.size))
    if sorted(table) == list(range(len(table))):
        assert r.size == len(table)
        assert cl.equivalent(cl.inverse(a), r) and cl.equivalent(cl.left_inverse(a), r)
        assert cl.is_bijective(a)
    else:
        with pytest.raises(LayoutError):
            cl.inverse(a)


@given(layouts(60), st.integers(1, 12))
def test_divide_splits_the_index(a: Layout, tile: int) -> None:
    try:
        tiled = cl.logical_divide(a, tile)
    except LayoutError:
        rest = -(-a.size // tile)
        assert not ref.composable(a, Layout((tile, rest), (1, tile)))
        return
    assert all(tiled(i % tile, i // tile) == a(i) for i in range(a.size))


@given(layouts(60), layouts(60))
def test_equivalence_is_equality_of_tables(a: Layout, b: Layout) -> None:
    assert cl.equivalent(a, b) == (ref.table(a) == ref.table(b))
