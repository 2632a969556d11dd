"""Liveness of local names: live_in(s) = reads(s) | (live_out(s) - writes(s)), loops to fixpoint.

A trace turns into run-time control flow, so the frontend must know which names a region changes
for code after it (`live_out`) or for its own next iteration (`carried`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

Names = frozenset[str]
StaticTest = Callable[[ast.expr], "bool | None"]


@dataclass(frozen=True)
class Flow:
    """`live_out[id(s)]`: names read after statement s before being written again; `carried[id(s)]`:
    names a loop's body (or a while's test) may read from before the loop or an earlier iteration;
    `locals`: every name the function writes."""

    live_out: dict[int, Names]
    carried: dict[int, Names]
    locals: Names


@lru_cache(maxsize=512)
def flow_of(node: ast.FunctionDef) -> Flow:
    """The liveness of a function's body."""
    solver = _Solver(frozenset(reads(node)))
    solver.block(node.body, frozenset())
    args = node.args
    params = [a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
    return Flow(solver.live_out, solver.carried, frozenset(params) | frozenset(writes(node.body)))


def reads(node: ast.AST | None, skip: ast.AST | None = None) -> Iterator[str]:
    """Names loaded anywhere below `node`, outside `skip`."""
    if node is None or node is skip:
        return
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield node.id
    for child in ast.iter_child_nodes(node):
        yield from reads(child, skip)


def targets(node: ast.AST | None) -> Iterator[str]:
    """Names bound by an assignment target, in order."""
    match node:
        case ast.Name():
            yield node.id
        case ast.Tuple() | ast.List():
            for element in node.elts:
                yield from targets(element)
        case ast.Starred():
            yield from targets(node.value)
        case _:
            return


def writes(body: Iterable[ast.stmt], static: StaticTest = lambda _: None) -> dict[str, bool]:
    """Names written by statements, in order, and whether by more than `x += ...`.

    `static` decides ifs known now.
    """
    found: dict[str, bool] = {}
    for stmt in body:
        for name, rebound in _writes(stmt, static):
            found[name] = found.get(name, False) or rebound
    return found


def _writes(stmt: ast.stmt, static: StaticTest) -> Iterator[tuple[str, bool]]:
    match stmt:
        case ast.Assign():
            for target in stmt.targets:
                yield from ((name, True) for name in targets(target))
        case ast.AugAssign():
            yield from ((name, False) for name in targets(stmt.target))
        case ast.AnnAssign():
            yield from ((name, True) for name in targets(stmt.target))
        case ast.For():
            yield from ((name, True) for name in targets(stmt.target))
            yield from writes(stmt.body, static).items()
        case ast.While():
            yield from writes(stmt.body, static).items()
        case ast.If():
            known = static(stmt.test)
            if known is not False:
                yield from writes(stmt.body, static).items()
            if known is not True:
                yield from writes(stmt.orelse, static).items()
        case ast.With():
            for item in stmt.items:
                yield from ((name, True) for name in targets(item.optional_vars))
            yield from writes(stmt.body, static).items()
        case _:
            return


class _Solver:
    def __init__(self, everything: Names) -> None:
        self.everything = everything
        self.live_out: dict[int, Names] = {}
        self.carried: dict[int, Names] = {}

    def block(self, body: list[ast.stmt], live: Names) -> Names:
        for stmt in reversed(body):
            self.live_out[id(stmt)] = self.live_out.get(id(stmt), frozenset()) | live
            live = self.statement(stmt, live)
        return live

    def statement(self, stmt: ast.stmt, out: Names) -> Names:
        match stmt:
            case ast.Assign():
                killed = frozenset(n for t in stmt.targets for n in targets(t))
                # A subscript or attribute target reads its base.
                bases = frozenset(n for t in stmt.targets for n in reads(t))
                return (out - killed) | bases | frozenset(reads(stmt.value))
            case ast.AnnAssign():
                killed = frozenset(targets(stmt.target)) if stmt.value is not None else frozenset()
                return (out - killed) | frozenset(reads(stmt.value)) | frozenset(reads(stmt.target))
            case ast.AugAssign():
                used = frozenset(targets(stmt.target)) | frozenset(reads(stmt.target))
                return out | used | frozenset(reads(stmt.value))
            case ast.If():
                then, other = self.block(stmt.body, out), self.block(stmt.orelse, out)
                return frozenset(reads(stmt.test)) | then | other
            case ast.For():
                return self.loop(stmt, out, frozenset(targets(stmt.target)), stmt.iter, None)
            case ast.While():
                return self.loop(stmt, out, frozenset(), None, stmt.test)
            case ast.With():
                live = self.block(stmt.body, out)
                for item in reversed(stmt.items):
                    live -= frozenset(targets(item.optional_vars))
                    live |= frozenset(reads(item.context_expr))
                return live
            case ast.Return():
                return frozenset(reads(stmt.value))
            case ast.Break() | ast.Continue():
                # Where a jump lands is not followed: everything the function reads stays live.
                return out | self.everything
            case _:
                return out | frozenset(reads(stmt))

    def loop(
        self,
        stmt: ast.For | ast.While,
        out: Names,
        bound: Names,
        once: ast.expr | None,
        each: ast.expr | None,
    ) -> Names:
        tested = frozenset(reads(each))
        # Within an outer loop the names found so far stay: to find them anew each time would
        # double the work at every level.
        head = self.carried.get(id(stmt), frozenset())
        while True:
            grown = (self.block(stmt.body, out | head | tested) - bound) | tested
            if grown <= head:
                break
            head |= grown
        self.carried[id(stmt)] = head
        return out | head | frozenset(reads(once))
