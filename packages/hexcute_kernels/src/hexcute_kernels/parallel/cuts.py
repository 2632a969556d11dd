"""Where a dimension is cut for several ranks: into equal parts of whole blocks, or into parts that
differ by one.

    even       rank r of R has r n / R to (r + 1) n / R, a whole number of blocks each
    uneven     the first n mod R ranks have one more than the others
    heads      heads of queries evenly, and the heads of keys that they look at
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hexcute_core.errors import LaunchError

Range = tuple[int, int]
"""From the first index to the one behind the last."""
MOST = 64
"""Up to so many ranks an error says which number of them would do."""


def check_rank(rank: int, ranks: int) -> None:
    """That there is such a rank. Raises LaunchError."""
    if not 0 <= rank < ranks:
        raise LaunchError(f"of {ranks} ranks there is no rank {rank}: they count from 0")


def even(what: str, extent: int, rank: int, ranks: int, block: int = 1) -> Range:
    """The part of a rank where `extent` is cut into `ranks` equal parts of whole blocks.

    what: how the dimension is called in an error. Raises LaunchError where a cut falls within a
    block, with the extents and the numbers of ranks that would do.
    """
    check_rank(rank, ranks)
    if ranks == 1:
        return 0, extent
    step = ranks * block
    if extent % step:
        blocks = "" if block == 1 else f" of whole blocks of {block}"
        sizes = [str(n * step) for n in (extent // step, -(-extent // step)) if n]
        # A number of ranks divides a dimension's blocks, if these are whole themselves.
        whole = extent // block if extent % block == 0 else 1
        counts = [str(n) for n in range(1, min(whole, MOST) + 1) if whole % n == 0]
        raise LaunchError(
            f"{what} = {extent} cannot be cut into {ranks} equal parts{blocks}",
            fix=f"for {ranks} ranks {what} would have to be {' or '.join(sizes)}; {extent} can be "
            f"cut for {', '.join(counts)} (of up to {MOST} ranks)",
        )
    part = extent // ranks
    return rank * part, (rank + 1) * part


def merged(
    what: str, parts: Sequence[int], rank: int, ranks: int, block: int = 1
) -> tuple[Range, ...]:
    """The same of several matrices that lie one behind the other in one, as gate and up, or q, k
    and v: a range of each. Raises LaunchError."""
    found, start = [], 0
    for place, extent in enumerate(parts):
        name = what if len(parts) == 1 else f"part {place} of {what}"
        first, last = even(name, extent, rank, ranks, block)
        found.append((start + first, start + last))
        start += extent
    return tuple(found)


def uneven(what: str, extent: int, rank: int, ranks: int, empty: bool = False) -> Range:
    """The part of a rank where parts may differ by one, the first ones are the larger.

    empty: whether a rank may have nothing. Raises LaunchError where one would and may not.
    """
    check_rank(rank, ranks)
    if extent < ranks and not empty:
        raise LaunchError(
            f"{extent} {what} leave {ranks - extent} of {ranks} ranks without one",
            fix=f"use at most {extent} ranks, or pass empty=True",
        )
    each, more = divmod(extent, ranks)
    start = rank * each + min(rank, more)
    return start, start + each + (rank < more)


@dataclass(frozen=True)
class Heads:
    """The heads of a rank: of queries, and of keys and values."""

    query: Range
    key: Range


def heads(count: int, kv_heads: int, rank: int, ranks: int) -> Heads:
    """Which heads a rank has of `count` of queries and `kv_heads` of keys.

    Where there are fewer heads of keys than ranks, ranks that follow each other share one, so each
    of them keeps its keys. Raises LaunchError where heads cannot be cut so.
    """
    if kv_heads < 1 or count % kv_heads:
        raise LaunchError(
            f"heads of queries are a multiple of those of keys, got {count} and {kv_heads}"
        )
    query = even("heads of queries", count, rank, ranks)
    if kv_heads % ranks == 0:
        return Heads(query, even("heads of keys", kv_heads, rank, ranks))
    if ranks % kv_heads:
        fitting = [
            str(n)
            for n in range(1, count + 1)
            if count % n == 0 and (kv_heads % n == 0 or n % kv_heads == 0)
        ]
        raise LaunchError(
            f"{kv_heads} heads of keys cannot be cut for {ranks} ranks, nor shared by them evenly",
            fix=f"use one of these numbers of ranks: {', '.join(fitting)}",
        )
    shared = rank * kv_heads // ranks
    return Heads(query, (shared, shared + 1))
