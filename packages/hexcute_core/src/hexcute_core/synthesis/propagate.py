"""Fixpoint of the equations with one unknown: layouts spread from what is known.

elementwise, cast, scan and register copies: all layouts equal, a broadcast operand a projection;
reduce: `g = mu o f`, mu collapsing the reduced dimension. Equal means that every thread holds the
same elements; their order in its registers is free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hexcute_core.arch import Fragment
from hexcute_core.errors import SourceSpan
from hexcute_core.synthesis.graph import Component, Graph
from hexcute_core.synthesis.registers import register_map
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
    Scan,
    TileRef,
)
from hexcute_core.tile.ir import TileOp
from hexcute_core.tile.visit import tiles
from hexcute_core.unions import assert_never


@dataclass(frozen=True)
class Conflict:
    """Two operations that want one tensor in different layouts; `op` is the one whose equation
    breaks."""

    op: TileOp
    tensor: str
    first: str
    second: str
    span: SourceSpan
    reason: str


@dataclass(frozen=True)
class Rule:
    """`unknown` follows from `known`, with dimensions `collapse` of its tile projected away."""

    op: TileOp
    known: str
    unknown: str
    collapse: tuple[int, ...]
    shape: tuple[int, ...]

    def apply(self, f: Fragment) -> Fragment:
        """The layout of `unknown` where `known` has layout `f`."""
        return f.project(self.collapse, self.shape) if self.collapse else f


@dataclass
class State:
    """Layouts known so far, with the operation that each came from."""

    fragments: dict[str, Fragment]
    origin: dict[str, TileOp] = field(default_factory=dict)

    def copy(self) -> State:
        return State(dict(self.fragments), dict(self.origin))

    def learn(self, name: str, f: Fragment, op: TileOp) -> bool:
        """Notes the layout of a tensor that had none; whether it was news."""
        if name in self.fragments:
            return False
        self.fragments[name] = f
        self.origin[name] = op
        return True


def component_rules(graph: Graph, component: Component) -> tuple[Rule, ...]:
    """Every direction of every equation of the component's operations."""
    return tuple(r for item in component.ops for r in _rules(graph, item.op))


def _rules(graph: Graph, op: TileOp) -> list[Rule]:
    def both(a: TileRef, b: TileRef) -> list[Rule]:
        return [Rule(op, x.tensor, y.tensor, (), y.shape) for x, y in ((a, b), (b, a))]

    match op:
        case CastTile():
            return both(op.src, op.dst)
        case Copy() if graph.is_register(op.src) and graph.is_register(op.dst):
            return both(op.src, op.dst)
        case Elementwise():
            rules = []
            for src in op.srcs:
                dims = broadcast_dims(src, op.dst)
                rules.append(Rule(op, op.dst.tensor, src.tensor, dims, src.shape))
                if not dims:
                    rules.append(Rule(op, src.tensor, op.dst.tensor, (), op.dst.shape))
            return rules
        case Reduce():
            down = Rule(op, op.src.tensor, op.dst.tensor, (op.axis,), op.dst.shape)
            if op.src.shape != op.dst.shape:
                return [down]
            # Along an axis of extent 1 nothing is collapsed, and each follows from the other.
            return [down, Rule(op, op.dst.tensor, op.src.tensor, (op.axis,), op.src.shape)]
        case Scan():
            result, *alike = tiles(op)
            return [rule for ref in alike for rule in both(result, ref)]
        case ForElements():
            visited, *others = tiles(op)
            return [rule for ref in others for rule in both(visited, ref)]
        case Copy() | Fill() | Prefetch() | Gemm() | Rearrange():
            # Memory has a layout of its own, a gemm has anchors, a rearrange leaves layouts free.
            return []
        case _:
            assert_never(op)


def broadcast_dims(src: TileRef, dst: TileRef) -> tuple[int, ...]:
    """Dimensions along which `src` has extent 1 and `dst` more."""
    return tuple(d for d, (s, t) in enumerate(zip(src.shape, dst.shape)) if s == 1 and t > 1)


def close(rules: Sequence[Rule], state: State) -> None:
    """Applies the rules until no new layout appears."""
    changed = True
    while changed:
        changed = False
        for rule in rules:
            f = state.fragments.get(rule.known)
            if f is not None and rule.unknown not in state.fragments:
                changed |= state.learn(rule.unknown, rule.apply(f), rule.op)


def violated(rules: Sequence[Rule], state: State) -> Conflict | None:
    """The first equation that the known layouts break."""
    for rule in rules:
        f, g = state.fragments.get(rule.known), state.fragments.get(rule.unknown)
        if f is None or g is None:
            continue
        want = rule.apply(f)
        if want != g and register_map(want, g) is None:
            first = state.origin.get(rule.known, rule.op)
            second = state.origin.get(rule.unknown, rule.op)
            return Conflict(
                rule.op,
                rule.unknown,
                name_of(first),
                name_of(second),
                rule.op.span,
                f"`{rule.unknown}` would have to be {want}, but is {g}",
            )
    return None


def tile_shape(component: Component, name: str) -> tuple[int, ...]:
    """Shape of the part of `name` that operations use: its fragment's tile."""
    best: TileRef | None = None
    for ref in component_refs(component, name):
        if best is None or len(ref.kept) < len(best.kept):
            best = ref
    return best.shape if best is not None else ()


def component_refs(component: Component, name: str) -> list[TileRef]:
    """Every use of `name` by an operation of the component."""
    return [r for item in component.ops for r in tiles(item.op) if r.tensor == name]


def name_of(op: TileOp) -> str:
    """`gemm at file:line`."""
    return f"{kind(op)} at {op.span}"
