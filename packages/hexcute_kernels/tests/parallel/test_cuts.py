"""Where dimensions, experts and heads are cut for ranks, and which cuts are refused with what."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hexcute_core.errors import LaunchError
from hexcute_kernels.parallel.cuts import even, heads, merged, uneven


@pytest.mark.parametrize("ranks", range(1, 9))
@pytest.mark.parametrize("extent", [1, 2, 7, 8, 61, 256])
def test_uneven_parts_are_all_of_it_in_order_and_differ_by_one(extent: int, ranks: int) -> None:
    parts = [uneven("experts", extent, rank, ranks, empty=True) for rank in range(ranks)]
    assert [0, *(last for _, last in parts)] == [*(first for first, _ in parts), extent]
    lengths = [last - first for first, last in parts]
    assert max(lengths) - min(lengths) <= 1 and lengths == sorted(lengths, reverse=True)


def test_even_parts_are_whole_blocks() -> None:
    assert [even("n", 768, rank, 3, 128) for rank in range(3)] == [
        (0, 256), (256, 512), (512, 768)
    ]  # fmt: skip
    # One rank has all, a short last block too.
    assert even("n", 300, 0, 1, 128) == (0, 300)


def test_a_matrix_of_several_is_cut_in_each() -> None:
    assert merged("n", (256, 512), 1, 2, 128) == ((128, 256), (512, 768))
    # One rank has all of each, wherever they begin.
    assert merged("n", (100, 200), 0, 1, 64) == ((0, 100), (100, 300))


@pytest.mark.parametrize(
    ("cut", "told", "fix"),
    [
        (
            lambda: even("n", 320, 0, 2, 128),
            "n = 320 cannot be cut into 2 equal parts of whole blocks of 128",
            "for 2 ranks n would have to be 256 or 512; 320 can be cut for 1 (of up to 64 ranks)",
        ),
        (
            lambda: even("k", 768, 3, 4, 128),
            "k = 768 cannot be cut into 4 equal parts of whole blocks of 128",
            "would have to be 512 or 1024; 768 can be cut for 1, 2, 3, 6 (of up to 64 ranks)",
        ),
        (lambda: even("n", 7, 0, 2), "n = 7 cannot be cut into 2 equal parts", "6 or 8"),
        (lambda: even("n", 8, 2, 2), "of 2 ranks there is no rank 2", None),
        (lambda: merged("n", (64, 192), 0, 2, 64), "part 0 of n = 64 cannot", "be 128; 64 can"),
        (lambda: uneven("experts", 3, 0, 5), "3 experts leave 2 of 5 ranks",
         "use at most 3 ranks, or pass empty=True"),
        (lambda: heads(12, 3, 0, 2), "3 heads of keys cannot be cut for 2",
         "use one of these numbers of ranks: 1, 3, 6, 12"),
        (lambda: heads(12, 5, 0, 2), "heads of queries are a multiple", None),
        (lambda: heads(4, 4, 0, 8), "heads of queries = 4 cannot be cut into 8", "1, 2, 4"),
    ],
)  # fmt: skip
def test_cuts_that_cannot_be_are_refused_with_what_would_do(
    cut: Callable[[], object], told: str, fix: str | None
) -> None:
    with pytest.raises(LaunchError) as caught:
        cut()
    assert told in caught.value.message
    assert fix is None or fix in (caught.value.fix or "")


@pytest.mark.parametrize(("count", "kv", "ranks"), [(8, 8, 4), (8, 2, 4), (64, 8, 8), (16, 1, 8)])
def test_each_ranks_heads_of_queries_look_at_its_heads_of_keys(
    count: int, kv: int, ranks: int
) -> None:
    group, seen = count // kv, []
    for rank in range(ranks):
        own = heads(count, kv, rank, ranks)
        seen += list(range(*own.query))
        assert {head // group for head in range(*own.query)} == set(range(*own.key))
    assert seen == list(range(count))
