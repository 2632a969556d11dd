"""Symbolic extents: exact where the answer does not depend on the value, refused elsewhere."""

from __future__ import annotations

import layout_reference as ref
import pytest

import cute_layout as cl
from cute_layout import Layout, Symbol

N = Symbol("N", multiple_of=64)
M = Symbol("M")


def put(tree: object, values: dict[str, int]) -> object:
    """The tree with numbers for the symbols."""
    if isinstance(tree, tuple):
        return tuple(put(child, values) for child in tree)
    if isinstance(tree, int):
        return tree
    total = 0
    for names, coefficient in tree.terms.items():
        for name in names:
            coefficient = coefficient * values[name]
        total += coefficient
    assert total == int(total)
    return int(total)


def numeric(layout: Layout, values: dict[str, int]) -> Layout:
    return Layout(put(layout.shape, values), put(layout.stride, values))


@pytest.mark.parametrize(
    "a, b",
    [
        (Layout((4096, 8192), (1, 4096)), Layout(M)),
        (Layout((N, M), (M, 1)), Layout((32, 2), (1, 32))),
        (Layout((32, M), (M, 1)), Layout((8, 2), (1, 16))),
        (Layout((8, 64), (64, 1)), Layout((8, M), (1, 8))),
        (Layout((16, M), (M * 3, 1)), Layout((4, 4, 2), (4, 1, 16))),
    ],
)
def test_compositions_agree_with_numbers(a: Layout, b: Layout) -> None:
    result = cl.composition(a, b)
    for values in ({"N": 64, "M": 5}, {"N": 192, "M": 7}):
        left, right, got = (numeric(x, values) for x in (a, b, result))
        wanted = [ref.value(left.shape, left.stride, v) for v in ref.table(right)]
        assert ref.table(got) == wanted


def test_the_named_example() -> None:
    assert str(cl.composition(Layout((4096, 8192), (1, 4096)), Layout(Symbol("N")))) == "N:1"


def test_divide_by_a_tile_that_divides() -> None:
    tiled = cl.zipped_divide(Layout((N, 32), (32, 1)), (64, 8))
    assert str(tiled) == "((64,8),(N/64,4)):((32,1),(2048,8))"
    with pytest.raises(cl.UnsupportedError, match="multiple_of"):
        cl.zipped_divide(Layout((M, 32), (32, 1)), (64, 8))


def test_what_depends_on_the_value_is_refused() -> None:
    with pytest.raises(cl.UnsupportedError, match="depends on"):
        cl.composition(Layout((4096, 8192), (1, 5000)), Layout(M))
    with pytest.raises(cl.UnsupportedError, match="no table"):
        cl.offsets(Layout(M))
    with pytest.raises(cl.UnsupportedError, match="symbols"):
        cl.equivalent(Layout((M, 2), (1, 5)), Layout((M, 2), (1, M)))
    with pytest.raises(cl.UnsupportedError, match="symbols"):
        cl.is_injective(Layout(M))
    with pytest.raises(cl.UnsupportedError, match="picture"):
        cl.draw(Layout((M, 2)))
    with pytest.raises(cl.DomainError, match="identifier"):
        Symbol("4x")


def test_layout_basics() -> None:
    a = Layout((M, 4), (4, 1))
    assert a.size == 4 * M and a(3, 2) == 14 and a.cosize == 4 * M
    assert Layout((M, 4)).stride == (1, M) and cl.coalesce(Layout((M, 4))) == Layout(4 * M)
    assert cl.right_inverse(Layout((M, 4))) == Layout(4 * M)
    assert hash(a) == hash(Layout((M, 4), (4, 1)))


def test_arithmetic() -> None:
    assert 2 * N + M - N == N + M and N - N == 0 and (N + 0) == N and bool(N)
    assert N // 64 * 64 == N and N % 32 == 0 and divmod(N, 16) == (N // 16, 0)
    assert (N * M) // M == N and (N + M) // (N + M) == 1 and 5 % N == 5 and 0 // M == 0
    assert str(N * M - 3) == "M*N-3" and str(N // 64) == "N/64" and str(2 * N) == "2*N"
    assert N > 63 and N >= 64 and M >= 1 and not M < 1 and N + 1 > N
    for question in (
        lambda: M > 5,
        lambda: M > 1,
        lambda: M % 3,
        lambda: 7 // M,
        lambda: 7 % M,
        lambda: M <= N,
    ):
        with pytest.raises(cl.UnsupportedError):
            question()
