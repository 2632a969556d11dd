"""The kinds of input that layout libraries are known to get wrong, one test a kind."""

from __future__ import annotations

import functools

import layout_reference as ref
import pytest

import cute_layout as cl
from cute_layout import ComposedLayout, Layout, Swizzle


def composes(a: str, b: str, wanted: str) -> None:
    left, right = Layout.parse(a), Layout.parse(b)
    result = cl.composition(left, right)
    assert str(result) == wanted
    assert ref.table(result) == [ref.value(left.shape, left.stride, v) for v in ref.table(right)]
    assert ref.refines(right.shape, result.shape)


def refused(a: str, b: str, error: type[cl.LayoutError], witness: str) -> None:
    with pytest.raises(error) as caught:
        cl.composition(Layout.parse(a), Layout.parse(b))
    assert witness in caught.value.witness
    assert not ref.composable(Layout.parse(a), Layout.parse(b))


def test_stride_zero_in_the_outer_layout() -> None:
    composes("(4,3):(0,5)", "(2,3):(2,4)", "(2,3):(0,5)")


def test_stride_zero_in_the_inner_layout() -> None:
    composes("(4,3):(1,7)", "(2,3):(0,4)", "(2,3):(0,7)")


def test_a_leaf_that_splits_over_an_extent() -> None:
    composes("(6,2):(8,2)", "(4,3):(3,1)", "((2,2),3):((24,2),8)")


def test_an_extent_that_does_not_divide_is_refused() -> None:
    refused("(4,6):(1,10)", "6:1", cl.DivisibilityError, "i=4: A(B(i))=10, R(i)=4")


def test_a_carry_between_two_leaves_is_refused() -> None:
    refused("(4,2):(1,8)", "(2,2):(2,3)", cl.DivisibilityError, "A(B(i))=9, R(i)=5")


def test_a_non_divisible_stride_that_never_carries() -> None:
    composes("(7,3):(1,10)", "3:3", "3:3")


def test_a_carry_that_cancels_is_found_by_the_table() -> None:
    composes("(2,3,4):(0,6,12)", "3:5", "3:12")
    composes("(3,3,5):(-1,-1,-5)", "4:16", "(2,2):(-8,-18)")
    composes("(6,2,1):(0,2,2)", "(2,4,6):(24,8,24)", "(2,(2,2),6):(4,(2,2),4)")


def test_the_outer_layout_is_truncated() -> None:
    composes("(4,8):(8,1)", "4:1", "4:8")


def test_the_outer_layout_extends_past_its_size() -> None:
    composes("(4,2):(1,10)", "(4,5):(1,4)", "(4,5):(1,10)")


def test_strict_refuses_to_leave_the_domain() -> None:
    with pytest.raises(cl.DomainError, match=r"not in \[0, 8\)"):
        cl.composition(Layout((4, 2), (1, 10)), Layout((4, 5), (1, 4)), strict=True)


def test_a_last_mode_of_extent_one_decides_what_lies_beyond() -> None:
    composes("(4,1):(1,7)", "(4,2):(1,4)", "(4,2):(1,7)")


def test_extent_one_modes_in_the_middle() -> None:
    composes("(2,1,3):(1,9,2)", "6:1", "6:1")


def test_negative_strides_outside() -> None:
    composes("(4,2):(-1,-4)", "(2,4):(4,1)", "(2,4):(-4,-1)")


def test_negative_strides_inside() -> None:
    composes("8:3", "4:-1", "4:-3")


def test_by_mode_with_extents_that_are_no_powers_of_two() -> None:
    a = Layout((9, (4, 8)), (59, (13, 1)))
    result = cl.composition(a, (Layout(3, 3), Layout((2, 4), (1, 8))))
    assert str(result) == "(3,(2,4)):(177,(13,2))"


def test_by_mode_keeps_modes_that_have_no_tiler() -> None:
    a = Layout((9, (4, 8)), (59, (13, 1)))
    assert cl.composition(a, (None, 4)) == Layout((9, 4), (59, 13))
    assert cl.composition(a, (3,)) == Layout((3, (4, 8)), (59, (13, 1)))
    with pytest.raises(cl.CongruenceError, match="3 entries"):
        cl.composition(a, (1, 2, 3))


def test_shapes_without_a_common_factor() -> None:
    composes("(5,3):(3,1)", "(3,5):(5,1)", "(3,5):(1,3)")


def test_big_static_sizes_do_not_need_a_table() -> None:
    a = Layout((4096, 8192, 16), (1, 5000, 1 << 30))
    assert str(cl.composition(a, Layout(1 << 26))) == "(4096,8192,2):(1,5000,1073741824)"
    with pytest.raises(cl.DivisibilityError, match="does not divide"):
        cl.composition(a, Layout(4096 * 8192 + 2))
    with pytest.raises(cl.DivisibilityError, match="does not divide"):
        cl.composition(Layout((1 << 19, 8), (1, 1 << 30)), Layout((1 << 19) + 1))
    with pytest.raises(cl.DivisibilityError, match="carry"):
        cl.composition(a, Layout((2, 1 << 20), (5, 4)))


def test_non_compact_layouts_have_left_inverses() -> None:
    for text in ["4:2", "(2,2):(1,5)", "(2,2):(2,5)", "(3,2):(1,9)", "(2,3):(10,1)", "5:-2"]:
        a = Layout.parse(text)
        back = cl.left_inverse(a)
        assert [back(v) for v in ref.table(a)] == list(range(a.size)), (text, str(back))


def test_a_left_inverse_that_does_not_exist_is_refused() -> None:
    a = Layout((2, 2, 2), (1, 3, 5))
    with pytest.raises(cl.DivisibilityError, match="no layout undoes"):
        cl.left_inverse(a)
    assert not ref.left_invertible(a, 20)
    with pytest.raises(cl.NotInjectiveError) as caught:
        cl.left_inverse(Layout((2, 2), (1, 1)))
    assert caught.value.witness == "A(1)=A(2)=1"


def test_right_inverses_skip_stride_zero() -> None:
    assert cl.right_inverse(Layout((2, 4, 2), (0, 1, 4))) == Layout(8, 2)
    assert cl.right_inverse(Layout((3, 7), (0, 0))) == Layout(1, 0)


def test_right_inverses_take_the_longest_of_equal_strides() -> None:
    assert cl.right_inverse(Layout((2, 4), (1, 1))) == Layout(4, 2)


def test_divides_round_up() -> None:
    for tiled in (cl.logical_divide(Layout(10, 3), 4), cl.logical_divide(Layout(10, 3), Layout(4))):
        assert tiled == Layout((4, 3), (3, 12))
    assert cl.zipped_divide(Layout((10, 6), (6, 1)), (4, 6)).shape == ((4, 6), (3, 1))
    assert cl.logical_divide(Layout((10, 6)), (None, 6))[0] == Layout(10)
    with pytest.raises(cl.CongruenceError, match="3 entries"):
        cl.zipped_divide(Layout((10, 6)), (1, 2, 3))


def test_complements_with_overlapping_chains_are_refused() -> None:
    with pytest.raises(cl.NotInjectiveError, match="overlap"):
        cl.complement(Layout((4, 2), (2, 5)), 32)


def test_complements_are_ordered_and_may_be_exact() -> None:
    assert cl.complement(Layout((2, 4, 8), (8, 1, 64))) == Layout((2, 4), (4, 16))
    assert cl.complement(Layout(4, 2), 24, exact=True) == Layout((2, 3), (1, 8))
    with pytest.raises(cl.DivisibilityError, match="no multiple"):
        cl.complement(Layout(4, 2), 20, exact=True)
    with pytest.raises(cl.DivisibilityError, match="no multiple"):
        cl.complement(Layout((2, 2), (2, 5)), 20, exact=True)


def test_coalesce_by_profile_keeps_the_function() -> None:
    a = Layout(((2, 4), (4, 1)), ((1, 2), (8, 3)))
    assert cl.coalesce(a) == Layout(32)
    assert cl.coalesce(a, (1, 1)) == Layout((8, 4), (1, 8))
    assert cl.coalesce(a, (1,)) == Layout((8, (4, 1)), (1, (8, 3)))
    with pytest.raises(cl.CongruenceError, match="more entries"):
        cl.coalesce(a, (1, 1, 1))


def test_swizzles_count_elements_and_recast() -> None:
    by_bytes = Swizzle(3, 4, 3)
    for bits in (16, 32, 64, 128):
        other = by_bytes.recast(8, bits)
        size = bits // 8
        assert all(by_bytes(x * size) == other(x) * size for x in range(1024))
    with pytest.raises(cl.DivisibilityError, match="torn"):
        by_bytes.recast(8, 256)


def test_recast_of_a_swizzled_layout_is_the_same_memory() -> None:
    tile = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1)))
    narrow = cl.recast(tile, 16, 8)
    assert str(narrow) == "Sw<3,4,3> o 0 o (8,128):(128,1)"
    for row in range(8):
        for col in range(64):
            assert narrow(row, 2 * col) == 2 * tile(row, col)
    assert cl.recast(narrow, 8, 16) == tile
    with pytest.raises(cl.DivisibilityError, match="only partly"):
        cl.recast(Layout((2, 4), (1, 8)), 8, 32)
    with pytest.raises(cl.DivisibilityError, match="uneven"):
        cl.recast(Layout(4, 3), 8, 16)


def test_sixteen_byte_accesses_take_four_phases() -> None:
    flat = Layout(8192)
    rows = Layout((32, 8), (8, 1))
    got = cl.bank_conflicts(flat, rows, 16)
    assert (got.wavefronts, got.ideal, got.vector_bits) == (4, 4, 128)


def test_products_of_blocks_whose_gaps_do_not_divide() -> None:
    block = Layout((4, 4), (12, 2))
    result = cl.logical_product(block, Layout((2, 2), (0, 2)))
    values = {v + c for v in ref.table(block) for c in ref.table(result[1])}
    assert len(values) == 16 * 2


def test_equality_is_of_functions_where_asked() -> None:
    assert cl.equivalent(Layout((2, 3)), Layout(6)) and Layout((2, 3)) != Layout(6)
    assert cl.equivalent(ComposedLayout(Swizzle(0, 0, 0), 0, Layout(6)), Layout(6))
    assert not cl.equivalent(Layout(6), Layout(5))


def test_injective_and_onto_are_not_read_off_the_span() -> None:
    assert cl.is_injective(Layout((4, 3), (3, 4))) and not cl.is_surjective(Layout((4, 3), (3, 4)))
    assert not cl.is_injective(Layout((5, 4), (3, 4))) and not cl.is_injective(Layout(2, 0))
    assert cl.is_surjective(Layout((4, 3), (1, 2))) and not cl.is_bijective(Layout((4, 3), (1, 2)))
    assert cl.is_injective(Layout((1 << 30, 3), (4, 1)))
    assert cl.is_bijective(Layout((1 << 30, 4), (4, 1)))


LARGE = [
    Layout((128, 160), (65536, 1)),
    Layout((160, 128), (1, 65536)),
    Layout((3, 1000, 50), (1, 7, 70000)),
    Layout((300, 7), (5, -65535)),
    Layout(16, -(2**70)),
    Layout((2**20, 3), (1, 2**40)),
]


@pytest.mark.parametrize("layout", LARGE, ids=str)
def test_a_large_layout_whose_strides_divide_is_inverted_at_once(layout: Layout) -> None:
    back = cl.left_inverse(layout)
    picked = {0, 1, 2, layout.size - 1, layout.size // 2, layout.size // 3, 127, 128, 160, 4095}
    for i in (i for i in picked if i < layout.size):
        assert back(layout(i)) == i


_SWIZZLED = cl.composition(cl.Swizzle(1, 2, 1), Layout((4, 4), (1, 4)))
_COORDINATE = Layout((3, 3), (cl.E(2), cl.E(0)))
_DEEP = "(" * 3000 + ")" * 3000

REFUSED = {
    "no whole tiles": lambda: cl.tile_to_shape(Layout(0, 8), 3),
    "copies of coordinates": lambda: cl.logical_product(_COORDINATE, 7),
    "blocks of coordinates": lambda: cl.blocked_product(_COORDINATE, (2, 2)),
    "offsets of coordinates": lambda: cl.is_surjective(Layout((3,), (cl.E(0),)), 5),
    "banks of coordinates": lambda: cl.bank_conflicts(_COORDINATE, Layout(2, 4), 1),
    "no bits": lambda: cl.bank_conflicts(Layout(64, 2), Layout(12, -1), 0),
    "too many bits": lambda: cl.bank_conflicts(Layout(64, 2), Layout(12, 1), 2**70),
    "a swizzle for no bits": lambda: cl.choose_swizzle(Layout(64, 2), Layout(12, 1), 0),
    "threads swizzled": lambda: cl.bank_conflicts(Layout(64, 2), _SWIZZLED, 8),
    "coalesce": lambda: cl.coalesce(_SWIZZLED),
    "filter": lambda: cl.filter(_SWIZZLED),
    "filter_zeros": lambda: cl.filter_zeros(_SWIZZLED),
    "complement": lambda: cl.complement(_SWIZZLED),
    "linearize": lambda: cl.linearize(_SWIZZLED, 16),
    "nullspace": lambda: cl.nullspace(_SWIZZLED),
    "slice_and_offset": lambda: cl.slice_and_offset(None, _SWIZZLED),
    "max_common_vector": lambda: cl.max_common_vector(_SWIZZLED, Layout(16, 2)),
    "raked_product": lambda: cl.raked_product(_SWIZZLED, 4),
    "a table of 2^31": lambda: cl.offsets(Layout(2**31, 1)),
    "a table of 2^63": lambda: cl.offsets(Layout(2**63, 3)),
    "a table of a swizzle": lambda: cl.offsets(
        cl.ComposedLayout(cl.Swizzle(1, 2, 1), 0, Layout(2**40, 1))
    ),
    "a wide swizzle": lambda: cl.Swizzle(6, 1, 2**40),
    "a high swizzle": lambda: cl.Swizzle(1, 2**70, 2),
    "no coordinate": lambda: cl.crd2idx(None, 2),
    "no index": lambda: cl.idx2crd(None, (2, 3)),
    "an index of nothing": lambda: cl.idx2crd(0, 0, 3),
    "strides of another shape": lambda: cl.crd2idx((1, 2), (3, 4), (1,)),
    "strides of another depth": lambda: cl.idx2crd(3, (3, 4), 1),
    "deep text": lambda: cl.parse(_DEEP),
    "a deep shape": lambda: Layout(functools.reduce(lambda t, _: (t,), range(3000), 2)),
    "a deep coordinate": lambda: Layout(4, 1)(functools.reduce(lambda t, _: (t,), range(3000), 2)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_has_no_answer_is_an_error_of_the_library(what: str) -> None:
    with pytest.raises(cl.LayoutError):
        REFUSED[what]()


def test_questions_about_huge_layouts_are_answered_without_their_tables() -> None:
    assert cl.max_common_vector(Layout(6, 1), Layout(2**31, 1)) == 4
    assert cl.max_common_vector(Layout(2**31, 1), Layout(2**31, 1)) == 2**31
    assert str(cl.max_common_layout(Layout(1, 6), Layout((2**31, 2**40)))) == "1:0"
    assert not cl.is_surjective(Layout(2**70, -4), 4)
    assert not cl.is_surjective(Layout((2**40, 4), (-1, 1)), 5)
    assert cl.is_surjective(Layout((2**40, 4), (-1, 1)), 4)
