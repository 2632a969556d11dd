"""Walking the statements of a thread program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hexcute_core.scalar import Scalar
from hexcute_core.thread.ir import (
    Assign,
    DeclareArray,
    For,
    GlobalPtr,
    If,
    MapRef,
    MatrixDesc,
    Operand,
    Prim,
    Regs,
    RemotePtr,
    Say,
    SetElement,
    SharedPtr,
    Stamp,
    Stmt,
    While,
)
from hexcute_core.unions import assert_never


def statements(body: Iterable[Stmt]) -> Iterator[Stmt]:
    """Every statement of `body`, the nested ones after the one that holds them."""
    # Generators inside generators would hand each statement up through all that hold it.
    blocks = [iter(body)]
    while blocks:
        stmt = next(blocks[-1], None)
        if stmt is None:
            blocks.pop()
            continue
        yield stmt
        match stmt:
            case For() | While():
                blocks.append(iter(stmt.body))
            case If():
                blocks.append(iter(stmt.then + stmt.otherwise))
            case DeclareArray() | SetElement() | Assign() | Prim() | Say() | Stamp():
                pass
            case _:
                assert_never(stmt)


def calls(body: Iterable[Stmt], name: str) -> bool:
    """Whether `body` runs the primitive `name` anywhere."""
    return any(isinstance(stmt, Prim) and stmt.name == name for stmt in statements(body))


def scalars(stmt: Stmt) -> Iterator[Scalar]:
    """The scalars in `stmt` itself, not those of statements nested in it."""
    match stmt:
        case DeclareArray() | Stamp():
            pass
        case SetElement():
            yield from (stmt.index, stmt.value)
        case Assign():
            yield stmt.value
        case Prim():
            for operand in stmt.operands:
                yield from operand_scalars(operand)
        case Say():
            yield from stmt.args
        case For():
            yield from (stmt.start, stmt.stop, stmt.step)
        case While() | If():
            yield stmt.cond
        case _:
            assert_never(stmt)


def operand_scalars(operand: Operand) -> tuple[Scalar, ...]:
    """The scalars of one operand: of its place, or itself."""
    match operand:
        case RemotePtr():
            return operand.offset, operand.rank
        case MapRef():
            return operand.coords
        case Regs() | GlobalPtr() | SharedPtr() | MatrixDesc():
            return (operand.offset,)
        case _:
            return (operand,)
