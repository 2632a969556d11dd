"""`if c: A; return` followed by B  ->  `if c: A` `else: B`: early exits become branches.

Only returns without a value are rewritten; a tile program has no jump. What follows an `if` goes to
the end of each of its branches, where it counts on the paths that have not returned.
"""

from __future__ import annotations

import ast
import copy


def without_early_returns(node: ast.FunctionDef) -> ast.FunctionDef:
    """`node` with every bare return of its ifs, and of ifs inside these, turned into branches."""
    node.body = _rewrite(node.body)
    return node


def _rewrite(body: list[ast.stmt]) -> list[ast.stmt]:
    for position, stmt in enumerate(body):
        if not isinstance(stmt, ast.If) or not _returns(stmt):
            continue
        rest = body[position + 1 :]
        stmt.body = _until_return(stmt, stmt.body + copy.deepcopy(rest))
        stmt.orelse = _until_return(stmt, stmt.orelse + rest)
        return body[: position + 1]
    return body


def _until_return(where: ast.If, body: list[ast.stmt]) -> list[ast.stmt]:
    """A branch up to its own return, ifs inside it rewritten."""
    for position, stmt in enumerate(body):
        if _bare(stmt):
            body = body[:position] or [ast.copy_location(ast.Pass(), where)]
            break
    return _rewrite(body)


def _bare(stmt: ast.stmt) -> bool:
    return isinstance(stmt, ast.Return) and stmt.value is None


def _returns(stmt: ast.If) -> bool:
    """Whether some path through the branches of an if ends in a bare return."""
    return any(
        _bare(inner) or (isinstance(inner, ast.If) and _returns(inner))
        for inner in (*stmt.body, *stmt.orelse)
    )
