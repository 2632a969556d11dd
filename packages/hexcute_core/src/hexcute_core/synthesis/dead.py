"""What writes nothing is removed: an operation lives if something that lives reads its result.

Global memory lives, and so does what thread-level code calls, stores or branches on, and what an
mbarrier waits for: a slot of a pipeline, or a copy that completes on a barrier of the author's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hexcute_core.scalar import Call
from hexcute_core.scalar.visit import walk
from hexcute_core.tile import (
    Assign,
    Copy,
    For,
    ForElements,
    GlobalView,
    If,
    Produce,
    SetElement,
    Stmt,
    TileProgram,
    While,
)
from hexcute_core.tile.ir import TileOp
from hexcute_core.tile.visit import change, operations, results, scalars, statements, tensors


def remove_dead(program: TileProgram) -> TileProgram:
    """`program` without the operations whose results nobody reads, and their tensors."""
    ops = list(operations(program.body))
    live = {t.name for t in program.tensors if isinstance(t, GlobalView)}
    declared = _outer(program)
    kept = {op.id for op in ops if isinstance(op, Copy) and op.completes is not None}
    for slot in (s for s in statements(program.body) if isinstance(s, Produce)):
        kept.update(s.id for s in statements(slot.body) if isinstance(s, Copy))
    live.update(name for op in ops if op.id in kept for name in tensors(op))
    changed = True
    while changed:
        changed = False
        for op in ops:
            if op.id not in kept and _lives(op, live, declared):
                kept.add(op.id)
                live.update(tensors(op))
                changed = True
    if len(kept) == len(ops):
        return program

    def f(stmt: Stmt) -> Iterable[Stmt]:
        return () if isinstance(stmt, TileOp) and stmt.id not in kept else (stmt,)

    left = tuple(t for t in program.tensors if t.name in live)
    return replace(program, body=change(program.body, f), tensors=left)


def _outer(program: TileProgram) -> frozenset[str]:
    """Variables declared outside loops over elements."""
    inside = {
        id(s)
        for loop in statements(program.body)
        if isinstance(loop, ForElements)
        for s in statements(loop.body)
    }
    return frozenset(
        s.var.name
        for s in statements(program.body)
        if isinstance(s, Assign) and s.declares and id(s) not in inside
    )


def _lives(op: TileOp, live: set[str], outer: frozenset[str]) -> bool:
    found = results(op)
    if isinstance(op, ForElements):
        acts = any(_acts(stmt, outer) for stmt in statements(op.body))
    else:
        # What writes no tile is there for another effect.
        acts = not found
    return acts or any(ref.tensor in live for ref in found)


def _acts(stmt: Stmt, outer: frozenset[str]) -> bool:
    """Whether a statement of thread-level code does more than to set elements and its own
    variables."""
    if any(isinstance(node, Call) for e in scalars(stmt) for node in walk(e)):
        return True
    if isinstance(stmt, Assign):
        return stmt.var.name in outer
    return not isinstance(stmt, SetElement | For | While | If)
