"""Which plain Python functions compare values by `==`, in themselves or in what they call."""

from __future__ import annotations

import ast
from functools import lru_cache
from types import FunctionType

from hexcute_core.errors import FrontendError
from hexcute_core.frontend.reach import is_user_code, reachable
from hexcute_core.frontend.source import function_source

_EQUALITIES = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)


@lru_cache(maxsize=512)
def compares_by_equality(fn: FunctionType) -> bool:
    """Whether `fn` or a user function it reaches by name compares by ==, !=, in or match."""
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
        if any(_compares(node) for node in ast.walk(source.node)):
            return True
        waiting += [
            value
            for _, value in reachable(here)
            if isinstance(value, FunctionType) and is_user_code(value, here)
        ]
    return False


def _compares(node: ast.AST) -> bool:
    if isinstance(node, ast.Match):
        return True
    if not isinstance(node, ast.Compare):
        return False
    sides = [node.left, *node.comparators]
    text = any(
        isinstance(s, ast.Constant) and isinstance(s.value, (str, type(None))) for s in sides
    )
    return not text and any(isinstance(op, _EQUALITIES) for op in node.ops)
