"""Fixpoint of the equations with one unknown: layouts spread from what is known.

elementwise, cast, scan and register copies: all layouts equal, a broadcast operand a projection;
reduce: `g = mu o f`, mu collapsing the reduced dimension. Equal means that every thread holds the
same elements; their order in its registers is free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hexcute_core.arch import Fragment
from hexcute_core.arch.registers import register_map
from hexcute_core.arch.relabel import Turn
from hexcute_core.errors import SourceSpan
from hexcute_core.synthesis.graph import Component, Graph
from hexcute_core.synthesis.register_parts import Parts, component_parts
from hexcute_core.synthesis.solution import kind
from hexcute_core.tile import (
    CastTile,
    Copy,
    Elementwise,
    Fill,
    ForElements,
    Gemm,
    Prefetch,
    Rearrange,
    Reduce,
    RegisterTensor,
    Relabel,
    Scan,
    TileRef,
)
from hexcute_core.tile.ir import TileOp
from hexcute_core.tile.layouts import broadcast_dims, layout_of
from hexcute_core.tile.visit import tiles
from hexcute_core.unions import assert_never


@dataclass(frozen=True)
class Conflict:
    """Two operations that want one tensor in different layouts; `op` is the one whose equation
    breaks. `cut` where it would spread over threads what others take in parts."""

    op: TileOp
    tensor: str
    first: str
    second: str
    span: SourceSpan
    reason: str
    cut: bool = False


@dataclass(frozen=True)
class Rule:
    """The layout of tile `unknown` follows from that of `known`, with dimensions `collapse`
    projected away, or by a `turn` of its coordinates."""

    op: TileOp
    known: TileRef
    unknown: TileRef
    collapse: tuple[int, ...] = ()
    turn: Turn | None = None
    keep: int = 1

    def apply(self, f: Fragment) -> Fragment | None:
        """The layout of `unknown` where `known` has layout `f`; None where there is none, as some
        thread would hold parts of an element, or a digit of `f` is part of what a reduction keeps
        and part of what it does not."""
        if self.turn is not None:
            return self.turn.of(f)
        if self.keep > 1:
            cut = f.fold(self.collapse[0], self.keep)
            return None if cut is None else cut.project((len(f.shape),), self.unknown.shape)
        return f.project(self.collapse, self.unknown.shape) if self.collapse else f


@dataclass
class State:
    """Layouts of whole tensors known so far, with the operation that each came from."""

    parts: Parts
    fragments: dict[str, Fragment]
    origin: dict[str, TileOp] = field(default_factory=dict)

    def copy(self) -> State:
        return State(self.parts, dict(self.fragments), dict(self.origin))

    def known(self, ref: TileRef) -> Fragment | None:
        """The layout of a tile, where that of its tensor is known."""
        return layout_of(self.fragments, ref) if ref.tensor in self.fragments else None

    def learn(self, ref: TileRef, f: Fragment, op: TileOp) -> Conflict | None:
        """Notes the layout of a tensor that has none, of which tile `ref` has layout `f`."""
        whole = self.parts.whole(ref, f)
        if whole is None:
            return self._spread(ref, f, op)
        self.fragments[ref.tensor] = whole
        self.origin[ref.tensor] = op
        return None

    def _spread(self, ref: TileRef, f: Fragment, op: TileOp) -> Conflict:
        name = ref.tensor
        modes = ", ".join(map(str, self.parts.order[name]))
        return Conflict(
            op,
            name,
            name_of(op),
            f"a part at {self.parts.cuts[name]}",
            op.span,
            f"it is taken in parts along mode {modes}, all of which every thread has to hold, and "
            f"{f} spreads it over threads",
            cut=True,
        )


def component_rules(component: Component) -> tuple[Rule, ...]:
    """Every direction of every equation of the component's operations."""
    return tuple(r for item in component.ops for r in _rules(item.op))


def _rules(op: TileOp) -> list[Rule]:
    def both(a: TileRef, b: TileRef) -> list[Rule]:
        return [Rule(op, a, b), Rule(op, b, a)]

    def spread(src: TileRef, dst: TileRef) -> list[Rule]:
        """Rules of an operand that may repeat along dimensions of the result."""
        dims = broadcast_dims(src, dst)
        return [Rule(op, dst, src, dims)] if dims else both(dst, src)

    match op:
        case CastTile():
            return both(op.src, op.dst)
        case Relabel():
            turn = Turn(op.order, op.bits, op.src.shape, op.dst.shape)
            back = replace(turn, back=True)
            return [Rule(op, op.src, op.dst, (), turn), Rule(op, op.dst, op.src, (), back)]
        case Elementwise():
            return [rule for src in op.srcs for rule in spread(src, op.dst)]
        case Reduce():
            down = Rule(op, op.src, op.dst, (op.axis,), keep=op.keep)
            if op.src.shape != op.dst.shape:
                return [down]
            # Along an axis of extent 1 nothing is collapsed, and each follows from the other.
            return [down, Rule(op, op.dst, op.src, (op.axis,), keep=op.keep)]
        case Scan():
            result, *alike = tiles(op)
            return [rule for ref in alike for rule in both(result, ref)]
        case ForElements():
            visited, *others = tiles(op)
            return [rule for ref in others for rule in spread(ref, visited)]
        case Copy() if op.update is not None:
            # Each thread updates by the elements that it holds, and gets back what was there.
            other = (op.update.old, op.update.compare)
            return [rule for ref in other if ref is not None for rule in both(op.src, ref)]
        case Copy() | Fill() | Prefetch() | Gemm() | Rearrange():
            # Memory has a layout of its own, a gemm has anchors, a rearrange leaves layouts free.
            return []
        case _:
            assert_never(op)


def parts_of(graph: Graph, component: Component, rules: Sequence[Rule]) -> Parts:
    """What the component's operations take apart; raises Apart, located, where no layout has all
    parts in one piece."""
    tensors = {t.name: t for t in map(graph.tensors.__getitem__, component.tensors)}
    registers = {n: t for n, t in tensors.items() if isinstance(t, RegisterTensor)}
    uses = [(ref, item.op.span) for item in component.ops for ref in tiles(item.op)]
    return component_parts(registers, uses, [(r.known, r.unknown) for r in rules if r.turn is None])


def close(rules: Sequence[Rule], state: State) -> Conflict | None:
    """Applies the rules until no new layout appears, or one that its tensor cannot have."""
    changed = True
    while changed:
        changed = False
        for rule in rules:
            f = state.known(rule.known)
            if f is not None and rule.unknown.tensor not in state.fragments:
                want = rule.apply(f)
                if want is None:
                    return _unlike(rule, state, f)
                problem = state.learn(rule.unknown, want, rule.op)
                if problem is not None:
                    return problem
                changed = True
    return None


def violated(rules: Sequence[Rule], state: State) -> Conflict | None:
    """The first equation that the known layouts break."""
    for rule in rules:
        f, g = state.known(rule.known), state.known(rule.unknown)
        if f is None or g is None:
            continue
        want = rule.apply(f)
        if want is None:
            return _unlike(rule, state, f)
        if want != g and register_map(want, g) is None:
            first = state.origin.get(rule.known.tensor, rule.op)
            second = state.origin.get(rule.unknown.tensor, rule.op)
            name = rule.unknown.tensor
            return Conflict(
                rule.op,
                name,
                name_of(first),
                name_of(second),
                rule.op.span,
                f"`{name}` would have to be {want}, but is {g}",
            )
    return None


def _unlike(rule: Rule, state: State, f: Fragment) -> Conflict:
    """The layout `f` of what a rule knows gives its other side none."""
    name = rule.known.tensor
    first = state.origin.get(name, rule.op)
    reason = f"{f} does not leave every thread whole elements, or modes, of `{rule.unknown.tensor}`"
    return Conflict(rule.op, name, name_of(first), name_of(rule.op), rule.op.span, reason)


def component_refs(component: Component, name: str) -> list[TileRef]:
    """Every use of `name` by an operation of the component."""
    return [r for item in component.ops for r in tiles(item.op) if r.tensor == name]


def name_of(op: TileOp) -> str:
    """`gemm at file:line`."""
    return f"{kind(op)} at {op.span}"
