"""Which plain Python functions use operators that mean something else on run-time values.

`==` on scalar nodes compares expressions, and their `//`, `%` and `/` divide as C does. Such a
function, or one that reaches such a function by name, is traced instead of run.
"""

from __future__ import annotations

import ast
from functools import lru_cache
from types import FunctionType

from hexcute_core.errors import FrontendError
from hexcute_core.frontend.reach import is_user_code, reachable
from hexcute_core.frontend.source import function_source

_EQUALITIES = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)


@lru_cache(maxsize=512)
def needs_tracing(fn: FunctionType) -> bool:
    """Whether `fn` or a user function it reaches by name compares by equality or divides."""
    seen: set[int] = set()
    waiting = [fn]
    while waiting:
        here = waiting.pop()
        if id(here) in seen:
            continue
        seen.add(id(here))
        try:
            source = function_source(here)
        except FrontendError:
            continue
        if any(_differs(node) for node in ast.walk(source.node)):
            return True
        waiting += [
            value
            for _, value in reachable(here)
            if isinstance(value, FunctionType) and is_user_code(value, here)
        ]
    return False


def _differs(node: ast.AST) -> bool:
    if isinstance(node, (ast.BinOp, ast.AugAssign)):
        return isinstance(node.op, (ast.FloorDiv, ast.Mod, ast.Div))
    if isinstance(node, ast.Match):
        return True
    if not isinstance(node, ast.Compare):
        return False
    sides = [node.left, *node.comparators]
    text = any(
        isinstance(s, ast.Constant) and isinstance(s.value, (str, type(None))) for s in sides
    )
    return not text and any(isinstance(op, _EQUALITIES) for op in node.ops)
