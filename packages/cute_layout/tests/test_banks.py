"""Bank conflicts counted as the hardware serves them, and the swizzle that removes them."""

from __future__ import annotations

import pytest

import cute_layout as cl
from cute_layout import ComposedLayout, Layout, Swizzle, TVLayout, bank_conflicts, choose_swizzle

FLAT = Layout(1 << 14)


@pytest.mark.parametrize(
    "access, bits, vector, wavefronts, ideal",
    [
        (Layout(32), 32, None, 1, 1),
        (Layout(32, 2), 32, None, 2, 1),
        (Layout(32, 32), 32, None, 32, 1),
        (Layout(32, 33), 32, None, 1, 1),
        (Layout(32, 0), 32, None, 1, 1),
        (Layout(32), 16, None, 1, 1),
        (Layout(32), 8, None, 1, 1),
        (Layout((32, 2), (2, 1)), 32, None, 2, 2),
        (Layout((32, 4), (4, 1)), 32, None, 4, 4),
        (Layout((32, 8), (64, 1)), 16, None, 32, 4),
        (Layout((32, 8), (72, 1)), 16, None, 4, 4),
        (Layout(8, 64), 16, 128, 8, 1),
        (Layout(32, 8), 16, 128, 4, 4),
        (Layout((64, 4), (4, 1)), 32, None, 8, 8),
        (Layout((32, 8), (8, 1)), 4, None, 1, 1),
    ],
)
def test_wavefronts(
    access: Layout, bits: int, vector: int | None, wavefronts: int, ideal: int
) -> None:
    got = bank_conflicts(FLAT, access, bits, vector)
    assert (got.wavefronts, got.ideal) == (wavefronts, ideal)
    assert got.extra == wavefronts - ideal and got.is_free == (wavefronts == ideal)
    assert got.ways == wavefronts / ideal


def test_values_that_are_not_contiguous_are_single_accesses() -> None:
    got = bank_conflicts(FLAT, Layout((32, 4), (1, 32)), 32)
    assert (got.wavefronts, got.instructions, got.vector_bits) == (4, 4, 32)
    with pytest.raises(cl.DomainError, match="contiguous"):
        bank_conflicts(FLAT, Layout((32, 4), (1, 32)), 32, 128)
    with pytest.raises(cl.DomainError, match="alignment"):
        bank_conflicts(FLAT, Layout(8, 3), 16, 128)


def test_a_list_of_row_coordinates_is_an_ldmatrix() -> None:
    tile = Layout((64, 64), (64, 1))
    rows = [(r, 0) for r in range(8)]
    assert bank_conflicts(tile, rows, 16, 128).wavefronts == 8
    swizzled = ComposedLayout(Swizzle(3, 3, 3), 0, tile)
    assert bank_conflicts(swizzled, rows, 16, 128).wavefronts == 1
    with pytest.raises(cl.DomainError, match="alignment"):
        bank_conflicts(ComposedLayout(Swizzle(3, 2, 3), 0, tile), rows, 16, 128)


def test_padding_and_swizzling_both_help_columns() -> None:
    columns = Layout((32, 1), (1, 0))
    assert bank_conflicts(Layout((32, 32), (32, 1)), columns, 32).wavefronts == 32
    assert bank_conflicts(Layout((32, 32), (33, 1)), columns, 32).wavefronts == 1


def test_the_chosen_swizzle_is_the_128_byte_one_for_rows_of_64_halves() -> None:
    tile = Layout((64, 64), (64, 1))
    rows = TVLayout(Layout(((8, 4), 8), ((1, 8), 64)), (64, 64))
    write = Layout(((8, 4), 8), ((512, 1), 64))
    swizzle = choose_swizzle(tile, [rows, (write, 2)], 16)
    assert swizzle == Swizzle(3, 3, 3)
    assert bank_conflicts(ComposedLayout(swizzle, 0, tile), rows, 16).is_free
    assert bank_conflicts(ComposedLayout(swizzle, 0, tile), write, 16).is_free


def test_no_swizzle_is_chosen_where_none_is_needed() -> None:
    assert choose_swizzle(Layout((64, 64)), Layout((32, 2), (2, 1)), 16).bits == 0


def test_a_swizzle_never_tears_an_access_or_leaves_the_buffer() -> None:
    tile = Layout((8, 24), (24, 1))
    rows = Layout((8, 8), (1, 8))
    swizzle = choose_swizzle(tile, rows, 16)
    values = [swizzle(v) for v in cl.offsets(tile)]
    assert sorted(values) == list(range(192)) and swizzle.base >= 3


def test_candidates_restrict_the_choice() -> None:
    tile = Layout((64, 64), (64, 1))
    rows = Layout((8, 8), (1, 64))
    allowed = [Swizzle(0, 3, 3), Swizzle(1, 3, 3), Swizzle(2, 3, 3)]
    assert choose_swizzle(tile, rows, 16, allowed) == Swizzle(2, 3, 3)
    with pytest.raises(cl.DomainError, match="keeps"):
        choose_swizzle(tile, rows, 16, [Swizzle(3, 0, 3)])
