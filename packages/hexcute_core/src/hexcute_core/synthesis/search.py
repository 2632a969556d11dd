"""Joint choice of layouts and instructions: least clocks over all components and buffers.

Components are combined depth first; buffers that share no copy are independent, so each is
searched alone: its copies' candidates in order of a lower bound (no bank conflicts), until the
bound of the next combination is no better than the best found (branch and bound, exact unless the
budget is hit).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from hexcute_core.arch import Arch, Fragment
from hexcute_core.errors import NoLayout
from hexcute_core.synthesis.copies import Rejection, memory_copies, register_copies
from hexcute_core.synthesis.cost import gemm_cost, global_cost, least_wavefronts, shared_cost
from hexcute_core.synthesis.graph import Graph, WeightedOp
from hexcute_core.synthesis.memory import GlobalTile, describe_global
from hexcute_core.synthesis.propagate import Assignment
from hexcute_core.synthesis.shared import SharedUse, synthesize_shared
from hexcute_core.synthesis.solution import CopyPlan, Rejected, SharedLayout
from hexcute_core.tile import Copy, GlobalView, RegisterTensor, SharedTensor, TileRef

WARP = 32
# Combinations a buffer may cost: every pair of a dozen candidates, with room for a third copy.
BUDGET = 1024


@dataclass(frozen=True)
class Option:
    """A plan for a copy with its clocks in one block if its shared side has no conflicts."""

    plan: CopyPlan
    bound: float


@dataclass(frozen=True)
class Leaf:
    """A complete choice for one combination of component layouts."""

    fragments: Mapping[str, Fragment]
    assignments: tuple[Assignment, ...]
    copies: Mapping[int, CopyPlan]
    shared: Mapping[str, SharedLayout]
    op_cost: Mapping[int, float]
    rejected: tuple[Rejected, ...]
    exact: bool

    @property
    def cost(self) -> float:
        return sum(self.op_cost.values())


@dataclass
class Search:
    """Evaluates combinations of component layouts; remembers what does not depend on them."""

    graph: Graph
    arch: Arch
    _memory: dict[int, list[Option]] = field(default_factory=dict)
    _buffers: dict[object, tuple[list[CopyPlan], SharedLayout, list[Rejected], bool]] = field(
        default_factory=dict
    )

    @property
    def warps(self) -> float:
        return self.graph.program.block_dim / WARP

    def evaluate(self, assignments: Sequence[Assignment]) -> Leaf:
        """The best instructions for these layouts."""
        fragments = {n: f for a in assignments for n, f in a.fragments.items()}
        plans: dict[int, CopyPlan] = {}
        cost: dict[int, float] = {}
        rejected: list[Rejected] = []
        buffers: dict[str, list[tuple[WeightedOp, list[Option]]]] = {}
        for item in self.graph.ops:
            op = item.op
            if not isinstance(op, Copy):
                continue
            tensors = [self.graph.program.tensor(r.tensor) for r in (op.src, op.dst)]
            if all(isinstance(t, RegisterTensor) for t in tensors):
                continue
            options, refused = self._options(item, fragments)
            rejected += refused
            shared = next((t for t in tensors if isinstance(t, SharedTensor)), None)
            if shared is not None:
                buffers.setdefault(shared.name, []).append((item, options))
                continue
            best = min(options, key=lambda o: o.bound)
            plans[op.id], cost[op.id] = best.plan, best.bound
            rejected += [_loses(op, o, best) for o in options if o is not best]
        layouts: dict[str, SharedLayout] = {}
        exact = True
        for name, uses in buffers.items():
            chosen, layout, lost, complete = self._buffer(name, uses)
            layouts[name] = layout
            exact &= complete
            rejected += lost
            for (item, options), plan in zip(uses, chosen):
                bound = next(o.bound for o in options if o.plan == plan)
                waves, least = layout.wavefronts[item.op.id]
                extra = item.weight * self.warps * (waves - least)
                plans[item.op.id], cost[item.op.id] = plan, bound + extra
        for item in self.graph.ops:
            for a in assignments:
                gemm = a.gemms.get(item.op.id)
                if gemm is not None:
                    cost[item.op.id] = item.weight * gemm_cost(gemm, self.warps)
        return Leaf(fragments, tuple(assignments), plans, layouts, cost, tuple(rejected), exact)

    def _options(
        self, item: WeightedOp, fragments: Mapping[str, Fragment]
    ) -> tuple[list[Option], list[Rejected]]:
        """Legal instructions for a copy, cheapest bound first."""
        op = item.op
        assert isinstance(op, Copy)
        program = self.graph.program
        src, dst = program.tensor(op.src.tensor), program.tensor(op.dst.tensor)
        bits = src.dtype.bits
        memory: GlobalTile | None = None
        for ref, tensor in ((op.src, src), (op.dst, dst)):
            if isinstance(tensor, GlobalView):
                memory = describe_global(program, self.graph.facts, ref)
        if isinstance(src, RegisterTensor) or isinstance(dst, RegisterTensor):
            load = isinstance(dst, RegisterTensor)
            fragment = fragments[(op.dst if load else op.src).tensor]
            candidates = register_copies(self.arch, fragment, bits, memory, load)
        else:
            if memory is None or (isinstance(src, GlobalView) and isinstance(dst, GlobalView)):
                raise NoLayout(
                    f"copy between two {'shared' if memory is None else 'global'} tensors "
                    f"`{src.name}` and `{dst.name}`",
                    op.span,
                    "copy through a register tensor",
                )
            candidates = memory_copies(
                self.arch, op.dst.shape, bits, memory, program.block_dim,
                load=isinstance(src, GlobalView),
            )  # fmt: skip
        options, rejected = [], []
        for candidate in candidates:
            if isinstance(candidate, Rejection):
                rejected.append(
                    Rejected(f"copy {src.name} -> {dst.name}", candidate.name, candidate.reason,
                             op.span)
                )  # fmt: skip
                continue
            options.append(Option(candidate, item.weight * self._bound(candidate, memory, bits)))
        if not options:
            raise NoLayout(
                f"no instruction of {self.arch.name} copies `{src.name}` to `{dst.name}`: "
                + "; ".join(f"{r.candidate}: {r.reason}" for r in rejected),
                op.span,
            )
        options.sort(key=lambda o: o.bound)
        return options, rejected

    def _bound(self, plan: CopyPlan, memory: GlobalTile | None, bits: int) -> float:
        total = 0.0
        if memory is not None:
            total += global_cost(plan, memory, bits, self.warps)
        if "shared" in (plan.row.src, plan.row.dst) or plan.second is not None:
            total += shared_cost(plan, least_wavefronts(plan, bits), self.warps)
        return total

    def _buffer(
        self, name: str, uses: list[tuple[WeightedOp, list[Option]]]
    ) -> tuple[list[CopyPlan], SharedLayout, list[Rejected], bool]:
        """Instructions and layout of one shared tensor."""
        key = (name, tuple(tuple(o.plan for o in options) for _, options in uses))
        if key not in self._buffers:
            self._buffers[key] = self._search_buffer(name, uses)
        return self._buffers[key]

    def _search_buffer(
        self, name: str, uses: list[tuple[WeightedOp, list[Option]]]
    ) -> tuple[list[CopyPlan], SharedLayout, list[Rejected], bool]:
        tensor = self.graph.program.tensor(name)
        assert isinstance(tensor, SharedTensor)
        # Copies with the same candidates (a prologue's and the loop's) choose together.
        groups: dict[tuple[CopyPlan, ...], list[int]] = {}
        for i, (_, options) in enumerate(uses):
            groups.setdefault(tuple(o.plan for o in options), []).append(i)
        ladders = []
        for members in groups.values():
            options = uses[members[0]][1]
            ladders.append(
                [(sum(uses[i][1][k].bound for i in members), o.plan) for k, o in enumerate(options)]
            )
        best: tuple[float, list[CopyPlan], SharedLayout] | None = None
        rejected: list[Rejected] = []
        exact = True
        for tried, (bound, picks) in enumerate(_by_bound([[b for b, _ in x] for x in ladders])):
            if best is not None and bound >= best[0]:
                break
            if tried == BUDGET:
                exact = False
                break
            plans: list[CopyPlan] = [ladders[0][0][1]] * len(uses)
            for ladder, pick, members in zip(ladders, picks, groups.values()):
                for i in members:
                    plans[i] = ladder[pick][1]
            found = [
                SharedUse(item.op.id, _shared_ref(item, name), plan, item.weight)
                for (item, _), plan in zip(uses, plans)
            ]
            layout = synthesize_shared(tensor, found)
            names = ", ".join(dict.fromkeys(p.name for p in plans))
            if isinstance(layout, str):
                rejected.append(Rejected(name, names, layout, tensor.span))
                continue
            extra = sum(
                use.weight * self.warps * (w - least)
                for use in found
                for w, least in [layout.wavefronts[use.op]]
            )
            if best is None or bound + extra < best[0]:
                if best is not None:
                    old = ", ".join(dict.fromkeys(p.name for p in best[1]))
                    rejected.append(_slower(name, old, best[0], bound + extra, tensor))
                best = (bound + extra, plans, layout)
            else:
                rejected.append(_slower(name, names, bound + extra, best[0], tensor))
        if best is None:
            reasons = "; ".join(f"{r.candidate}: {r.reason}" for r in rejected[:4])
            raise NoLayout(f"no layout of `{name}` suits its copies: {reasons}", tensor.span)
        return best[1], best[2], rejected, exact


def _slower(name: str, candidate: str, cost: float, best: float, tensor: SharedTensor) -> Rejected:
    return Rejected(name, candidate, f"{cost:.0f} clocks, the chosen {best:.0f}", tensor.span)


def _loses(op: Copy, option: Option, best: Option) -> Rejected:
    reason = f"{option.bound:.0f} clocks, {best.plan.name} takes {best.bound:.0f}"
    return Rejected(f"copy {op.src.tensor} -> {op.dst.tensor}", option.plan.name, reason, op.span)


def _shared_ref(item: WeightedOp, name: str) -> TileRef:
    op = item.op
    assert isinstance(op, Copy)
    return op.src if op.src.tensor == name else op.dst


def _by_bound(ladders: list[list[float]]) -> Iterator[tuple[float, tuple[int, ...]]]:
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
