"""One shared tensor: the instructions of its copies and its layout, least clocks together.

Candidates are tried in order of a lower bound (no bank conflicts) until the next bound is no
better than the best found: branch and bound, exact unless the budget is hit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

from cute_layout import PartialLayout
from hexcute_core.arch.groups import WARP
from hexcute_core.synthesis.cost import working_warps
from hexcute_core.synthesis.graph import WeightedOp
from hexcute_core.synthesis.operands import Plan
from hexcute_core.synthesis.options import Option, Options
from hexcute_core.synthesis.parts import Begins
from hexcute_core.synthesis.shared import SharedUse, constraint, synthesize_shared, unified
from hexcute_core.synthesis.solution import CopyPlan, Rejected, SharedLayout
from hexcute_core.tile import SharedTensor, TileRef

# What all searches of one island may look at together: partial choices, and complete ones, whose
# layouts are worked out. The kernels of `hexcute_kernels` need a dozen layouts at most.
CHOICES = 8192
LAYOUTS = 512
# No search takes more than this part of it: later combinations of layouts need theirs.
SHARE = 32


@dataclass
class Budget:
    """What the searches of an island may still look at; counts down as they run, and every search
    goes on until it has something."""

    choices: int = CHOICES
    layouts: int = LAYOUTS

    @property
    def spent(self) -> bool:
        return self.choices <= 0 or self.layouts <= 0


class Use(NamedTuple):
    """An operation's use of a buffer: what it may do there, with which tile, and where that may
    begin."""

    item: WeightedOp
    options: Options
    ref: TileRef
    begins: Begins


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


def search_buffer(tensor: SharedTensor, uses: Sequence[Use], budget: Budget) -> BufferChoice:
    """Instructions and layout of `tensor` for all its uses together, within `budget`."""
    return _Buffer(tensor, uses).best(budget)


Node = tuple[float, int, tuple[int, ...]]
"""A partial choice: its bound, minus its length (longer ones first), a candidate per group."""


class _Buffer:
    """The search of one buffer; mutable while it runs."""

    def __init__(self, tensor: SharedTensor, uses: Sequence[Use]) -> None:
        self.tensor, self.uses = tensor, uses
        # Copies with the same candidates (a prologue's and the loop's) choose together, unless one
        # sees the buffer turned.
        groups: dict[tuple[int, tuple[int, ...]], list[int]] = {}
        for i, use in enumerate(uses):
            groups.setdefault((id(use.options), use.ref.kept), []).append(i)
        self.members = list(groups.values())
        self.plans: list[list[Option]] = []
        self.ladders: list[list[float]] = []
        self.demands: list[list[tuple[PartialLayout | str, ...]]] = []
        for group in self.members:
            weight = sum(uses[i].item.weight for i in group)
            plans = _undominated(uses[group[0]].options.choices)
            self.plans.append(plans)
            self.ladders.append([weight * o.bound for o in plans])
            self.demands.append(
                [
                    tuple(
                        dict.fromkeys(
                            constraint(tensor, uses[i].ref, o.plan)
                            for i in group
                        )
                    )
                    for o in plans
                ]
            )
        self.rejected: list[Rejected] = []

    def best(self, budget: Budget) -> BufferChoice:
        """Least bound first over partial choices; one that no layout satisfies ends there."""
        last_choices = max(0, budget.choices - CHOICES // SHARE)
        last_layouts = max(0, budget.layouts - LAYOUTS // SHARE)
        heap: list[Node] = [(sum(ladder[0] for ladder in self.ladders), 0, ())]
        best: tuple[float, tuple[int, ...], SharedLayout] | None = None
        exact = True
        while heap:
            bound, _, picks = heappop(heap)
            if best is not None and bound >= best[0]:
                break
            over = budget.choices <= last_choices or budget.layouts <= last_layouts
            if over and best is not None:
                exact = False
                break
            budget.choices -= 1
            self._push_next(heap, bound, picks)
            demand = self._demand(picks)
            if isinstance(demand, str):
                self._refuse(picks, demand)
                continue
            if len(picks) < len(self.ladders):
                heappush(heap, (bound, -len(picks) - 1, (*picks, 0)))
                continue
            found = self._found(picks)
            budget.layouts -= 1
            layout = synthesize_shared(self.tensor, found)
            if isinstance(layout, str):
                self._refuse(picks, layout)
                continue
            cost = bound + sum(
                u.weight * (waves - least)
                for u in found
                for waves, least in [layout.wavefronts[u.op]]
            )
            if best is None or cost < best[0]:
                if best is not None:
                    self._slower(best[1], best[0], cost)
                best = (cost, picks, layout)
            else:
                self._slower(picks, cost, best[0])
        if best is None:
            return BufferChoice((), (), None, float("inf"), tuple(self.rejected), exact)
        cost, picks, layout = best
        chosen = {i: plans[p] for p, g, plans in zip(picks, self.members, self.plans) for i in g}
        options = [chosen[i] for i in range(len(self.uses))]
        plans, bounds = tuple(o.plan for o in options), tuple(o.bound for o in options)
        return BufferChoice(plans, bounds, layout, cost, tuple(self.rejected), exact)

    def _push_next(self, heap: list[Node], bound: float, picks: tuple[int, ...]) -> None:
        """The same choice with the next candidate in its last place."""
        if not picks:
            return
        ladder, last = self.ladders[len(picks) - 1], picks[-1]
        if last + 1 < len(ladder):
            step = ladder[last + 1] - ladder[last]
            heappush(heap, (bound + step, -len(picks), (*picks[:-1], last + 1)))

    def _demand(self, picks: tuple[int, ...]) -> PartialLayout | str | None:
        """What a partial choice demands of the layout, or why nothing meets it."""
        wanted = dict.fromkeys(d for p, demands in zip(picks, self.demands) for d in demands[p])
        return unified(tuple(wanted)) if wanted else None

    def _found(self, picks: tuple[int, ...]) -> list[SharedUse]:
        """The uses that have their candidates."""
        found = []
        for pick, group, plans in zip(picks, self.members, self.plans):
            for i in group:
                item, _, ref, at = self.uses[i]
                plan = plans[pick].plan
                warps = item.team.threads / WARP
                if isinstance(plan, CopyPlan):
                    warps = working_warps(plan, item.team.threads)
                weight = item.weight * warps
                found.append(SharedUse(item.op.id, ref, at, plan, weight))
        return found

    def _refuse(self, picks: tuple[int, ...], reason: str) -> None:
        names = [plans[p].plan.name for p, plans in zip(picks, self.plans)]
        listed = ", ".join(dict.fromkeys(names))
        self.rejected.append(Rejected(self.tensor.name, listed, reason, self.tensor.span))

    def _slower(self, picks: tuple[int, ...], cost: float, best: float) -> None:
        self._refuse(picks, f"{cost:.0f} clocks, the chosen {best:.0f}")


def _undominated(choices: Sequence[Option]) -> list[Option]:
    """`choices`, cheapest first, without those that touch shared memory as a cheaper one does."""
    seen: set[object] = set()
    out = []
    for option in choices:
        plan = option.plan
        name: object = plan
        if isinstance(plan, CopyPlan):
            name = (plan.thread, plan.run, plan.reps)
        if name not in seen:
            seen.add(name)
            out.append(option)
    return out


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
