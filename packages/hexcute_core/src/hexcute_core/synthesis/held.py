"""held : Solution -> for each role, the line where a thread's tiles fill most registers.

    held at a statement = the tiles that it touches, and those written before and read after it

Addresses, counters and what an expression computes on its way come on top: a thread whose tiles
leave no room for them spills.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hexcute_core.errors import SourceSpan
from hexcute_core.scalar import Const, Element
from hexcute_core.scalar.visit import walk
from hexcute_core.synthesis.solution import Solution
from hexcute_core.tile import (
    CastTile,
    Elementwise,
    Gemm,
    RegisterTensor,
    Relabel,
    Role,
    Stmt,
    TileRef,
    While,
)
from hexcute_core.tile.ir import For, If, TileOp
from hexcute_core.tile.visit import bodies, operands, results, scalars, statements


@dataclass(frozen=True)
class Held:
    """What threads `first` to `first + threads - 1` hold at `span`: for each tile its name and the
    32-bit registers it fills in a thread; `claimed` are the registers that the role asks for."""

    first: int
    threads: int
    claimed: int | None
    span: SourceSpan
    tiles: tuple[tuple[str, int], ...]

    @property
    def registers(self) -> int:
        """Registers of all tiles, a thread."""
        return sum(size for _, size in self.tiles)


def held(solution: Solution) -> tuple[Held, ...]:
    """Where each role's threads hold most, or the block's where it has none, largest first."""
    program = solution.program
    roles = [stmt for stmt in statements(program.body) if isinstance(stmt, Role)]
    found = []
    for role in roles:
        most = _Walk(solution).most(role.body)
        if most is not None:
            found.append(Held(role.first, role.threads, role.registers, *most))
    if not roles:
        most = _Walk(solution).most(program.body)
        if most is not None:
            found.append(Held(0, program.block_dim, None, *most))
    return tuple(sorted(found, key=lambda h: (-h.registers, h.first)))


class _Walk:
    """Backwards through a program; `sizes` has the registers of each tile in a thread."""

    def __init__(self, solution: Solution) -> None:
        self.shapes = {
            t.name: t.shape for t in solution.program.tensors if isinstance(t, RegisterTensor)
        }
        self.sizes = {
            t.name: -(-solution.fragments[t.name].values * t.dtype.bits // 32)
            for t in solution.program.tensors
            if t.name in self.shapes and t.name in solution.fragments
        }
        self.peak = 0
        self.at: tuple[SourceSpan, tuple[tuple[str, int], ...]] | None = None

    def most(self, body: Sequence[Stmt]) -> tuple[SourceSpan, tuple[tuple[str, int], ...]] | None:
        """The span of the fullest statement, and what is held there, largest tiles first."""
        self.before(body, frozenset())
        return self.at

    def before(self, body: Sequence[Stmt], after: frozenset[str]) -> frozenset[str]:
        """What is held before `body`, if `after` is held after it."""
        for stmt in reversed(body):
            after = self.statement(stmt, after)
        return after

    def statement(self, stmt: Stmt, after: frozenset[str]) -> frozenset[str]:
        """What is held before `stmt`; notes what is held at it."""
        read = self.only_held(_read(stmt))
        if isinstance(stmt, TileOp):
            written = self.only_held(ref.tensor for ref in results(stmt))
            before = (after - self.only_held(self.whole(stmt))) | read
            if isinstance(stmt, Elementwise | CastTile | Relabel):
                # Value by value: a result takes the place of what is not read again.
                self.note(stmt, before)
                self.note(stmt, after | written)
            else:
                self.note(stmt, after | read | written)
            return before
        if isinstance(stmt, If):
            return read.union(*(self.before(part, after) for part in bodies(stmt)))
        if isinstance(stmt, For | While):
            # What the next round reads is held at the end of this one.
            around = after | read
            found = around | self.before(stmt.body, around)
            # Again where it is more: twice at each level of a nest would take for ever.
            return found if found == around else found | self.before(stmt.body, found)
        for part in bodies(stmt):
            after = self.before(part, after)
        return after | read

    def whole(self, op: TileOp) -> Iterator[str]:
        """The tensors that `op` gives new values everywhere."""
        if isinstance(op, Gemm) and _adds(op):
            return
        for ref in results(op):
            if ref.shape == self.shapes.get(ref.tensor):
                yield ref.tensor

    def only_held(self, names: Iterator[str]) -> frozenset[str]:
        return frozenset(name for name in names if name in self.sizes)

    def note(self, stmt: TileOp, names: frozenset[str]) -> None:
        total = sum(self.sizes[name] for name in names)
        if total > self.peak:
            largest = sorted(names, key=lambda name: (-self.sizes[name], name))
            listed = tuple((name, self.sizes[name]) for name in largest)
            self.peak, self.at = total, (stmt.span, listed)


def _adds(op: Gemm) -> bool:
    return not (isinstance(op.accumulate, Const) and not op.accumulate.value)


def _read(stmt: Stmt) -> Iterator[str]:
    refs: tuple[TileRef, ...] = operands(stmt) if isinstance(stmt, TileOp) else ()
    if isinstance(stmt, Gemm) and _adds(stmt):
        refs += (stmt.c,)
    yield from (ref.tensor for ref in refs)
    for e in scalars(stmt):
        yield from (node.array for node in walk(e) if isinstance(node, Element))
