"""reached(p) = the shared tensors that blocks of a cluster touch in one another, and their laws.

Such a tile is copied to and from registers, or filled; everything else works on the block's own
memory. The slots of a pipeline change hands by barriers of their own block, so nobody reaches
into them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod

from hexcute_core.errors import SourceSpan
from hexcute_core.scalar import Const
from hexcute_core.tile.ir import Copy, Fill, Produce, Stmt, TileProgram
from hexcute_core.tile.tensors import SharedTensor, Tensor, TileRef
from hexcute_core.tile.verify_barriers import Checks


@dataclass(frozen=True)
class Reached:
    """Names of the shared tensors that other blocks read, and of those that they write."""

    read: frozenset[str]
    written: frozenset[str]

    @property
    def any(self) -> frozenset[str]:
        """Both."""
        return self.read | self.written


def reached(program: TileProgram) -> Reached:
    """What blocks of `program` touch in one another."""
    read, written = set(), set()
    for stmt, _ in _moves(program.body, None):
        if isinstance(stmt, Copy) and stmt.src.rank is not None:
            read.add(stmt.src.tensor)
        if stmt.dst.rank is not None:
            written.add(stmt.dst.tensor)
    return Reached(frozenset(read), frozenset(written))


def slots_reached(program: TileProgram) -> Iterator[tuple[str, str, SourceSpan]]:
    """(tensor, pipeline, where) of every access to another block's slot of a pipeline."""
    filled = {
        stmt.dst.tensor: slot.pipeline
        for stmt, slot in _moves(program.body, None)
        if slot is not None and isinstance(stmt, Copy)
    }
    for stmt, _ in _moves(program.body, None):
        for ref in (stmt.src, stmt.dst) if isinstance(stmt, Copy) else (stmt.dst,):
            if ref.rank is not None and ref.tensor in filled:
                yield ref.tensor, filled[ref.tensor], stmt.span


def _moves(
    body: Iterable[Stmt], slot: Produce | None
) -> Iterator[tuple[Copy | Fill, Produce | None]]:
    """Copies and fills, with the slot being filled that they stand in."""
    for stmt in body:
        if isinstance(stmt, (Copy, Fill)):
            yield stmt, slot
        inside = stmt if isinstance(stmt, Produce) else slot
        for part in ("body", "then", "otherwise"):
            yield from _moves(getattr(stmt, part, ()), inside)


def verify_reach(checks: Checks, ref: TileRef, tensor: Tensor, span: SourceSpan) -> None:
    """A tile of another block is one of shared memory, in a block that the cluster has."""
    if ref.rank is None:
        return
    blocks = prod(checks.program.cluster_dim)
    shared = isinstance(tensor, SharedTensor)
    checks.need(shared, f"`{tensor.name}` of another block is no SharedTensor", span)
    checks.need(blocks > 1, f"`{tensor.name}` of another block without a cluster", span)
    if isinstance(ref.rank, Const):
        inside = 0 <= ref.rank.value < blocks
        checks.need(inside, f"block {ref.rank.value} of a cluster of {blocks}", span)


def verify_slots(checks: Checks) -> None:
    """Nobody reaches into the slots of a pipeline."""
    for tensor, pipeline, span in slots_reached(checks.program):
        checks.need(False, f"`{tensor}`, a slot of `{pipeline}`, is reached into", span)
