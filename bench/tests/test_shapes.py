"""Shapes as text, and the filters over them."""

from __future__ import annotations

import pytest

from hexcute_bench.errors import BenchError
from hexcute_bench.shape import Shape, select

SHAPES = [Shape.of(m=m, n=n) for m in (32, 2048) for n in (4096, 8192)]


def test_a_shape_is_read_back_from_its_text() -> None:
    for shape in SHAPES:
        assert Shape.parse(str(shape)) == shape
    for text in ("", "m", "m=32,n=4", "m=32  n=4"):
        with pytest.raises(BenchError, match="not a shape"):
            Shape.parse(text)


def test_terms_of_a_filter_all_hold_and_any_filter_is_enough() -> None:
    assert select(SHAPES, []) == tuple(SHAPES)
    assert [str(s) for s in select(SHAPES, ["m>=2048"])] == ["m=2048 n=4096", "m=2048 n=8192"]
    assert [str(s) for s in select(SHAPES, ["m<64,n=8192"])] == ["m=32 n=8192"]
    assert len(select(SHAPES, ["m<64,n=8192", "m>64,n!=8192"])) == 2


def test_a_filter_that_cannot_be_read_says_how_to_write_one() -> None:
    with pytest.raises(BenchError, match="write terms like 'm>=2048'"):
        select(SHAPES, ["m is big"])
    with pytest.raises(BenchError, match="no size 'k'; it has m, n"):
        select(SHAPES, ["k>2"])
