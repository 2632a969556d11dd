"""Partial layouts: the paper's example, the decision of satisfiability, materialized bijections."""

from __future__ import annotations

import pickle

import layout_reference as ref
import pytest

import cute_layout as cl
from cute_layout import Layout, PartialLayout, materialize, unify

parse = PartialLayout.parse


def test_the_paper_unifies_to_a_refinement() -> None:
    first = parse("((8,8),64):((1,D1),D2)")
    later = parse("((16,4),64):((D1,8),D2)")
    assert str(unify(first, later)) == "((8,2,4),64):((1,D1',8),D2)"
    assert str(materialize(unify(first, later))) == "((8,2,4),64):((1,32,8),64)"


def test_the_paper_refuses_stride_one_on_two_dimensions() -> None:
    first, other = parse("((8,8),64):((1,D1),D2)"), parse("(64,(8,8)):(D1,(1,D2))")
    with pytest.raises(cl.UnificationError, match="8:1 overlaps 8:1"):
        unify(first, other)
    assert not cl.is_satisfiable(parse("((8,8),(8,8)):((1,D1),(1,D2))"))


def test_unify_of_one_or_none() -> None:
    one = parse("((8,8),64):((1,D1),D2)")
    assert unify(one) == one
    with pytest.raises(cl.UnificationError, match="at least one"):
        unify()


def test_different_tensors_and_different_strides_are_refused() -> None:
    with pytest.raises(cl.UnificationError, match="not of one tensor"):
        unify(parse("(8,8):(D1,D2)"), parse("(8,4):(D1,D2)"))
    with pytest.raises(cl.UnificationError, match=r"wants stride 1, .* wants 2"):
        unify(parse("(8,8):(1,D2)"), parse("(8,8):(2,D2)"))


def test_known_modes_must_form_a_divisible_chain() -> None:
    for text in ["(8,8):(1,9)", "(8,8):(2,3)", "(6,10):(D,4)", "(4,4):(0,D)", "(12,5):(20,D)"]:
        assert not cl.is_satisfiable(parse(text)), text
        with pytest.raises(cl.UnificationError, match="no layout satisfies"):
            materialize(parse(text))


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("(64,64)", "(64,64):(1,64)"),
        ("(64,(8,8)):(D1,(1,D2))", "(64,(8,8)):(8,(1,512))"),
        ("((2,4),3):((D1,2),D2)", "(8,3):(1,8)"),
        ("(12,10):(D,4)", "((4,3),10):((1,40),4)"),
        ("64:D", "64:1"),
        ("(4,2):(D,3)", None),
        ("(6,2):(D,3)", "((3,2),2):((1,6),3)"),
        ("(1,8):(D,1)", "(1,8):(0,1)"),
    ],
)
def test_materialize_fills_the_gaps_in_mode_order(text: str, wanted: str | None) -> None:
    partial = parse(text)
    if wanted is None:
        assert not cl.is_satisfiable(partial)
        return
    layout = materialize(partial)
    assert str(layout) == wanted
    assert sorted(ref.table(layout)) == list(range(partial.size))
    assert partial.admits(layout)


def test_a_negative_known_stride_is_a_bijection_onto_a_shifted_range() -> None:
    layout = materialize(parse("((2,4),3):((D1,-2),D2)"))
    values = sorted(ref.table(layout))
    assert values == list(range(values[0], values[0] + 24))


def test_cuts_that_do_not_divide_each_other_leave_one_stride() -> None:
    both = unify(parse("((6,4)):((D1,D2))"), parse("((4,6)):((D1,D2))"))
    assert str(both) == "((2,6,2)):((D1',~D1'',D2'))"
    assert parse(str(both)) == both
    assert materialize(both).size == 24
    assert not both.admits(Layout(((2, 3, 4),), ((1, 8, 2),)))
    with pytest.raises(cl.UnificationError, match="gives no whole offset"):
        unify(parse("((6,2)):((D1,D2))"), parse("((4,3)):((D1,5))"))


def test_partial_layouts_are_values() -> None:
    a = parse("((8,8),64):((1,D1),D2)")
    assert a == PartialLayout(((8, 8), 64), ((1, "D1"), "D2")) and hash(a) == hash(parse(str(a)))
    assert PartialLayout(((8, 8), 64), ((1, None), None)) == a
    assert pickle.loads(pickle.dumps(a)) == a
    assert a.extents == (64, 64) and a.size == 4096 and not a.is_known
    assert [str(m.stride) for m in a.modes(0)] == ["1", "D1"]
    assert PartialLayout(Layout((2, 3))).is_known
    with pytest.raises(AttributeError, match="immutable"):
        a.shape = 1


def test_bad_partial_layouts_are_refused() -> None:
    with pytest.raises(cl.DomainError, match="stands twice"):
        parse("(8,8):(D1,D1)")
    with pytest.raises(cl.CongruenceError, match="not congruent"):
        parse("(8,8):D1")
    with pytest.raises(cl.DomainError, match="extents >= 1"):
        parse("(8,0):(D1,D2)")
    with pytest.raises(cl.CongruenceError, match="dimensions"):
        parse("(8,8):(D1,D2)").admits(Layout((8, 4)))
