"""Which parts of tensors a tile operation reads and writes, and whether two parts may meet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hexcute_core.scalar import Binary, Const, Scalar
from hexcute_core.scalar.poly import difference
from hexcute_core.tile import Stmt, TileRef
from hexcute_core.tile.ir import TileOp
from hexcute_core.tile.visit import operands, results, tensors, updates


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
    """What `op` reads, then what it writes."""
    read = (Access(ref.tensor, ref, False) for ref in operands(op))
    written = (Access(ref.tensor, ref, True) for ref in results(op))
    return (*read, *written, *updated((op,)))


def updated(body: Iterable[Stmt]) -> tuple[Access, ...]:
    """What single threads update in `body`: any part of a tensor."""
    return tuple(Access(stmt.dst.tensor, None, True) for stmt in updates(body))


def touched(stmt: Stmt) -> frozenset[str]:
    """Names of the tensors a tile operation works on; none for other statements."""
    return frozenset(tensors(stmt)) if isinstance(stmt, TileOp) else frozenset()
