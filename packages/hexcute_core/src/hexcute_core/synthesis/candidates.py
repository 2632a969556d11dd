"""Candidate layouts of one component: depth first over its gemms' anchors, then over the layouts
of what no equation reaches; a branch ends at the first equation it breaks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product as cartesian
from math import prod

from hexcute_core.arch import Arch, Fragment
from hexcute_core.arch.registers import same_threads
from hexcute_core.errors import LayoutConflict, NoLayout
from hexcute_core.scalar import is_const
from hexcute_core.synthesis.defaults import default_layouts
from hexcute_core.synthesis.gemm import GemmAnchor, Orders, gemm_anchors, mma_rows, plan_gemm
from hexcute_core.synthesis.graph import Component, Graph
from hexcute_core.synthesis.memory import WIDEST, describe_global
from hexcute_core.synthesis.named import arranged, named_layouts
from hexcute_core.synthesis.propagate import (
    Conflict,
    State,
    close,
    component_rules,
    name_of,
    parts_of,
    violated,
)
from hexcute_core.synthesis.rearrange import Forced
from hexcute_core.synthesis.register_parts import Apart, Parts
from hexcute_core.synthesis.rewrite import filled_from
from hexcute_core.synthesis.solution import GemmPlan, Rejected, WgmmaPlan
from hexcute_core.synthesis.wgmma import WgmmaAnchor, plan_wgmma, shared_anchors
from hexcute_core.tile import (
    Copy,
    Fill,
    Gemm,
    GlobalView,
    RegisterTensor,
    Relabel,
    SharedTensor,
    TileRef,
)
from hexcute_core.tile.tensors import Tensor

# A component offers this many layouts to the joint search: every arrangement of eight warps
# (four) under every order of K (five at most), M and N (three) that widens its copies.
CANDIDATES = 64
# Branches looked at for them; a chain of three gemms has 36 for the first, few for the others.
BRANCHES = 512


Anchor = GemmAnchor | WgmmaAnchor


@dataclass(frozen=True)
class Assignment:
    """Layouts of a component's tensors, with the plans of its gemms."""

    fragments: Mapping[str, Fragment]
    gemms: Mapping[int, GemmPlan]
    wgmmas: Mapping[int, WgmmaPlan]


@dataclass(frozen=True)
class ComponentChoices:
    """Layouts of one component, best first, and what failed; `complete` unless a budget was hit."""

    assignments: tuple[Assignment, ...]
    rejected: tuple[Rejected, ...]
    complete: bool


class Conflicts(LayoutConflict):
    """No candidates agree; carries the component and the first conflict for the caller."""

    def __init__(self, component: Component, conflict: Conflict) -> None:
        super().__init__(
            f"{conflict.first} and {conflict.second} need different layouts of "
            f"`{conflict.tensor}`: {conflict.reason}",
            conflict.span,
            f"take the parts from q = hx.rearrange({conflict.tensor}), or collect them in a tile "
            "of their own and hx.rearrange that"
            if conflict.cut
            else "split or join whole modes, as (12, 40) to (12, 4, 10), or store the tile and "
            "read it in the other shape"
            if isinstance(conflict.op, Relabel)
            else "put hx.rearrange(...) between them, or give both the same warps=(m, n)",
        )
        self.component, self.conflict = component, conflict


def component_choices(
    graph: Graph, arch: Arch, component: Component, forced: Mapping[str, Forced]
) -> ComponentChoices:
    """Raises NoLayout where no instruction fits a gemm, Conflicts where no anchors agree."""
    walk = _Walk(graph, arch, component)
    _require_room(graph, arch, component, walk.parts)
    named = arranged(graph, component)
    for start in _starts(graph, component, walk.parts, named):
        _learn(component, forced, start)
        walk.visit(start, {}, 0)
    if not walk.found:
        assert walk.conflict is not None
        if named:
            raise _unmet(graph, arch, component, forced, named, walk.conflict)
        raise Conflicts(component, walk.conflict)
    complete = walk.branches < BRANCHES and len(walk.found) < CANDIDATES
    return ComponentChoices(tuple(walk.found), tuple(walk.rejected), complete)


def _learn(component: Component, forced: Mapping[str, Forced], start: State) -> None:
    """Notes the layouts of rearranged tensors. Raises Conflicts."""
    for name, (f, op) in forced.items():
        if name in component.tensors:
            problem = start.learn(op.dst, f, op)
            if problem is not None:
                raise Conflicts(component, problem)


def _starts(
    graph: Graph, component: Component, parts: Parts, named: Sequence[RegisterTensor]
) -> Iterator[State]:
    """States that know layouts of the tensors of which an author says how they lie."""
    ways = [named_layouts(graph, component, parts, tensor) for tensor in named]
    for chosen in cartesian(*ways):
        yield State(parts, {tensor.name: f for tensor, f in zip(named, chosen)})


def _unmet(
    graph: Graph,
    arch: Arch,
    component: Component,
    forced: Mapping[str, Forced],
    named: Sequence[RegisterTensor],
    conflict: Conflict,
) -> LayoutConflict:
    """What an author says of these tensors agrees with nothing; the error says what would."""
    walk = _Walk(graph, arch, component)
    start = State(walk.parts, {})
    _learn(component, forced, start)
    walk.visit(start, {}, 0)
    if not walk.found:
        assert walk.conflict is not None
        return Conflicts(component, walk.conflict)
    tensor = next((t for t in named if t.name == conflict.tensor), named[0])
    would = dict.fromkeys(str(a.fragments[tensor.name]) for a in walk.found)
    return LayoutConflict(
        f"`{tensor.name}` cannot have {tensor.arranged}: {conflict.second} breaks with it, as "
        f"{conflict.reason}",
        tensor.span,
        f"leave it to the compiler, or name a layout that fits: {'; '.join([*would][:3])}; where a "
        "tile is to change its layout, write hx.rearrange",
    )


def _require_room(graph: Graph, arch: Arch, component: Component, parts: Parts) -> None:
    """A tile that fills more registers than its threads have would live in local memory, and the
    C++ compiler would work on it for minutes."""
    team, block = component.team, graph.program.block_dim
    room = team.registers or min(arch.registers_per_thread, arch.registers_per_block // block)
    fills = {filled_from(item.op) for item in component.ops if isinstance(item.op, Fill)}
    for name in component.tensors:
        tensor = graph.tensors[name]
        assert isinstance(tensor, RegisterTensor)
        shared = prod(tensor.shape[m] for m in parts.core(name))
        held = prod(tensor.shape) // shared * -(-shared // team.threads)
        words = -(-held * tensor.dtype.bits // 32)
        if words > room:
            size = f"{'x'.join(map(str, tensor.shape))} of {tensor.dtype}"
            takes = f"takes {words} registers of each of {team.threads} threads, which have {room}"
            if name in fills:
                # The author's tile is in shared memory already.
                fix = "fill it in parts, as in hx.fill(s[0:32, :], 0.0), or give it more threads"
                raise NoLayout(f"a fill of {size} in shared memory {takes}", tensor.span, fix)
            message = f"register tensor `{name}`, {size}, {takes}"
            fix = "make the tile smaller, give it more threads, or keep it in hx.shared_tensor"
            if name not in parts.cuts:
                raise NoLayout(message, tensor.span, fix)
            modes = ", ".join(map(str, parts.order[name]))
            message += f", as each holds all of mode {modes}, cut at {parts.cuts[name]}"
            raise Apart(name, message, tensor.span, fix)


class _Walk:
    """The depth-first search; mutable while it runs."""

    def __init__(self, graph: Graph, arch: Arch, component: Component) -> None:
        self.graph, self.arch, self.component = graph, arch, component
        self.rules = component_rules(component)
        self.parts = parts_of(graph, component, self.rules)
        # Gemms of the same tensors (an unrolled loop's) have one anchor.
        alike: dict[tuple[object, ...], list[Gemm]] = {}
        for item in component.ops:
            if isinstance(item.op, Gemm):
                op = item.op
                tiles = ((r.tensor, r.shape, r.kept) for r in (op.c, op.a, op.b))
                name = (*tiles, op.warps)
                alike.setdefault(name, []).append(op)
        self.gemms = list(alike.values())
        self.found: list[Assignment] = []
        self.rejected: list[Rejected] = []
        self.conflict: Conflict | None = None
        self._depth = 0
        self.branches = 0

    def full(self) -> bool:
        return len(self.found) >= CANDIDATES or self.branches >= BRANCHES

    def visit(self, state: State, chosen: Mapping[int, Anchor], depth: int) -> None:
        """Extends a state that breaks no equation; `depth` gemms have their anchors."""
        problem = close(self.rules, state) or violated(self.rules, state)
        if problem is not None:
            self._fail(problem, chosen)
            return
        if depth < len(self.gemms):
            self._gemm(state, chosen, depth)
            return
        missing = [t for t in self.component.tensors if t not in state.fragments]
        if not missing:
            self._leaf(state, chosen)
            return
        # The largest tile first: broadcast and reduced tensors follow from it.
        shapes = self.parts.shapes
        name = max(missing, key=lambda t: prod(shapes[t][m] for m in self.parts.core(t)))
        for f in default_layouts(self.graph, self.component, self.parts, name):
            if self.full():
                return
            self.branches += 1
            following = state.copy()
            following.fragments[name] = f
            self.visit(following, chosen, depth)

    def _gemm(self, state: State, chosen: Mapping[int, Anchor], depth: int) -> None:
        op = self.gemms[depth][0]
        for anchor in anchors(self.graph, self.arch, self.component, self.parts, op):
            if self.full():
                return
            # In a chain of gemms most anchors do not fit what the first has decided. That is seen
            # at once, and no branch: else a long chain had none left.
            problem = self._misfit(op, anchor, state)
            if problem is not None:
                self._fail(problem, {**chosen, op.id: anchor})
                continue
            self.branches += 1
            following = state.copy()
            problem = self._place(following, op, anchor)
            if problem is not None:
                self._fail(problem, {**chosen, op.id: anchor})
                continue
            picked = {same.id: anchor for same in self.gemms[depth]}
            self.visit(following, {**chosen, **picked}, depth + 1)

    def _misfit(self, op: Gemm, anchor: Anchor, state: State) -> Conflict | None:
        """An operand that has a layout already, and not one that the anchor can use."""
        for ref, want, _ in anchor.placed(op):
            have = state.known(ref)
            if have is not None and (want.values != have.values or not same_threads(want, have)):
                first = state.origin.get(ref.tensor, op)
                reason = f"{anchor} wants {want}, it is {have}"
                return Conflict(op, ref.tensor, name_of(op), name_of(first), op.span, reason)
        return None

    def _place(self, state: State, op: Gemm, anchor: Anchor) -> Conflict | None:
        """Notes the layouts of operands that have none yet."""
        for ref, _, f in anchor.placed(op):
            if ref.tensor not in state.fragments:
                problem = state.learn(ref, f, op)
                if problem is not None:
                    return problem
        return None

    def _leaf(self, state: State, chosen: Mapping[int, Anchor]) -> None:
        plans: dict[int, GemmPlan] = {}
        wgmmas: dict[int, WgmmaPlan] = {}
        for ops in self.gemms:
            op, anchor = ops[0], chosen[ops[0].id]
            c, a, b = (state.known(ref) for ref in (op.c, op.a, op.b))
            assert c is not None
            if isinstance(anchor, WgmmaAnchor):
                plan: GemmPlan | WgmmaPlan | str = plan_wgmma(anchor, c, a, op.a.shape[1])
            else:
                assert a is not None and b is not None
                plan = plan_gemm(anchor, c, a, b)
            if isinstance(plan, str):
                others = [state.origin.get(r.tensor, op) for r in (op.a, op.b, op.c)]
                first = next((o for o in others if o is not op), op)
                self._fail(
                    Conflict(op, op.c.tensor, name_of(op), name_of(first), op.span, plan), chosen
                )
                return
            for same in ops:
                if isinstance(plan, WgmmaPlan):
                    wgmmas[same.id] = plan
                else:
                    plans[same.id] = plan
        self.found.append(Assignment(state.fragments, plans, wgmmas))

    def _fail(self, conflict: Conflict, chosen: Mapping[int, Anchor]) -> None:
        # The branch that came furthest says most about what is left in the way.
        if self.conflict is None or len(chosen) > self._depth:
            self.conflict, self._depth = conflict, len(chosen)
        # Gemms of one kind share their anchors, of which the chosen are told once.
        different = {id(a): a for a in chosen.values()}
        names = ", ".join(dict.fromkeys(str(a) for a in different.values()))
        self.rejected.append(Rejected(conflict.tensor, names, conflict.reason, conflict.span))


def anchors(
    graph: Graph, arch: Arch, component: Component, parts: Parts, op: Gemm
) -> Sequence[Anchor]:
    """Every instruction, arrangement and order for a gemm, best first.

    Raises NoLayout, located, where there is none.
    """
    if isinstance(graph.tensors[op.b.tensor], SharedTensor):
        return shared_anchors(graph, arch, component, op)
    a, b, c = (graph.tensors[ref.tensor].dtype for ref in (op.a, op.b, op.c))
    rows = mma_rows(arch, a.name, b.name, c.name)
    if not rows:
        known = sorted({f"{r.a_dtype} x {r.b_dtype} -> {r.c_dtype}" for r in arch.mmas})
        raise NoLayout(
            f"{arch.name} has no instruction for gemm of {a} x {b} -> {c}",
            op.span,
            f"cast the operands; there are {', '.join(known)}",
        )
    (m, n), k = op.c.shape, op.a.shape[1]
    threads = component.team.threads
    orders = _orders(graph, component, parts, op)
    found: list[Anchor] = []
    # Turned, an instruction takes tiles of fewer rows, which it does not take otherwise; and one
    # whose tiles go on beyond the product's is for products that no other takes.
    turned = tuple(row.turn() for row in rows)
    whole = all(_is_whole(graph.tensors[ref.tensor], ref) for ref in (op.a, op.b, op.c))
    for ways, padded in ((rows, False), (turned, False), (rows, True), (turned, True)):
        if padded and not whole:
            break
        given = m, n, k, threads, op.warps, orders, padded
        found = [x for row in ways for x in _row_anchors(row, *given)]
        if found:
            break
    if not found:
        tiles = ", ".join("x".join(map(str, row.tile)) for row in rows)
        arranged = f" arranged {op.warps}" if op.warps else ""
        raise NoLayout(
            f"gemm of {m}x{n}x{k} on {threads} threads{arranged}: no instruction ({tiles}, or M "
            f"and N the other way round) tiles it with {threads // 32} warps",
            op.span,
            "make the tile a multiple of the instruction times the warps along M and N"
            if whole
            else "multiply whole register tiles, or make their parts multiples of the instruction",
        )
    return found


def _is_whole(tensor: Tensor, ref: TileRef) -> bool:
    shape = getattr(tensor, "shape", None)
    return ref.extents == shape and all(is_const(start, 0) for start in ref.starts)


@lru_cache(maxsize=256)
def _row_anchors(*args: object) -> tuple[GemmAnchor, ...]:
    return tuple(gemm_anchors(*args))  # type: ignore[arg-type]


def _orders(graph: Graph, component: Component, parts: Parts, op: Gemm) -> Orders:
    """Widths worth ordering K, M and N for: those of the component's element types along K, and
    along M and N where a copy between registers and global memory would profit."""
    types = [graph.tensors[t].dtype for t in component.tensors]
    narrow = sorted({WIDEST * 8 // t.bits for t in types} | {WIDEST * 4 // t.bits for t in types})
    m_runs: set[int] = set()
    n_runs: set[int] = set()
    for item in component.ops:
        copy = item.op
        if not isinstance(copy, Copy):
            continue
        for registers, other in ((copy.src, copy.dst), (copy.dst, copy.src)):
            tensor = graph.tensors[other.tensor]
            if not graph.is_register(registers) or isinstance(tensor, RegisterTensor):
                continue
            # A whole is moved as its parts are.
            core = parts.core(registers.tensor)
            dims = [d for d, m in enumerate(registers.kept) if m in core]
            shape, bits = tuple(registers.shape[d] for d in dims), tensor.dtype.bits
            widths = {WIDEST * 8 // bits, WIDEST * 4 // bits}
            if isinstance(tensor, GlobalView) and shape == op.c.shape:
                memory = describe_global(graph.program, graph.facts, other)
                (m_runs if memory.contiguous == dims[0] else n_runs).update(w // 2 for w in widths)
            elif bits < 8 and shape in (op.a.shape, op.b.shape):
                # Memory may hold rows of a narrow operand side by side, a byte of them at least.
                (m_runs if shape == op.a.shape else n_runs).update({8 // bits, 32 // bits})
            elif len(shape) == 2 and shape[1] == 1 and shape[0] in op.c.shape:
                # One number per row of an operand, such as a scale: wide loads of consecutive rows.
                (m_runs if shape[0] == op.a.shape[0] else n_runs).update(widths)
    return Orders(tuple(narrow), tuple(sorted(m_runs)), tuple(sorted(n_runs)))
