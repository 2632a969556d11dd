"""synthesize : TileProgram, Arch -> Solution."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice, product
from time import perf_counter

from hexcute_core.arch import Arch, Fragment
from hexcute_core.synthesis.graph import build_graph
from hexcute_core.synthesis.layouts import component_choices
from hexcute_core.synthesis.rearrange import expand, forced_layouts
from hexcute_core.synthesis.search import Leaf, Search
from hexcute_core.synthesis.solution import Rejected, Solution
from hexcute_core.tile import TileProgram

# Combinations of component layouts whose buffers are searched.
LEAVES = 64


def synthesize(program: TileProgram, arch: Arch) -> Solution:
    """Layouts and instructions for `program` on `arch`, the cheapest found.

    Raises NoLayout or LayoutConflict, located, where there is none.
    """
    started = perf_counter()
    forced: Mapping[str, Fragment] = forced_layouts(program)
    program = expand(program)
    graph = build_graph(program)
    choices = [component_choices(graph, arch, c, forced) for c in graph.components]
    search = Search(graph, arch)
    best: Leaf | None = None
    rejected: list[Rejected] = [r for c in choices for r in c.rejected]
    combinations = 1
    for c in choices:
        combinations *= len(c.assignments)
    for combo in islice(product(*(c.assignments for c in choices)), LEAVES):
        leaf = search.evaluate(combo)
        if best is None or leaf.cost < best.cost:
            if best is not None:
                rejected.append(_lost(best, leaf))
            best = leaf
        else:
            rejected.append(_lost(leaf, best))
    assert best is not None
    gemms = {i: p for a in best.assignments for i, p in a.gemms.items()}
    return Solution(
        program=program,
        fragments=best.fragments,
        shared=best.shared,
        copies=best.copies,
        gemms=gemms,
        op_cost=best.op_cost,
        rejected=(*rejected, *best.rejected),
        exact=best.exact and combinations <= LEAVES,
        seconds=perf_counter() - started,
    )


def _lost(leaf: Leaf, winner: Leaf) -> Rejected:
    different = [n for n, f in leaf.fragments.items() if winner.fragments[n] != f]
    layouts = "; ".join(f"{n} {leaf.fragments[n]}" for n in different[:3])
    return Rejected(
        ", ".join(different), layouts, f"{leaf.cost:.0f} clocks, the chosen {winner.cost:.0f}", None
    )
