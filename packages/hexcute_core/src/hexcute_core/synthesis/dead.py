"""What writes nothing is removed: an operation lives if something that lives reads its result.

Global memory lives, and so does what thread-level code calls, stores or branches on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hexcute_core.synthesis.graph import op_results, op_tensors
from hexcute_core.synthesis.rewrite import change, statements
from hexcute_core.tile import (
    Assign,
    CallStmt,
    CastTile,
    Copy,
    Elementwise,
    Fill,
    ForElements,
    Gemm,
    GlobalView,
    Rearrange,
    Reduce,
    Scan,
    Stmt,
    TileProgram,
)
from hexcute_core.tile.ir import TileOp

_OPS = (Fill, Copy, Gemm, CastTile, Elementwise, Reduce, Scan, Rearrange, ForElements)


def remove_dead(program: TileProgram) -> TileProgram:
    """`program` without the operations whose results nobody reads, and their tensors."""
    ops = [s for s in statements(program.body) if isinstance(s, _OPS)]
    live = {t.name for t in program.tensors if isinstance(t, GlobalView)}
    declared = _outer(program)
    kept: set[int] = set()
    changed = True
    while changed:
        changed = False
        for op in ops:
            if op.id not in kept and _lives(op, live, declared):
                kept.add(op.id)
                live.update(op_tensors(op))
                changed = True
    if len(kept) == len(ops):
        return program

    def f(stmt: Stmt) -> Iterable[Stmt]:
        return () if isinstance(stmt, _OPS) and stmt.id not in kept else (stmt,)

    tensors = tuple(t for t in program.tensors if t.name in live)
    return replace(program, body=change(program.body, f), tensors=tensors)


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
    if isinstance(op, ForElements):
        return any(name in live for name in op_tensors(op)) or any(
            isinstance(s, CallStmt) or (isinstance(s, Assign) and s.var.name in outer)
            for s in statements(op.body)
        )
    return any(ref.tensor in live for ref in op_results(op))
