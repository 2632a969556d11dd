"""Layouts as values: construction, evaluation, slices, text, equality, refusals."""

from __future__ import annotations

import copy
import pickle

import pytest

import cute_layout as cl
from cute_layout import E, Layout


def test_default_strides_are_compact_and_colexicographic() -> None:
    assert Layout((2, (3, 4))) == Layout((2, (3, 4)), (1, (2, 6)))
    assert Layout(5) == Layout(5, 1)
    assert Layout(()).size == 1 and Layout(())(0) == 0


def test_evaluation_takes_indices_and_coordinates_of_any_depth() -> None:
    a = Layout(((2, 2), 8), ((1, 16), 2))
    assert a(2, 4) == a((0, 1), 4) == a(((0, 1), 4)) == a(2 + 4 * 4) == 24


def test_evaluation_extends_along_the_last_mode() -> None:
    assert Layout((4, 2), (1, 10))(11) == 3 + 2 * 10
    assert Layout((4, 1), (1, 7))(9) == 1 + 2 * 7


def test_slices_keep_the_open_modes() -> None:
    a = Layout((4, (2, 3)), (6, (1, 2)))
    assert a(None, 3) == Layout(4, 6)
    assert a(2, None) == Layout((2, 3), (1, 2))
    assert a(None, (1, None)) == Layout((4, 3), (6, 2))
    assert cl.slice_and_offset((None, (1, None)), a) == (Layout((4, 3), (6, 2)), 1)


def test_modes() -> None:
    a = Layout((4, (2, 3)), (6, (1, 2)))
    assert a[0] == Layout(4, 6) and a[-1] == a[1] and a[1, 1] == Layout(3, 2)
    assert a[0:1] == Layout((4,), (6,)) and len(a) == 2 and list(a) == [a[0], a[1]]
    with pytest.raises(cl.DomainError, match="no mode 2"):
        a[2]


@pytest.mark.parametrize(
    "text",
    ["((2,2),8):((1,16),2)", "4:1", "(4):(1)", "():()", "(4,8):(1@0,8@1)", "3:-2", "2:1@0+1@1"],
)
def test_text_reads_back(text: str) -> None:
    assert str(Layout.parse(text)) == text
    assert cl.parse(text) == Layout.parse(text)


@pytest.mark.parametrize("text", ["(2,", "2:", "(2,3):(1,2", "a:b", "2 3", "((2):1", "", "2;3"])
def test_bad_text_is_located(text: str) -> None:
    with pytest.raises(cl.ParseError, match="cannot read|not a number"):
        Layout.parse(text)


def test_layouts_are_frozen_hashable_values() -> None:
    a = Layout((2, 3), (3, 1))
    with pytest.raises(AttributeError, match="immutable"):
        a.shape = (1,)
    with pytest.raises(AttributeError, match="immutable"):
        del a.stride
    assert {a: 1}[Layout([2, 3], [3, 1])] == 1
    assert a != Layout((2, 3)) and a != "x"
    assert pickle.loads(pickle.dumps(a)) == a == copy.deepcopy(a)


def test_int_likes_are_taken_and_others_refused() -> None:
    class Three:
        def __index__(self) -> int:
            return 3

    assert Layout((Three(), 2)) == Layout((3, 2))
    with pytest.raises(cl.LayoutError, match="expected an int"):
        Layout((2.0, 3))
    with pytest.raises(cl.LayoutError, match="expected an int"):
        Layout("23")


def test_refusals_of_the_constructor() -> None:
    with pytest.raises(cl.CongruenceError, match="not congruent"):
        Layout((2, 3), (1, (2, 3)))
    with pytest.raises(cl.CongruenceError, match="not congruent"):
        Layout(2, (1, 2))
    with pytest.raises(cl.DomainError, match="negative extent"):
        Layout((2, -3))
    with pytest.raises(cl.CongruenceError, match="mix offsets and coordinates"):
        Layout((2, 2), (1, E(0)))


def test_refusals_of_evaluation() -> None:
    a = Layout((2, 3))
    with pytest.raises(cl.CongruenceError, match="3 entries"):
        a(1, 2, 3)
    with pytest.raises(cl.CongruenceError, match="deeper"):
        a((1, 1), 2)
    with pytest.raises(cl.DomainError, match="outside the shape"):
        cl.idx2crd(6, (2, 3))


def test_an_extent_of_zero_makes_an_empty_layout() -> None:
    a = Layout((4, 0, 2))
    assert a.size == 0 and cl.cosize(a) == 0 and cl.offsets(a) == []
    assert cl.size(cl.coalesce(a)) == 0
    with pytest.raises(cl.DomainError, match="empty"):
        a(0)
    with pytest.raises(cl.DomainError, match="empty"):
        a(0, 0, 0)
    assert cl.composition(Layout(4), Layout(0)).size == 0
    with pytest.raises(cl.DomainError, match="empty"):
        cl.composition(a, Layout(2))


def test_cosize_spans_negative_strides_and_swizzles() -> None:
    assert cl.cosize(Layout(4, -3)) == 10
    swizzled = cl.ComposedLayout(cl.Swizzle(1, 0, 1), 0, Layout(2, 2))
    assert cl.offsets(swizzled) == [0, 3] and cl.cosize(swizzled) == 4


def test_coordinate_layouts_give_tuples() -> None:
    a = Layout((4, 8), (E(0), 2 * E(1)))
    assert a(3, 5) == (3, 10) and cl.offsets(a)[5] == (1, 2) and cl.cosize(a) == 4 * 15
    assert Layout(3, E(0) + E(1))(2) == (2, 2)
    assert Layout(3, E(1, 0))(2) == (0, (2,))
    assert str(E(0, 1)) == "1@1@0" and E() == 1 and 0 * E(1) == 0
    assert cl.linearize(a, (4, 16)) == Layout((4, 8), (1, 8))
    assert cl.linearize(a, Layout((4, 16), (16, 1))) == Layout((4, 8), (16, 2))
    with pytest.raises(cl.CongruenceError, match="cannot add"):
        E(0) + 1
    with pytest.raises(cl.CongruenceError, match="overlap"):
        E(0) + E(0, 1)
    with pytest.raises(cl.DomainError, match="no leaf"):
        cl.linearize(Layout(2, E(2)), (2, 2))


def test_coordinates_change_shape() -> None:
    assert cl.crd2crd((1, 2), (2, 6), (3, 4)) == (1, 3)
    assert cl.crd2crd(5, (2, 3)) == (1, 2)
    assert cl.idx2crd((5, 1), ((2, 3), 2)) == ((1, 2), 1)
    assert cl.idx2crd(16, (4, 8), (8, 1)) == (2, 0)
    assert cl.compatible(24, (4, 6)) and not cl.compatible((4, 6), 24)
    assert cl.congruent((1, (2, 3)), Layout((4, (5, 6)))) and cl.rank((2, (3, 4))) == 2
    assert cl.depth(Layout((2, (3, 4)))) == 2 and cl.flatten((2, (3, 4))) == (2, 3, 4)
    assert cl.size(Layout((2, (3, 4))), 1) == 12
