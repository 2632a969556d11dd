"""synthesize : TileProgram, Arch -> Solution."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from time import perf_counter
from typing import TypeAlias

from hexcute_core.arch import Arch
from hexcute_core.errors import RearrangeWarning
from hexcute_core.synthesis.candidates import ComponentChoices, Conflicts, component_choices
from hexcute_core.synthesis.cost import bulk_cost
from hexcute_core.synthesis.dead import remove_dead
from hexcute_core.synthesis.explain.explanation import rearrange_warnings
from hexcute_core.synthesis.graph import Component, Graph, build_graph
from hexcute_core.synthesis.islands import islands
from hexcute_core.synthesis.mending import mend
from hexcute_core.synthesis.multicast import find_multicasts, refused_multicasts
from hexcute_core.synthesis.only import Only, arranged
from hexcute_core.synthesis.prefetches import plan_prefetches
from hexcute_core.synthesis.rearrange import Forced, forced_layouts
from hexcute_core.synthesis.register_parts import Apart
from hexcute_core.synthesis.rewrite import expand
from hexcute_core.synthesis.search import Choice, Search, Unmovable
from hexcute_core.synthesis.solution import BulkPlan, Multicast, Rejected, Solution
from hexcute_core.tile import Copy, TileProgram

Known: TypeAlias = dict[Component, ComponentChoices]


def synthesize(program: TileProgram, arch: Arch, only: Only | None = None) -> Solution:
    """Layouts and instructions for `program` on `arch`, the cheapest found among what `only`
    allows.

    Warns (RearrangeWarning) of rearranges it had to insert. Raises NoLayout or LayoutConflict,
    located, where there is no solution.
    """
    started = perf_counter()
    only = only or {}
    program = arranged(remove_dead(program), only)
    known: Known = {}
    try:
        solution = _solve(program, arch, only, known)
    except (Conflicts, Unmovable, Apart) as cause:
        mended = mend(program, cause, lambda changed: _solve(changed, arch, only, known))
        if mended is None:
            raise
        solution = mended
        for text in rearrange_warnings(solution):
            warnings.warn(text, RearrangeWarning, stacklevel=2)
    return replace(solution, seconds=perf_counter() - started)


def _solve(program: TileProgram, arch: Arch, only: Only, known: Known) -> Solution:
    forced = forced_layouts(program)
    expanded = expand(program)
    graph = build_graph(expanded.program)
    found = _choices(graph, arch, forced, known)
    search = Search(graph, arch, expanded.detours, only)
    parts = [search.best(i, [found[c] for c in i.components]) for i in islands(graph)]
    exchanges = {op: e for p in parts for op, e in p.exchanges.items()}
    rejected: list[Rejected] = [r for p in parts for r in p.rejected]
    solved = expand(program, kept=exchanges).program
    bulk = {i: b for p in parts for i, b in p.bulk.items()}
    shared_loads = find_multicasts(solved, bulk)
    rejected += refused_multicasts(solved, shared_loads)
    prefetches, useless = plan_prefetches(graph, arch, bulk)
    rejected += useless
    return Solution(
        program=solved,
        fragments={n: f for p in parts for n, f in p.fragments.items()},
        shared={n: s for p in parts for n, s in p.shared.items()},
        copies={i: c for p in parts for i, c in p.copies.items()},
        gemms={i: g for p in parts for a in p.assignments for i, g in a.gemms.items()},
        exchanges=exchanges,
        op_cost=_costs(graph, parts, prefetches),
        rejected=tuple(rejected),
        exact=all(p.exact for p in parts),
        seconds=0.0,
        bulk={**bulk, **prefetches},
        wgmmas={i: w for p in parts for a in p.assignments for i, w in a.wgmmas.items()},
        operands={key: o for p in parts for key, o in p.operands.items()},
        multicasts={i: m for i, m in shared_loads.items() if isinstance(m, Multicast)},
    )


def _choices(
    graph: Graph, arch: Arch, forced: Mapping[str, Forced], known: Known
) -> list[ComponentChoices]:
    """Layouts of every component. A rearrange put in changes one of them: those of the others are
    `known`, and a program in which many break an equation is solved once for each."""
    found = []
    for component in graph.components:
        name = _unnumbered(component)
        if name not in known:
            known[name] = component_choices(graph, arch, component, forced)
        found.append(known[name])
    return found


def _unnumbered(component: Component) -> Component:
    """`component` without the numbers of its copies: those of a rearrange get new ones whenever
    another is put in."""
    ops = (
        replace(item, op=replace(item.op, id=0)) if isinstance(item.op, Copy) else item
        for item in component.ops
    )
    return Component(component.tensors, tuple(ops))


def _costs(
    graph: Graph, parts: list[Choice], prefetches: Mapping[int, BulkPlan]
) -> dict[int, float]:
    weights = {item.op.id: item.weight for item in graph.ops}
    fetched = {i: weights[i] * bulk_cost(plan) for i, plan in prefetches.items()}
    return {i: cost for p in parts for i, cost in p.op_cost.items()} | fetched
