"""Thread-value layouts: coordinates, inverse, parts, copies."""

from __future__ import annotations

import pytest

import cute_layout as cl
from cute_layout import E, Layout, TVLayout

F = TVLayout(Layout(((2, 4), (2, 2)), ((8, 1), (4, 16))), (4, 8))
LDMATRIX = TVLayout(Layout(((4, 8), (2, 4)), ((64, 1), (32, 8))), (32, 8))


def test_values_are_coordinates_of_the_tile() -> None:
    assert F(2, 3) == (1, 5) and F.threads == 8 and F.values == 4 and F.covers()
    assert all(F(t, v) == F.coordinates(t, v) for t in range(8) for v in range(4))
    assert TVLayout(F.coordinates, (4, 8)) == F
    assert TVLayout(Layout((2, 4), (8, 1)), Layout((2, 2), (4, 16)), (4, 8)) == F
    assert TVLayout.parse(str(F.index), (4, 8)) == F


def test_the_inverse_of_ldmatrix_is_the_papers() -> None:
    assert str(LDMATRIX.invert()) == "((8,4),(2,4)):((4,64),(32,1))"
    back = LDMATRIX.invert()
    for t in range(32):
        for v in range(8):
            assert back(*LDMATRIX(t, v)) == t + 32 * v


def test_the_inverse_of_a_replicated_layout_gives_one_holder() -> None:
    twice = TVLayout(Layout((4, 2)), (8,)).replicate(threads=2)
    assert twice.threads == 8 and twice(1, 1) == twice(5, 1) == (5,)
    back = twice.invert()
    for i in range(8):
        place = back(i)
        assert twice(place % 8, place // 8) == (i,)
    with pytest.raises(cl.DomainError, match="whole tile"):
        TVLayout(Layout((2, 2)), (8,)).invert()


def test_parts() -> None:
    half = F.restrict(threads=4, values=Layout(2, 2))
    assert [half(t, v) for t in range(4) for v in range(2)] == [
        F(t, 2 * v) for t in range(4) for v in range(2)
    ]
    rows = F.project(0)
    assert all(rows(t, v) == (F(t, v)[0],) for t in range(8) for v in range(4))
    swapped = F.project(1, 0)
    assert all(swapped(t, v) == F(t, v)[::-1] for t in range(8) for v in range(4))
    with pytest.raises(cl.DomainError, match="dimensions"):
        F.project(2)


def test_repeat_tiles_a_larger_tile_by_threads_then_values() -> None:
    big = F.repeat(threads=(2, 1), values=(1, 3))
    assert big.tile == (8, 24) and big.threads == 16 and big.values == 12 and big.covers()
    for t in range(16):
        for v in range(12):
            row, col = F(t % 8, v % 4)
            assert big(t, v) == (row + 4 * (t // 8), col + 8 * (v // 4))


def test_repeat_along_one_dimension_goes_to_threads_first() -> None:
    atom = TVLayout(Layout((4, 2)), (4, 2))
    both = atom.repeat(threads=(2, 1), values=(3, 1))
    assert both.tile == (24, 2) and both.covers()
    assert [both(4, 0), both(0, 2), both(0, 4)] == [(4, 0), (8, 0), (16, 0)]
    assert TVLayout(Layout((4, 2)), 8).repeat(threads=2)(7, 0) == 11
    with pytest.raises(cl.CongruenceError, match="one entry for each"):
        atom.repeat(threads=(2, 1, 1))


def test_refusals() -> None:
    with pytest.raises(cl.CongruenceError, match="two modes"):
        TVLayout(Layout(32), (32,))
    with pytest.raises(cl.CongruenceError, match="thread, value, tile"):
        TVLayout(Layout((4, 2)))
    with pytest.raises(cl.DomainError, match="outside the tile"):
        TVLayout(Layout((4, 4), (1, 8)), (4, 4))
    with pytest.raises(cl.DomainError, match="along coordinate"):
        TVLayout(Layout((4, 2), (E(0), E(0))), (4, 4))
    with pytest.raises(AttributeError, match="immutable"):
        F.tile = (1,)
