"""Walking the statements of a thread program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hexcute_core.thread.ir import For, If, Prim, Stmt, While


def statements(body: Iterable[Stmt]) -> Iterator[Stmt]:
    """Every statement of `body`, the nested ones after the one that holds them."""
    for stmt in body:
        yield stmt
        match stmt:
            case For() | While():
                yield from statements(stmt.body)
            case If():
                yield from statements(stmt.then + stmt.otherwise)
            case _:
                pass


def calls(body: Iterable[Stmt], name: str) -> bool:
    """Whether `body` runs the primitive `name` anywhere."""
    return any(isinstance(stmt, Prim) and stmt.name == name for stmt in statements(body))
