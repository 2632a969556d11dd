"""Which parts of tensors a tile operation reads and writes, and whether two parts may meet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hexcute_core.frontend.poly import difference
from hexcute_core.scalar import Binary, Const, Element, Scalar
from hexcute_core.scalar.visit import walk
from hexcute_core.tile import (
    Assign,
    CallStmt,
    CastTile,
    Copy,
    Elementwise,
    Fill,
    For,
    ForElements,
    Gemm,
    If,
    Prefetch,
    Rearrange,
    Reduce,
    Scan,
    SetElement,
    Stmt,
    TileRef,
    While,
)
from hexcute_core.tile.ir import TileOp

OPERATIONS = (
    Fill, Copy, Prefetch, Gemm, CastTile, Elementwise, Reduce, Scan, Rearrange, ForElements,
)  # fmt: skip


@dataclass(frozen=True)
class Access:
    """`ref` of `tensor` (None: any part of it) is read, or written."""

    tensor: str
    ref: TileRef | None
    writes: bool

    def meets(self, tensor: str, ref: TileRef | None) -> bool:
        """Whether this may touch an element of `ref`."""
        if tensor != self.tensor:
            return False
        return self.ref is None or ref is None or may_overlap(self.ref, ref)


def may_overlap(a: TileRef, b: TileRef) -> bool:
    """Whether two parts of one tensor may have an element in common."""
    return not any(
        _apart(x, n, y, m)
        for x, n, y, m in zip(a.starts, a.extents, b.starts, b.extents, strict=True)
    )


def _apart(x: Scalar, n: int, y: Scalar, m: int) -> bool:
    """Whether [x, x + n) and [y, y + m) certainly do not meet."""
    known = difference(x, y)
    if known is not None:
        return known >= m or -known >= n
    match (x, y):
        case (
            Binary(op="mod", a=p, b=Const(value=int(modulus))),
            Binary(op="mod", a=q, b=Const(value=int(other))),
        ) if modulus == other > 0 and n == m == 1:
            known = difference(p, q)
            return known is not None and known % modulus != 0
        case _:
            return False


def accesses(op: TileOp) -> tuple[Access, ...]:
    """What `op` touches."""
    match op:
        case Fill():
            return (_write(op.dst),)
        case Copy() | CastTile() | Reduce() | Rearrange():
            return (_read(op.src), _write(op.dst))
        case Prefetch():
            return (_read(op.src),)
        case Elementwise():
            return (*(_read(ref) for ref in op.srcs), _write(op.dst))
        case Scan():
            return (*map(_read, op.srcs), *map(_write, op.dsts))
        case Gemm():
            return (_read(op.a), _read(op.b), _write(op.c))
        case ForElements():
            return tuple(dict.fromkeys(_elements(op.body)))


def touched(stmt: Stmt) -> frozenset[str]:
    """Names of the tensors a tile operation works on; none for other statements."""
    if not isinstance(stmt, OPERATIONS):
        return frozenset()
    own = frozenset((stmt.ref.tensor,)) if isinstance(stmt, ForElements) else frozenset[str]()
    return own | {access.tensor for access in accesses(stmt)}


def _read(ref: TileRef) -> Access:
    return Access(ref.tensor, ref, False)


def _write(ref: TileRef) -> Access:
    return Access(ref.tensor, ref, True)


def _elements(body: tuple[Stmt, ...]) -> Iterator[Access]:
    """Elements that thread-level code reads and writes."""
    for stmt in body:
        match stmt:
            case SetElement():
                yield from _read_in(stmt.value)
                yield Access(stmt.tensor, None, True)
            case Assign():
                yield from _read_in(stmt.value)
            case CallStmt():
                for arg in stmt.args:
                    yield from _read_in(arg)
            case If():
                yield from _read_in(stmt.cond)
                yield from _elements((*stmt.then, *stmt.otherwise))
            case While():
                yield from _read_in(stmt.cond)
                yield from _elements(stmt.body)
            case For():
                yield from _elements(stmt.body)
            case _:
                pass


def _read_in(e: Scalar) -> Iterator[Access]:
    return (Access(node.array, None, False) for node in walk(e) if isinstance(node, Element))
