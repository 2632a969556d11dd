"""unordered(accesses, fences, graph) = which two statements do what nothing orders.

Two accesses conflict if they touch one granule of one memory and one of them writes; two atomic
ones do not. What a thread did for itself is in its own order. What threads wrote, and an engine
then reads or writes, takes a fence as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from attack.proof.graph import Graph
from attack.proof.warps import Access, Fence


def unordered(
    accesses: Sequence[Access], fences: Sequence[Fence], graph: Graph
) -> Iterator[str]:
    """Says which accesses are not ordered on every schedule."""
    for a, b, cells in _conflicts(accesses):
        if _before(a, b, cells, graph):
            first, second = a, b
        elif _before(b, a, cells, graph):
            first, second = b, a
        else:
            yield f"nothing orders {a.what} and {b.what} of {a.space[0]} {a.space[1]}"
            continue
        hidden = first.proxy == "generic" and first.writes and second.proxy == "async"
        if hidden and not _fenced(first, second, fences, graph):
            yield f"no fence shows {second.what} what {first.what} wrote"


def _conflicts(accesses: Sequence[Access]) -> Iterator[tuple[Access, Access, set[int]]]:
    """All pairs, with the granules that both touch."""
    spaces: dict[object, list[Access]] = {}
    for access in accesses:
        spaces.setdefault(access.space, []).append(access)
    for alike in spaces.values():
        if not any(access.writes for access in alike):
            continue
        pairs: dict[tuple[int, int], set[int]] = {}
        groups: dict[tuple[int, ...], list[int]] = {}
        for cell, who in _by_cell(alike):
            groups.setdefault(who, []).append(cell)
        for who, cells in groups.items():
            for i, first in enumerate(who):
                for second in who[i + 1 :]:
                    a, b = alike[first], alike[second]
                    if (a.writes or b.writes) and not (a.atomic and b.atomic):
                        pairs.setdefault((first, second), set()).update(cells)
        for (first, second), both in pairs.items():
            yield alike[first], alike[second], both


def _by_cell(accesses: Sequence[Access]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Each granule, with the numbers of the accesses to it."""
    cells = [np.unique(access.cells) for access in accesses]
    flat = np.concatenate(cells)
    who = np.repeat(np.arange(len(cells)), [len(part) for part in cells])
    order = np.lexsort((who, flat))
    flat, who = flat[order], who[order]
    starts = np.flatnonzero(np.r_[True, flat[1:] != flat[:-1]])
    for start, stop in zip(starts, [*starts[1:], len(flat)], strict=True):
        if stop - start > 1:
            yield int(flat[start]), tuple(who[start:stop].tolist())


def _before(a: Access, b: Access, cells: set[int], graph: Graph) -> bool:
    """Whether `a` is over, and seen where it writes, before `b` begins."""
    if a.end is None or a.last is None:
        return False
    # Of what an engine did another that only writes has nothing to see, nor has anybody of a read.
    over = a.proxy == "async" and (not a.writes or (b.proxy == "async" and b.writes))
    path = graph.after if over else graph.sees
    if all(path(start, a.end) for start in b.starts):
        return True
    same = a.strand is b.strand and a.last <= b.first
    return same and all(_alone(a, cell) == _alone(b, cell) != -1 for cell in cells)


def _alone(a: Access, cell: int) -> int:
    """The only lane that touches a granule, else -1."""
    lanes = np.unique(a.lanes[a.cells == cell])
    return int(lanes[0]) if len(lanes) == 1 else -1


def _fenced(wrote: Access, engine: Access, fences: Sequence[Fence], graph: Graph) -> bool:
    """Whether a fence lies between: the writer's own, or, of what another block wrote, one by
    whoever saw it."""
    for fence in fences:
        if fence.kind != wrote.space[0]:
            continue
        own = fence.strand is wrote.strand and fence.at > wrote.first
        block = engine.space[1] if engine.space[0] == "shared" else None
        foreign = block is not None and wrote.strand.name[0] != block
        if not own and not (foreign and graph.sees(fence.node, wrote.starts[0])):
            continue
        self = fence.strand is engine.strand and len(fence.strand.lanes) == 1
        if (self and fence.at < engine.first) or all(
            graph.sees(start, fence.node) for start in engine.starts
        ):
            return True
    return False
