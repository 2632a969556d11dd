"""Linear layouts: bases both ways, Triton's printed form, the swizzle found again."""

from __future__ import annotations

import pickle

import pytest

import cute_layout as cl
from cute_layout import (
    ComposedLayout,
    E,
    Layout,
    LinearLayout,
    Swizzle,
    from_linear_layout,
    to_linear_layout,
)

MMA_C = Layout(((4, 8), (2, 2)), ((2 * E(1), E(0)), (E(1), 8 * E(0))))


def test_the_mma_accumulator() -> None:
    f2 = to_linear_layout(MMA_C, ("lane", "register"), {"dim0": 16, "dim1": 8})
    assert dict(f2.bases) == {
        "lane": ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0)),
        "register": ((0, 1), (8, 0)),
    }
    assert str(f2).splitlines()[-1] == "where out dims are: [dim0 (size 16), dim1 (size 8)]"
    assert from_linear_layout(f2) == MMA_C
    assert LinearLayout.parse(str(f2)) == f2
    assert str(f2).splitlines()[:2] == [" - lane=1 -> (0, 2)", "   lane=2 -> (0, 4)"]
    for t in range(32):
        for v in range(4):
            row, col = MMA_C(t, v)
            assert f2(lane=t, register=v) == {"dim0": row, "dim1": col}
    assert pickle.loads(pickle.dumps(f2)) == f2 and len({f2, f2}) == 1


def test_a_swizzle_is_linear_and_found_again() -> None:
    tile = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1)))
    f2 = to_linear_layout(tile, ("row", "column"))
    assert all(f2(row=r, column=c) == {"offset": tile(r, c)} for r in range(8) for c in range(64))
    assert cl.equivalent(from_linear_layout(f2), tile)


def test_a_dimension_without_bits_is_size_one() -> None:
    f2 = to_linear_layout(Layout((1, 4)), ("block", "lane"))
    assert " - block is a size 1 dimension" in str(f2)
    assert LinearLayout.parse(str(f2)) == f2
    assert cl.equivalent(from_linear_layout(f2), Layout((1, 4)))


def test_refusals() -> None:
    with pytest.raises(cl.DivisibilityError, match="no power of two"):
        to_linear_layout(Layout((3, 4)))
    with pytest.raises(cl.DivisibilityError, match="carries"):
        to_linear_layout(Layout((4, 4), (1, 2)))
    with pytest.raises(cl.DivisibilityError, match="carries"):
        to_linear_layout(Layout(4, -1))
    with pytest.raises(cl.UnsupportedError, match="offset 0"):
        to_linear_layout(ComposedLayout(Swizzle(1, 0, 1), 1, Layout(4)))
    with pytest.raises(cl.UnsupportedError, match="nested"):
        to_linear_layout(Layout((2, 2), (E(0, 0), E(0, 1))))
    with pytest.raises(cl.CongruenceError, match="3 names"):
        to_linear_layout(Layout((2, 2)), ("a", "b", "c"))
    with pytest.raises(cl.UnsupportedError, match="no layout"):
        from_linear_layout(LinearLayout({"x": [(1, 1), (1, 0)]}, {"a": 2, "b": 2}))
    with pytest.raises(cl.DomainError, match="outside"):
        LinearLayout({"x": [(2,)]}, {"a": 2})
    with pytest.raises(cl.DomainError, match="power of two"):
        LinearLayout({"x": [(2,)]}, {"a": 3})
    for bad in ["lane 1", "- lane=2 -> (1)"]:
        with pytest.raises(cl.ParseError):
            LinearLayout.parse(bad)
    with pytest.raises(cl.CongruenceError, match="1 outputs"):
        LinearLayout({"x": [(1, 1)]}, {"a": 2})
    with pytest.raises(cl.DomainError, match="outside"):
        LinearLayout({"x": [(1,)]}, {"a": 2})(x=2)
