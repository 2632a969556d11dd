"""Fixpoint of the equations with one unknown, from an anchor outwards.

elementwise, cast and register copies: all layouts equal, a broadcast operand a projection;
reduce: `g = mu o f`, mu collapsing the reduced dimension. The rules run until nothing changes;
tensors that no equation reaches get a layout of their own from their widest copy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hexcute_core.arch import Fragment
from hexcute_core.errors import SourceSpan
from hexcute_core.synthesis.gemm import GemmAnchor, plan_gemm
from hexcute_core.synthesis.graph import Component, Graph, op_refs, op_tensors
from hexcute_core.synthesis.solution import GemmPlan
from hexcute_core.tile import (
    CastTile,
    Copy,
    Elementwise,
    ForElements,
    Gemm,
    Reduce,
    TileRef,
)
from hexcute_core.tile.ir import TileOp


@dataclass(frozen=True)
class Conflict:
    """Two operations that want one tensor in different layouts."""

    tensor: str
    first: str
    second: str
    span: SourceSpan
    reason: str


@dataclass(frozen=True)
class Assignment:
    """Layouts of a component's tensors over their tiles, with the plans of its gemms."""

    fragments: dict[str, Fragment]
    gemms: dict[int, GemmPlan]


Default = Callable[[str], Fragment]


def propagate(
    graph: Graph,
    component: Component,
    anchors: Mapping[int, GemmAnchor],
    default: Default,
    forced: Mapping[str, Fragment],
) -> Assignment | Conflict:
    """Layouts for every tensor of `component`, given its gemms' anchors and `forced` layouts."""
    state = {name: f for name, f in forced.items() if name in component.tensors}
    origin: dict[str, TileOp] = {}
    gemms: dict[int, GemmPlan] = {}
    ops = [item.op for item in component.ops]
    for op in ops:
        if isinstance(op, Gemm):
            anchor = anchors[op.id]
            for ref, f in zip((op.c, op.a, op.b), anchor.layouts):
                state.setdefault(ref.tensor, f)
                origin.setdefault(ref.tensor, op)
    while True:
        _close(graph, ops, state, origin)
        missing = [t for t in component.tensors if t not in state]
        if not missing:
            break
        # The largest tile first: broadcast and reduced tensors follow from it.
        name = max(missing, key=lambda t: _elements(graph, component, t))
        state[name] = default(name)
    for op in ops:
        problem = _check(graph, op, state, origin)
        if problem is not None:
            return problem
        if isinstance(op, Gemm):
            plan = plan_gemm(
                anchors[op.id], state[op.c.tensor], state[op.a.tensor], state[op.b.tensor]
            )
            if isinstance(plan, str):
                first = next(
                    (origin[r.tensor] for r in (op.a, op.b, op.c)
                     if origin.get(r.tensor, op) is not op), op,
                )  # fmt: skip
                return Conflict(op.c.tensor, _name(op), _name(first), op.span, plan)
            gemms[op.id] = plan
    return Assignment(state, gemms)


def _elements(graph: Graph, component: Component, name: str) -> int:
    shape = tile_shape(component, name)
    total = 1
    for extent in shape:
        total *= extent
    return total


def tile_shape(component: Component, name: str) -> tuple[int, ...]:
    """Shape of the part of `name` that operations use: its fragment's tile."""
    best: TileRef | None = None
    for ref in component_refs(component, name):
        if best is None or len(ref.kept) < len(best.kept):
            best = ref
    return best.shape if best is not None else ()


def component_refs(component: Component, name: str) -> list[TileRef]:
    """Every use of `name` by an operation of the component."""
    return [r for item in component.ops for r in op_refs(item.op) if r.tensor == name]


def _close(
    graph: Graph, ops: list[TileOp], state: dict[str, Fragment], origin: dict[str, TileOp]
) -> None:
    """Applies the rules until no new layout appears."""

    def learn(name: str, f: Fragment, op: TileOp) -> bool:
        if name in state:
            return False
        state[name] = f
        origin[name] = op
        return True

    changed = True
    while changed:
        changed = False
        for op in ops:
            for known, unknown, collapse in _rules(graph, op):
                if known.tensor in state and unknown.tensor not in state:
                    f = state[known.tensor]
                    if collapse:
                        f = f.project(collapse, unknown.shape)
                    changed |= learn(unknown.tensor, f, op)
            if isinstance(op, ForElements):
                shared = [t for t in op_tensors(op) if t in state]
                for name in op_tensors(op):
                    if shared:
                        changed |= learn(name, state[shared[0]], op)


def _rules(graph: Graph, op: TileOp) -> list[tuple[TileRef, TileRef, tuple[int, ...]]]:
    """(known, unknown, dimensions that collapse on the way) for every direction of `op`."""
    match op:
        case CastTile():
            return [(op.src, op.dst, ()), (op.dst, op.src, ())]
        case Copy() if graph.is_register(op.src) and graph.is_register(op.dst):
            return [(op.src, op.dst, ()), (op.dst, op.src, ())]
        case Elementwise():
            rules = []
            for src in op.srcs:
                dims = broadcast_dims(src, op.dst)
                rules.append((op.dst, src, dims))
                if not dims:
                    rules.append((src, op.dst, ()))
            return rules
        case Reduce():
            return [(op.src, op.dst, (op.axis,))]
        case _:
            return []


def broadcast_dims(src: TileRef, dst: TileRef) -> tuple[int, ...]:
    """Dimensions along which `src` has extent 1 and `dst` more."""
    return tuple(d for d, (s, t) in enumerate(zip(src.shape, dst.shape)) if s == 1 and t > 1)


def _check(
    graph: Graph, op: TileOp, state: dict[str, Fragment], origin: dict[str, TileOp]
) -> Conflict | None:
    """Verifies that every equation of `op` holds for the chosen layouts."""
    for known, unknown, collapse in _rules(graph, op):
        f = state[known.tensor]
        if collapse:
            f = f.project(collapse, unknown.shape)
        if not _equal(f, state[unknown.tensor]):
            first, second = origin.get(known.tensor), origin.get(unknown.tensor)
            return Conflict(
                unknown.tensor,
                _name(first or op),
                _name(second or op),
                op.span,
                f"`{unknown.tensor}` would have to be {f}, but is {state[unknown.tensor]}",
            )
    if isinstance(op, ForElements):
        names = op_tensors(op)
        for name in names[1:]:
            if not _equal(state[names[0]], state[name]):
                return Conflict(
                    name, _name(op), _name(origin.get(name, op)), op.span,
                    f"`{names[0]}` is {state[names[0]]}, `{name}` is {state[name]}",
                )  # fmt: skip
    return None


def _equal(f: Fragment, g: Fragment) -> bool:
    if (f.thread, f.value) == (g.thread, g.value):
        return True
    if f.threads != g.threads or f.values != g.values:
        return False
    return f.table() == g.table()


def _name(op: TileOp) -> str:
    return f"{type(op).__name__.lower()} at {op.span}"
