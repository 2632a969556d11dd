"""Swizzles and composed layouts: values, text, algebra, inverses."""

from __future__ import annotations

import pickle

import layout_reference as ref
import pytest

import cute_layout as cl
from cute_layout import ComposedLayout, Layout, Swizzle, composition

TILE = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1)))


def test_definition() -> None:
    s = Swizzle(3, 4, 3)
    for x in range(4096):
        assert s(x) == x ^ ((x >> 3) & 0b1110000)
        assert s(s(x)) == x
    back = Swizzle(2, 0, -3)
    assert all(back(x) == x ^ ((x << 3) & 0b11000) for x in range(1024))
    assert Swizzle(0, 4, 3)(77) == 77 and Swizzle(0, 4, 3).period == 1


def test_text_and_values() -> None:
    assert str(Swizzle(3, 4, -3)) == "Sw<3,4,-3>" and Swizzle.parse("Sw<3,4,-3>").shift == -3
    assert cl.parse(str(TILE)) == TILE and hash(cl.parse(str(TILE))) == hash(TILE)
    assert pickle.loads(pickle.dumps(TILE)) == TILE
    assert str(TILE) == "Sw<3,3,3> o 0 o (8,64):(64,1)"
    for bad in ["Sw<1,2>", "Sw<1,2,3> o x o 4:1", "Sw<1,2,3> o 4:1", "Sw<1,2,3> o 0 o Sw<1,2,3>"]:
        with pytest.raises(cl.ParseError, match="cannot read"):
            cl.parse(bad)


def test_refusals() -> None:
    with pytest.raises(cl.DomainError, match=r"\|shift\| >= bits"):
        Swizzle(3, 0, 2)
    with pytest.raises(cl.DomainError, match="bits >= 0"):
        Swizzle(-1, 0, 2)
    with pytest.raises(cl.DivisibilityError, match="power-of-two"):
        Swizzle(1, 2, 3).recast(8, 24)
    with pytest.raises(AttributeError, match="immutable"):
        Swizzle(1, 2, 3).bits = 2
    with pytest.raises(AttributeError, match="immutable"):
        TILE.offset = 3
    with pytest.raises(cl.CongruenceError, match="takes offsets"):
        ComposedLayout(Swizzle(1, 0, 1), 0, cl.identity((2, 2)))
    with pytest.raises(cl.CongruenceError, match="takes a Swizzle"):
        ComposedLayout(3, 0, Layout(2))


def test_evaluation_and_slices_carry_the_offset() -> None:
    row = TILE(5, None)
    assert isinstance(row, ComposedLayout) and row.offset == 5 * 64
    assert [row(c) for c in range(64)] == [TILE(5, c) for c in range(64)]
    assert [TILE[1](c) for c in range(64)] == [TILE(0, c) for c in range(64)]
    assert TILE.shape == (8, 64) and len(TILE) == 2 and TILE.size == 512 and TILE.cosize == 512


def test_composition_on_both_sides() -> None:
    tiles = composition(TILE, (None, Layout((8, 8), (1, 8))))
    for r in range(8):
        assert [tiles(r, (c % 8, c // 8)) for c in range(64)] == [TILE(r, c) for c in range(64)]
    outer = composition(Layout((512, 2), (2, 1)), TILE)
    assert [outer(i) for i in range(512)] == [2 * TILE(i) for i in range(512)]
    assert cl.parse(str(outer)) == outer
    assert [outer(3, None)(c) for c in range(64)] == [outer(3, c) for c in range(64)]
    assert composition(Layout(512), TILE) is TILE
    assert composition(Swizzle(0, 3, 3), TILE) is TILE
    twice = composition(Swizzle(3, 3, 3), TILE)
    assert [twice(i) for i in range(512)] == ref.table(Layout((8, 64), (64, 1)))
    assert composition(Swizzle(3, 3, 3), Layout((8, 64), (64, 1))) == TILE
    with pytest.raises(cl.DomainError, match="leaves the domain"):
        composition(Layout(100), ComposedLayout(Swizzle(3, 3, 4), 0, Layout(64, 2)), strict=True)
    with pytest.raises(cl.DomainError, match="no domain"):
        composition(Layout(8), Swizzle(1, 0, 1))
    with pytest.raises(cl.CongruenceError, match="no modes"):
        composition(Swizzle(1, 0, 1), (2, 2))


def test_divides_keep_the_swizzle() -> None:
    tiled = cl.zipped_divide(TILE, (8, 16))
    for c in range(64):
        assert tiled((3, c % 16), (0, c // 16)) == TILE(3, c)
    assert cl.tiled_divide(TILE, (8, 16)).shape == ((8, 16), 1, 4)
    assert cl.flat_divide(TILE, (8, 16)).shape == (8, 16, 1, 4)


def test_tile_to_shape_covers_a_larger_tile() -> None:
    big = cl.tile_to_shape(TILE, (16, 128), (1, 0))
    assert sorted(cl.offsets(big)) == list(range(2048))
    assert [big(r, c) for r in range(8) for c in range(64)] == [
        TILE(r, c) for r in range(8) for c in range(64)
    ]
    assert big((0, 0), (0, 1)) == 512 and big((0, 1), (0, 0)) == 1024
    assert cl.tile_to_shape(Layout((3, 4)), (7, 8)).size == 9 * 8
    with pytest.raises(cl.DomainError, match="permutation"):
        cl.tile_to_shape(TILE, (16, 128), (0, 0))


def test_inverses() -> None:
    back = cl.inverse(TILE)
    assert [back(TILE(i)) for i in range(512)] == list(range(512))
    assert isinstance(back.swizzle, Swizzle)
    assert cl.right_inverse(TILE) == cl.left_inverse(TILE) == back
    odd = ComposedLayout(Swizzle(2, 1, 3), 0, Layout((3, 64), (64, 1)))
    general = cl.inverse(odd)
    assert [general(odd(i)) for i in range(192)] == list(range(192))
    assert cl.parse(str(general)) == general
    with pytest.raises(cl.DomainError, match="no bijection"):
        cl.inverse(ComposedLayout(Swizzle(1, 0, 3), 0, Layout(9)))
    with pytest.raises(cl.UnsupportedError, match="only a swizzle"):
        cl.inverse(ComposedLayout(Layout(4), 0, Layout(4)))
