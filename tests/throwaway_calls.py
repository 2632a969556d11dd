"""Run beside a copy of the sources that has `Throwaway` and `Again`: gives each to every function
that makes a difference between kinds of statements, and prints, as JSON, what came of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

from numpy import zeros

from hexcute_core.arch import arch
from hexcute_core.dtypes import boolean, f32, i32
from hexcute_core.errors import SourceSpan
from hexcute_core.frontend.language.builder import Builder
from hexcute_core.frontend.laws.pending import check_pending
from hexcute_core.frontend.laws.role_laws import check_laws
from hexcute_core.lowering import lower
from hexcute_core.lowering.arena import build_arena
from hexcute_core.lowering.stores import find_stores
from hexcute_core.scalar import Const
from hexcute_core.simulator import interpret
from hexcute_core.synthesis import synthesize
from hexcute_core.synthesis.compute_cost import compute_clocks
from hexcute_core.synthesis.explain.explanation import explanation
from hexcute_core.synthesis.graph import build_graph
from hexcute_core.synthesis.multicast import find_multicasts
from hexcute_core.synthesis.proof.check import check
from hexcute_core.synthesis.propagate import component_rules
from hexcute_core.synthesis.solution import subject
from hexcute_core.synthesis.timeline import block_clocks
from hexcute_core.tile import (
    Copy,
    Fill,
    GemmWait,
    GlobalTensor,
    GlobalView,
    PipelineWait,
    RegisterTensor,
    SubMode,
    Sync,
    TileProgram,
)
from hexcute_core.tile.ir import Again, Promise, Stmt, Throwaway
from hexcute_core.tile.printer import show_program
from hexcute_core.tile.remote import slots_reached
from hexcute_core.tile.teams import by_team
from hexcute_core.tile.tensors import TileRef
from hexcute_core.tile.verify import verify

AT = SourceSpan("k.py", 1)
ZERO, ONE = Const(0, i32), Const(1, i32)
R, S = (TileRef(name, (ZERO, ZERO), (32, 8), (0, 1)) for name in "rs")
N, M = Const(32, i32), Const(8, i32)
MODES = ((SubMode(N, ONE, 0),), (SubMode(M, ONE, 1),))
TENSORS = (
    *(RegisterTensor(name, f32, (32, 8), AT) for name in "rs"),
    GlobalView("g", "p", f32, (ZERO, ZERO), MODES, AT),
)
OP = Throwaway(7, R, S, AT)
NEST = Again(Const(True, boolean), (Sync(AT),), AT)
SM90 = arch("sm_90")


def program(*body: Stmt) -> TileProgram:
    """A kernel whose result is `r`."""
    params, grid = (GlobalTensor("p", f32, (N, M), AT),), (ONE, ONE, ONE)
    stored = (*body, Copy(9, R, replace(R, tensor="g"), AT))
    return TileProgram("k", params, (), (), grid, 32, TENSORS, stored, Promise(), AT)


KNOWN = synthesize(program(Fill(0, R, Const(0.0, f32), AT)), SM90)


def calls() -> Iterator[tuple[str, Callable[[], object]]]:
    """Functions by name, each of what it may not pass over."""
    for kind, stmt in (("op", OP), ("nest", NEST)):
        whole = program(stmt)
        solved = replace(KNOWN, program=whole)
        yield f"verify {kind}", lambda p=whole: verify(p)
        yield f"show {kind}", lambda p=whole: show_program(p)
        yield f"interpret {kind}", lambda p=whole: interpret(p, {"p": zeros((32, 8), "f4")}, {})
        yield f"synthesize {kind}", lambda p=whole: synthesize(p, SM90)
        yield f"check {kind}", lambda s=solved: check(s)
        yield f"explain {kind}", lambda s=solved: explanation(s, SM90)
        yield f"clocks {kind}", lambda s=solved: block_clocks(s)
        yield f"lower {kind}", lambda s=solved: lower(s, SM90)
    graph = build_graph(program(OP))
    yield "compute_clocks op", lambda: compute_clocks(OP, {}, graph.facts, 1.0)
    yield "rules op", lambda: [component_rules(c) for c in graph.components]
    yield "subject op", lambda: subject(OP)
    inside = program(NEST, GemmWait(0, AT), PipelineWait("p", ZERO, ZERO, AT))
    yield "laws nest", lambda: check_laws(inside)
    yield "pending nest", lambda: check_pending(inside)
    yield "slots nest", lambda: list(slots_reached(inside))
    yield "graph nest", lambda: build_graph(inside)
    yield "emit nest", lambda: Builder(AT, (), ()).emit(NEST)
    clustered = replace(inside, cluster_dim=(2, 1, 1))
    yield "multicast nest", lambda: find_multicasts(clustered, {})
    yield "arena nest", lambda: build_arena(inside, SM90)
    yield "teams nest", lambda: list(by_team(inside))
    yield "stores nest", lambda: find_stores(inside, KNOWN)


def outcome(call: Callable[[], object]) -> str:
    """The error that a call ends in, or that it ends in none."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


if __name__ == "__main__":
    print(json.dumps({name: outcome(call) for name, call in calls()}))
