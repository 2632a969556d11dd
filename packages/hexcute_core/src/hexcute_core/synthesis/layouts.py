"""Candidate layouts of one component: every anchor choice that propagates without conflict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice, product

from hexcute_core.arch import Arch, Fragment
from hexcute_core.errors import LayoutConflict, NoLayout
from hexcute_core.synthesis.anchor import coalesced, vector_that_spreads
from hexcute_core.synthesis.gemm import GemmAnchor, gemm_anchors, mma_rows
from hexcute_core.synthesis.graph import Component, Graph
from hexcute_core.synthesis.memory import describe_global
from hexcute_core.synthesis.propagate import Assignment, Conflict, propagate, tile_shape
from hexcute_core.synthesis.solution import Rejected
from hexcute_core.tile import Copy, Gemm, GlobalView, TileRef

# A component offers this many layouts to the joint search; they come best first.
CANDIDATES = 8
# Combinations of anchors tried for them, for components with several gemms.
ATTEMPTS = 256


@dataclass(frozen=True)
class ComponentChoices:
    """Layouts of one component, best first, and the anchors that failed."""

    assignments: tuple[Assignment, ...]
    rejected: tuple[Rejected, ...]


def component_choices(
    graph: Graph, arch: Arch, component: Component, forced: Mapping[str, Fragment]
) -> ComponentChoices:
    """Raises NoLayout where no instruction fits a gemm, LayoutConflict where no anchors agree."""
    gemms = [item.op for item in component.ops if isinstance(item.op, Gemm)]
    # Gemms of the same tensors (an unrolled loop's) have one anchor.
    alike: dict[tuple[object, ...], list[Gemm]] = {}
    for op in gemms:
        names = (op.c.tensor, op.a.tensor, op.b.tensor, op.a.shape, op.b.shape, op.warps)
        alike.setdefault(names, []).append(op)
    anchors = [_anchors(graph, arch, ops[0]) for ops in alike.values()]
    found: list[Assignment] = []
    rejected: list[Rejected] = []
    conflict: Conflict | None = None

    def default(name: str) -> Fragment:
        return forced.get(name) or _default(graph, component, name)

    for combo in islice(product(*anchors), ATTEMPTS):
        chosen = {op.id: anchor for ops, anchor in zip(alike.values(), combo) for op in ops}
        outcome = propagate(graph, component, chosen, default, forced)
        if isinstance(outcome, Conflict):
            conflict = conflict or outcome
            rejected.append(_rejected(chosen, outcome))
            continue
        found.append(outcome)
        if len(found) == CANDIDATES:
            break
    if not found:
        assert conflict is not None
        raise LayoutConflict(
            f"{conflict.first} and {conflict.second} need different layouts of "
            f"`{conflict.tensor}`: {conflict.reason}",
            conflict.span,
            "put hx.rearrange(...) between them, or give both the same warps=(m, n)",
        )
    return ComponentChoices(tuple(found), tuple(rejected))


def _rejected(chosen: Mapping[int, GemmAnchor], conflict: Conflict) -> Rejected:
    names = ", ".join(
        dict.fromkeys(f"{a.row.name} {a.groups} {a.k_order}" for a in chosen.values())
    )
    return Rejected(conflict.tensor, names, conflict.reason, conflict.span)


def _anchors(graph: Graph, arch: Arch, op: Gemm) -> list[GemmAnchor]:
    tensors = [graph.program.tensor(ref.tensor) for ref in (op.a, op.b, op.c)]
    a, b, c = (t.dtype.name for t in tensors)
    rows = mma_rows(arch, a, b, c)
    if not rows:
        known = sorted({f"{r.a_dtype} x {r.b_dtype} -> {r.c_dtype}" for r in arch.mmas})
        raise NoLayout(
            f"{arch.name} has no instruction for gemm of {a} x {b} -> {c}",
            op.span,
            f"cast the operands; there are {', '.join(known)}",
        )
    (m, n), k = op.c.shape, op.a.shape[1]
    threads = graph.program.block_dim
    found = [x for row in rows for x in gemm_anchors(row, m, n, k, threads, op.warps)]
    if not found:
        tiles = ", ".join("x".join(map(str, row.tile)) for row in rows)
        arranged = f" arranged {op.warps}" if op.warps else ""
        raise NoLayout(
            f"gemm of {m}x{n}x{k} on {threads} threads{arranged}: no instruction ({tiles}) tiles "
            f"it with {threads // 32} warps",
            op.span,
            "make the tile a multiple of the instruction times the warps along M and N",
        )
    return found


def _default(graph: Graph, component: Component, name: str) -> Fragment:
    """The layout of a tensor that no equation reaches: coalesced for its widest copy."""
    shape = tile_shape(component, name)
    threads = graph.program.block_dim
    bits = graph.program.tensor(name).dtype.bits
    best: tuple[int, tuple[int, ...], int] | None = None
    for item in component.ops:
        op = item.op
        if not isinstance(op, Copy) or name not in (op.src.tensor, op.dst.tensor):
            continue
        other: TileRef = op.dst if op.src.tensor == name else op.src
        if isinstance(graph.program.tensor(other.tensor), GlobalView):
            memory = describe_global(graph.program, graph.facts, other)
            best = (2, memory.order, memory.vector)
        elif best is None:
            best = (1, tuple(reversed(range(len(shape)))), 128 // bits)
    order, widest = (best[1], best[2]) if best else (tuple(reversed(range(len(shape)))), 1)
    widest = min(widest, 128 // bits)
    while shape[order[0]] % widest:
        widest //= 2
    return coalesced(shape, order, vector_that_spreads(shape, order, widest, threads), threads)
