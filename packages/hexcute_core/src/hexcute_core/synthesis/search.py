"""Joint choice of layouts and instructions in one island: least clocks over its components and
buffers.

Every component brings its layouts in order of a lower bound (no bank conflicts); combinations are
tried in order of the sum, each buffer's copies searched together, until the next sum is no better
than the best found (branch and bound, exact unless a budget is hit).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from hexcute_core.arch import Arch, Fragment
from hexcute_core.arch.groups import WARP
from hexcute_core.errors import NoLayout
from hexcute_core.synthesis.buffer import Budget, BufferChoice, Use, by_bound, search_buffer
from hexcute_core.synthesis.candidates import Assignment, ComponentChoices
from hexcute_core.synthesis.compute_cost import cast_way, compute_clocks
from hexcute_core.synthesis.cost import gemm_cost, wgmma_cost, working_warps
from hexcute_core.synthesis.exchange import BARRIER, exchange_clocks, plan_exchange
from hexcute_core.synthesis.graph import Component, Graph, WeightedOp
from hexcute_core.synthesis.islands import Island
from hexcute_core.synthesis.options import CopyOptions, Option, Options, refusals
from hexcute_core.synthesis.parts import begins
from hexcute_core.synthesis.rewrite import Detour
from hexcute_core.synthesis.solution import (
    BulkPlan,
    CopyPlan,
    Exchange,
    Operand,
    Rejected,
    SharedLayout,
    subject,
)
from hexcute_core.tile import Copy, Gemm, SharedTensor, TileRef
from hexcute_core.tile.layouts import layout_of

# Combinations of component layouts whose buffers are searched: every pair of eight.
COMBINATIONS = 64
# As many more where none of them suits memory.
MOST = 512


class Unmovable(NoLayout):
    """No layout that the operations of `components` agree on lets memory hold their tiles."""

    def __init__(self, cause: NoLayout, components: tuple[Component, ...]) -> None:
        super().__init__(cause.message, cause.span, cause.fix)
        self.components = components


@dataclass(frozen=True)
class Choice:
    """A complete choice for one island; costs in clocks of one block, by operation."""

    fragments: Mapping[str, Fragment]
    assignments: tuple[Assignment, ...]
    copies: Mapping[int, CopyPlan]
    bulk: Mapping[int, BulkPlan]
    operands: Mapping[tuple[int, str], Operand]
    shared: Mapping[str, SharedLayout]
    exchanges: Mapping[int, Exchange]
    op_cost: Mapping[int, float]
    rejected: tuple[Rejected, ...]
    exact: bool

    @property
    def cost(self) -> float:
        return sum(self.op_cost.values())


@dataclass(frozen=True, eq=False)
class _Part:
    """One layout of a component with the options of its copies; `bound` is its least cost."""

    assignment: Assignment
    options: Mapping[int, Options]
    computed: Mapping[int, float]
    bound: float


@dataclass
class Search:
    """Searches the islands of one graph; remembers buffers that come again."""

    graph: Graph
    arch: Arch
    detours: Sequence[Detour]
    only: Mapping[str, str] = field(default_factory=dict)
    options: CopyOptions = field(init=False)
    _buffers: dict[object, BufferChoice] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.options = CopyOptions(self.graph, self.arch, self.only)
        self._detour_of = {d.buffer: d for d in self.detours}

    def best(self, island: Island, choices: Sequence[ComponentChoices]) -> Choice:
        """The cheapest choice for `island`; `choices` are those of its components, in order.

        Raises NoLayout, located, where a copy has no instruction.
        """
        owned = self._owned(island)
        ladders: list[list[_Part]] = []
        rejected: list[Rejected] = []
        for index, found in zip(island.components, choices):
            component = self.graph.components[index]
            parts, failures = self._parts(component, found, owned.get(index, []))
            if not parts:
                raise Unmovable(failures[0], (component,))
            ladders.append(sorted(parts, key=lambda p: p.bound))
            rejected += found.rejected
        free = owned.get(-1, [])
        between = {item.op.id: self.options.of(item, {}) for item in free}
        base = sum(item.weight * between[item.op.id].least for item in free if self._counts(item))
        best: Choice | None = None
        last: NoLayout | None = None
        budget = Budget()
        exact = all(c.complete for c in choices)
        for tried, (bound, picks) in enumerate(by_bound([[p.bound for p in x] for x in ladders])):
            if best is not None and base + bound >= best.cost:
                break
            over = tried >= COMBINATIONS or budget.spent
            if over and (best is not None or tried >= MOST):
                exact = False
                break
            parts = [ladder[i] for ladder, i in zip(ladders, picks)]
            try:
                found_choice = self._complete(island, parts, between, budget)
            except NoLayout as error:
                last = error
                continue
            if best is None or found_choice.cost < best.cost:
                if best is not None:
                    rejected.append(_lost(best, found_choice))
                best = found_choice
            else:
                rejected.append(_lost(found_choice, best))
        if best is None:
            assert last is not None
            raise Unmovable(last, tuple(self.graph.components[i] for i in island.components))
        return Choice(
            best.fragments, best.assignments, best.copies, best.bulk, best.operands, best.shared,
            best.exchanges, best.op_cost, (*rejected, *best.rejected), exact and best.exact,
        )  # fmt: skip

    def _owned(self, island: Island) -> dict[int, list[WeightedOp]]:
        """Copies by the component whose registers they touch; -1 for those between memories."""
        home = {n: i for i in island.components for n in self.graph.components[i].tensors}
        owned: dict[int, list[WeightedOp]] = {}
        for item in island.copies:
            assert isinstance(item.op, Copy)
            sides = (item.op.src.tensor, item.op.dst.tensor)
            index = next((home[s] for s in sides if s in home), -1)
            owned.setdefault(index, []).append(item)
        return owned

    def _counts(self, item: WeightedOp) -> bool:
        """Whether a copy's own clocks are certain: a detour may turn out not to be needed."""
        assert isinstance(item.op, Copy)
        return not {item.op.src.tensor, item.op.dst.tensor} & set(self._detour_of)

    def _parts(
        self, component: Component, found: ComponentChoices, copies: Sequence[WeightedOp]
    ) -> tuple[list[_Part], list[NoLayout]]:
        parts: list[_Part] = []
        failures: list[NoLayout] = []
        for assignment in found.assignments:
            try:
                options = {c.op.id: self.options.of(c, assignment.fragments) for c in copies}
            except NoLayout as error:
                failures.append(error)
                continue
            computed = self._computed(component, assignment)
            bound = sum(computed.values())
            bound += sum(c.weight * options[c.op.id].least for c in copies if self._counts(c))
            parts.append(_Part(assignment, options, computed, bound))
        return parts, failures

    def _computed(self, component: Component, assignment: Assignment) -> dict[int, float]:
        """Clocks of the component's operations that are no copies."""
        out = {}
        for item in component.ops:
            warps = item.team.threads / WARP
            way = cast_way(self.graph.tensors, self.arch, item.op)
            clocks = compute_clocks(item.op, assignment.fragments, self.graph.facts, warps, way)
            if clocks is not None:
                out[item.op.id] = item.weight * clocks
            plan, groups = assignment.gemms.get(item.op.id), assignment.wgmmas.get(item.op.id)
            if plan is not None:
                out[item.op.id] = item.weight * gemm_cost(plan, warps)
            elif groups is not None:
                out[item.op.id] = item.weight * wgmma_cost(groups)
        return out

    def _complete(
        self,
        island: Island,
        parts: Sequence[_Part],
        between: Mapping[int, Options],
        budget: Budget,
    ) -> Choice:
        """Instructions and shared layouts for one combination of component layouts."""
        fragments = {n: f for p in parts for n, f in p.assignment.fragments.items()}
        options = dict(between)
        cost: dict[int, float] = {}
        for part in parts:
            options.update(part.options)
            cost.update(part.computed)
        plans: dict[int, CopyPlan] = {}
        bulk: dict[int, BulkPlan] = {}
        operands: dict[tuple[int, str], Operand] = {}
        shared: dict[str, SharedLayout] = {}
        exchanges: dict[int, Exchange] = {}
        rejected: list[Rejected] = []
        uses: dict[str, list[Use]] = {}
        exact = True
        for item in island.copies:
            op = item.op
            assert isinstance(op, Copy)
            mine = options[op.id]
            rejected += refusals(op, mine)
            inside = next(
                (r for r in (op.src, op.dst)
                 if isinstance(self.graph.tensors[r.tensor], SharedTensor)), None,
            )  # fmt: skip
            if inside is not None:
                uses.setdefault(inside.tensor, []).append(self._use(item, mine, inside))
                continue
            direct_plan = mine.choices[0].plan
            assert isinstance(direct_plan, CopyPlan)
            plans[op.id], cost[op.id] = direct_plan, item.weight * mine.least
            rejected += (_loses(op, o, mine.choices[0]) for o in mine.choices[1:])
        wgmmas = {i: p for part in parts for i, p in part.assignment.wgmmas.items()}
        for item in self.graph.ops:
            gemm = item.op
            if isinstance(gemm, Gemm) and gemm.id in wgmmas:
                for side, ref in (("a", gemm.a), ("b", gemm.b)):
                    if isinstance(self.graph.tensors[ref.tensor], SharedTensor):
                        ways = self.options.operand(gemm, side, wgmmas[gemm.id])
                        uses.setdefault(ref.tensor, []).append(self._use(item, ways, ref))
        for name, found in uses.items():
            choice = self._buffer(name, found, budget)
            detour = self._detour_of.get(name)
            if detour is not None:
                item = found[0][0]
                direct = self._direct(detour, found, fragments)
                around = choice.cost + item.weight * 2 * BARRIER
                if direct is not None:
                    bits, warps = self.graph.tensors[name].dtype.bits, item.team.threads / WARP
                    clocks = item.weight * exchange_clocks(direct, bits, warps)
                    if clocks <= around:
                        exchanges[detour.op], cost[detour.op] = direct, clocks
                        continue
            if choice.layout is None:
                raise self._unsuited(name, found, choice)
            shared[name] = choice.layout
            exact &= choice.exact
            rejected += choice.rejected
            for (item, _, ref, _), plan, bound in zip(found, choice.plans, choice.bounds):
                if isinstance(plan, Operand):
                    assert isinstance(item.op, Gemm)
                    sides = [s for s, r in (("a", item.op.a), ("b", item.op.b)) if r == ref]
                    operands.update({(item.op.id, side): plan for side in sides})
                    continue
                if isinstance(plan, BulkPlan):
                    bulk[item.op.id], cost[item.op.id] = plan, item.weight * bound
                    continue
                waves, least = choice.layout.wavefronts[item.op.id]
                extra = (waves - least) * working_warps(plan, item.team.threads)
                plans[item.op.id] = plan
                cost[item.op.id] = item.weight * (bound + extra + (detour is not None) * BARRIER)
        return Choice(
            fragments, tuple(p.assignment for p in parts), plans, bulk, operands, shared,
            exchanges, cost, tuple(rejected), exact,
        )  # fmt: skip

    def _unsuited(self, name: str, uses: list[Use], choice: BufferChoice) -> NoLayout:
        """That no layout of a buffer suits its copies; what would, where its author names one."""
        reasons = "; ".join(f"{r.candidate}: {r.reason}" for r in choice.rejected[:4])
        tensor = self.graph.tensors[name]
        assert isinstance(tensor, SharedTensor)
        fix = None
        if tensor.layout is not None:
            free = search_buffer(replace(tensor, layout=None), uses, Budget()).layout
            fix = f"leave it to the compiler, or name one that fits: {free}" if free else None
        return NoLayout(f"no layout of `{name}` suits its copies: {reasons}", tensor.span, fix)

    def _direct(
        self,
        detour: Detour,
        uses: Sequence[Use],
        fragments: Mapping[str, Fragment],
    ) -> Exchange | None:
        """The rearrange without shared memory, where its warps can do it themselves."""
        store, load = (use.item for use in uses)
        assert isinstance(store.op, Copy) and isinstance(load.op, Copy)
        if store.team != load.team or store.op.dst.shape != load.op.src.shape:
            return None
        f, g = layout_of(fragments, store.op.src), layout_of(fragments, load.op.dst)
        return plan_exchange(f, g, store.team.threads)

    def _use(self, item: WeightedOp, options: Options, ref: TileRef) -> Use:
        tensor = self.graph.tensors[ref.tensor]
        assert isinstance(tensor, SharedTensor)
        return Use(item, options, ref, begins(self.graph.facts, ref, tensor))

    def _buffer(self, name: str, uses: list[Use], budget: Budget) -> BufferChoice:
        key = (name, tuple(id(use.options) for use in uses))
        if key not in self._buffers:
            tensor = self.graph.tensors[name]
            assert isinstance(tensor, SharedTensor)
            self._buffers[key] = search_buffer(tensor, uses, budget)
        return self._buffers[key]


def _lost(loser: Choice, winner: Choice) -> Rejected:
    different = [n for n, f in loser.fragments.items() if winner.fragments[n] != f]
    layouts = "; ".join(f"{n} {loser.fragments[n]}" for n in different[:3])
    reason = f"{loser.cost:.0f} clocks, the chosen {winner.cost:.0f}"
    return Rejected(", ".join(different), layouts, reason, None)


def _loses(op: Copy, option: Option, best: Option) -> Rejected:
    reason = f"{option.bound:.0f} clocks, {best.plan.name} takes {best.bound:.0f}"
    return Rejected(subject(op), option.plan.name, reason, op.span)
