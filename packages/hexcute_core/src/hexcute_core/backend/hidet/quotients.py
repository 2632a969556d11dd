"""Divisions that every round of a loop would repeat are made once, before it.

A division by what is known at run time alone takes some forty instructions. The C++ compiler leaves
it in a loop where waits for barriers, which may never end, stand before it in a round: it makes
none that the program might not have come to. Quotients are numbers like others, and a divisor that
is zero, where the loop would not have divided, counts as one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hidet.ir import expr as he
from hidet.ir import stmt as hs

from hexcute_core.backend.hidet import scalars
from hexcute_core.backend.hidet.scope import Scope
from hexcute_core.backend.hidet.storage import value_type
from hexcute_core.scalar import Binary, Call, Const, Element, Scalar, binary, compare, select
from hexcute_core.scalar.bounds import bounds
from hexcute_core.scalar.visit import children, free_vars, rebuild, walk
from hexcute_core.thread import Assign, For, While, visit

DIVISIONS = ("floordiv", "cdiv", "mod")


@contextmanager
def made_before(scope: Scope, loop: For | While) -> Iterator[list[Any]]:
    """The statements that make what `loop` would repeat; it has that while it is emitted."""
    outer, statements = scope.quotients, []
    scope.quotients = dict(outer)
    for e in repeated(loop):
        if e not in outer:
            var = he.Var(f"quotient_{len(scope.quotients)}", value_type(e.dtype))
            statements.append(hs.DeclareStmt(var, scalars.emit(scope, guarded(scope, e))))
            scope.quotients[e] = var
    yield statements
    scope.quotients = outer


def repeated(loop: For | While) -> Iterator[Scalar]:
    """The divisions within `loop`, each once, that have the same value in all its rounds."""
    within = [loop, *visit.statements(loop.body)]
    changed = {s.var.name for s in within if isinstance(s, (Assign, For))}
    given = [loop.cond] if isinstance(loop, While) else []
    waiting = [*given, *(e for s in within[1:] for e in visit.scalars(s))]
    found: dict[Scalar, None] = {}
    while waiting:
        e = waiting.pop()
        steady = changed.isdisjoint(free_vars(e))
        if steady and _divides(e) and not any(isinstance(x, (Call, Element)) for x in walk(e)):
            found[e] = None
        else:
            waiting += children(e)
    return iter(found)


def guarded(scope: Scope, e: Scalar) -> Scalar:
    """`e`, dividing by nothing that is zero."""
    if not _divides(e):
        return rebuild(e, lambda child: guarded(scope, child))
    assert isinstance(e, Binary)
    a, b = guarded(scope, e.a), guarded(scope, e.b)
    if bounds(e.b, scope.known)[0] <= 0:
        b = select(compare("eq", b, 0), Const(1, b.dtype), b)
    return binary(e.op, a, b)


def _divides(e: Scalar) -> bool:
    """Whether `e` is a division by what only the run tells."""
    return (
        isinstance(e, Binary)
        and e.op in DIVISIONS
        and e.dtype.is_integer
        and not isinstance(e.b, Const)
    )
