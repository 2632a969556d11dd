"""`if c: A; return` followed by B  ->  `if c: A` `else: B`: early exits become branches.

Only returns without a value are rewritten; a tile program has no jump.
"""

from __future__ import annotations

import ast


def without_early_returns(node: ast.FunctionDef) -> ast.FunctionDef:
    """`node` with every bare early return of its top-level ifs turned into an else branch."""
    node.body = _rewrite(node.body)
    return node


def _rewrite(body: list[ast.stmt]) -> list[ast.stmt]:
    for position, stmt in enumerate(body):
        if not isinstance(stmt, ast.If):
            continue
        stmt.body, stmt.orelse = _rewrite(stmt.body), _rewrite(stmt.orelse)
        rest = body[position + 1 :]
        for branch, other in (("body", "orelse"), ("orelse", "body")):
            if _leaves(getattr(stmt, branch)):
                kept = getattr(stmt, branch)[:-1]
                setattr(stmt, branch, kept or ([ast.copy_location(ast.Pass(), stmt)]))
                setattr(stmt, other, _rewrite(getattr(stmt, other) + rest))
                return body[: position + 1]
    return body


def _leaves(body: list[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], ast.Return) and body[-1].value is None
