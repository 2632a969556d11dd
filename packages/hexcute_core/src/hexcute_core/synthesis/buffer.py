"""One shared tensor: the instructions of its copies and its layout, least clocks together.

Candidates are tried in order of a lower bound (no bank conflicts) until the next bound is no
better than the best found: branch and bound, exact unless the budget is hit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

from hexcute_core.synthesis.graph import WeightedOp
from hexcute_core.synthesis.operands import Plan
from hexcute_core.synthesis.options import Options
from hexcute_core.synthesis.shared import SharedUse, synthesize_shared
from hexcute_core.synthesis.solution import Rejected, SharedLayout
from hexcute_core.tile import SharedTensor, TileRef

# Combinations a buffer may cost: every pair of a dozen candidates, with room for a third copy.
BUDGET = 1024
WARP = 32


class Use(NamedTuple):
    """An operation's use of a buffer: what it may do there, and with which tile."""

    item: WeightedOp
    options: Options
    ref: TileRef


@dataclass(frozen=True)
class BufferChoice:
    """The best of one buffer: plans in the order of its uses, clocks above the sum of the uses'
    least bounds, and whether the search was exhaustive. `layout` is None where nothing fits."""

    plans: tuple[Plan, ...]
    bounds: tuple[float, ...]
    layout: SharedLayout | None
    cost: float
    rejected: tuple[Rejected, ...]
    exact: bool


def search_buffer(tensor: SharedTensor, uses: Sequence[Use]) -> BufferChoice:
    """Instructions and layout of `tensor` for all its uses together."""
    # Copies with the same candidates (a prologue's and the loop's) choose together.
    groups: dict[int, list[int]] = {}
    for i, (_, options, _) in enumerate(uses):
        groups.setdefault(id(options), []).append(i)
    members = list(groups.values())
    ladders = []
    for group in members:
        weight = sum(uses[i][0].weight for i in group)
        ladders.append([weight * o.bound for o in uses[group[0]][1].choices])
    best: tuple[float, tuple[int, ...], SharedLayout] | None = None
    rejected: list[Rejected] = []
    exact = True
    for tried, (bound, picks) in enumerate(by_bound(ladders)):
        if best is not None and bound >= best[0]:
            break
        if tried == BUDGET:
            exact = False
            break
        found = []
        for pick, group in zip(picks, members):
            for i in group:
                item, options, ref = uses[i]
                weight = item.weight * item.team.threads / WARP
                found.append(SharedUse(item.op.id, ref, options.choices[pick].plan, weight))
        layout = synthesize_shared(tensor, found)
        names = ", ".join(dict.fromkeys(u.plan.name for u in found))
        if isinstance(layout, str):
            rejected.append(Rejected(tensor.name, names, layout, tensor.span))
            continue
        cost = bound + sum(
            u.weight * (waves - least) for u in found for waves, least in [layout.wavefronts[u.op]]
        )
        if best is None or cost < best[0]:
            if best is not None:
                lost = ", ".join(dict.fromkeys(_names(uses, members, best[1])))
                rejected.append(_slower(tensor, lost, best[0], cost))
            best = (cost, picks, layout)
        else:
            rejected.append(_slower(tensor, names, cost, best[0]))
    if best is None:
        return BufferChoice((), (), None, float("inf"), tuple(rejected), exact)
    plans: list[Plan] = [uses[0][1].choices[0].plan] * len(uses)
    bounds = [0.0] * len(uses)
    for pick, group in zip(best[1], members):
        for i in group:
            plans[i] = uses[i][1].choices[pick].plan
            bounds[i] = uses[i][1].choices[pick].bound
    return BufferChoice(tuple(plans), tuple(bounds), best[2], best[0], tuple(rejected), exact)


def _names(uses: Sequence[Use], members: list[list[int]], picks: tuple[int, ...]) -> list[str]:
    return [uses[g[0]][1].choices[p].plan.name for p, g in zip(picks, members)]


def _slower(tensor: SharedTensor, names: str, cost: float, best: float) -> Rejected:
    reason = f"{cost:.0f} clocks, the chosen {best:.0f}"
    return Rejected(tensor.name, names, reason, tensor.span)


def by_bound(ladders: Sequence[Sequence[float]]) -> Iterator[tuple[float, tuple[int, ...]]]:
    """Index combinations in order of the sum of their bounds (each ladder ascending)."""
    start = (0,) * len(ladders)
    heap = [(sum(ladder[0] for ladder in ladders), start)]
    seen = {start}
    while heap:
        bound, picks = heappop(heap)
        yield bound, picks
        for i, ladder in enumerate(ladders):
            if picks[i] + 1 < len(ladder):
                following = (*picks[:i], picks[i] + 1, *picks[i + 1 :])
                if following not in seen:
                    seen.add(following)
                    step = ladder[picks[i] + 1] - ladder[picks[i]]
                    heappush(heap, (bound + step, following))
