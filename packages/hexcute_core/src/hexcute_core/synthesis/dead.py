"""Operations without effect are removed: one is kept if an operation that is kept reads its result.

Global memory lives, and so does what thread-level code calls, updates, stores or branches on, and
what an mbarrier waits for: a slot of a pipeline, or a copy that completes on a barrier of the
author's. What an update finds is given back only where somebody asks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from hexcute_core.scalar import Call, free_vars
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
    UpdateElement,
    While,
)
from hexcute_core.tile.ir import TileOp
from hexcute_core.tile.visit import (
    change,
    operations,
    results,
    scalars,
    statements,
    tensors,
    updates,
)


def remove_dead(program: TileProgram) -> TileProgram:
    """`program` without the operations whose results nobody reads, and their tensors."""
    ops = list(operations(program.body))
    live = {t.name for t in program.tensors if isinstance(t, GlobalView)}
    declared = _outer(program)
    kept = {op.id for op in ops if isinstance(op, Copy) and op.completes is not None}
    for slot in (s for s in statements(program.body) if isinstance(s, Produce)):
        kept.update(s.id for s in statements(slot.body) if isinstance(s, Copy))
    live.update(name for op in ops if op.id in kept for name in _reaches(op))
    live.update(stmt.dst.tensor for stmt in updates(program.body))
    writers: dict[str, list[TileOp]] = {}
    for op in ops:
        for ref in results(op):
            writers.setdefault(ref.tensor, []).append(op)
    wanted = [op for op in ops if _acts_itself(op, declared)]
    wanted += [op for name in live for op in writers.get(name, ())]
    while wanted:
        op = wanted.pop()
        if op.id not in kept:
            kept.add(op.id)
            new = set(_reaches(op)) - live
            live |= new
            wanted += (writer for name in new for writer in writers.get(name, ()))
    read = _read(program)

    def f(stmt: Stmt) -> Iterable[Stmt]:
        gone = isinstance(stmt, TileOp) and stmt.id not in kept
        return () if gone else (_silent(stmt, live, read),)

    left = tuple(t for t in program.tensors if t.name in live)
    return replace(program, body=change(program.body, f), tensors=left)


def _reaches(op: TileOp) -> Iterable[str]:
    """The tensors that live because `op` does: not what an update gives back."""
    given = op.update.old if isinstance(op, Copy) and op.update is not None else None
    return (name for name in tensors(op) if given is None or name != given.tensor)


def _silent(stmt: Stmt, live: Collection[str], read: Collection[str]) -> Stmt:
    """`stmt` with updates that give back only what is read."""
    if isinstance(stmt, Copy) and stmt.update is not None and stmt.update.old is not None:
        wanted = stmt.update.old.tensor in live
        return stmt if wanted else replace(stmt, update=replace(stmt.update, old=None))
    if isinstance(stmt, UpdateElement) and stmt.old is not None and stmt.old.name not in read:
        return replace(stmt, old=None)
    if isinstance(stmt, ForElements):
        return replace(stmt, body=change(stmt.body, lambda inner: (_silent(inner, live, read),)))
    return stmt


def _read(program: TileProgram) -> frozenset[str]:
    """Variables that something reads: a statement, or where a view begins."""
    found = [e for stmt in statements(program.body) for e in scalars(stmt)]
    for stmt in statements(program.body):
        found += stmt.coords if isinstance(stmt, SetElement) else ()
    found += [e for t in program.tensors if isinstance(t, GlobalView) for e in t.origin]
    return frozenset(name for e in found for name in free_vars(e))


def _outer(program: TileProgram) -> frozenset[str]:
    """Variables declared outside loops over elements that something reads."""
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
    ) & _read(program)


def _acts_itself(op: TileOp, outer: frozenset[str]) -> bool:
    """Whether `op` lives whoever reads its results."""
    if isinstance(op, ForElements):
        return any(_acts(stmt, outer) for stmt in statements(op.body))
    # What writes no tile is there for another effect.
    return not results(op)


def _acts(stmt: Stmt, outer: frozenset[str]) -> bool:
    """Whether a statement of thread-level code does more than to set elements and its own
    variables."""
    if any(isinstance(node, Call) for e in scalars(stmt) for node in walk(e)):
        return True
    if isinstance(stmt, Assign):
        return stmt.var.name in outer
    return not isinstance(stmt, SetElement | For | While | If)
