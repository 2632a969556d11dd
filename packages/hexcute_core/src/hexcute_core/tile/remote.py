"""reached(p) = the shared tensors that blocks of a cluster access in one another, and
their laws.

Such a tile is copied to and from registers, or filled; everything else works on the block's own
memory. The slots of a pipeline change hands by barriers of their own block, so nobody reaches
into them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from hexcute_core.errors import SourceSpan
from hexcute_core.scalar import Const
from hexcute_core.tile.ir import (
    For,
    ForElements,
    If,
    Nest,
    Produce,
    Role,
    TileOp,
    TileProgram,
    While,
)
from hexcute_core.tile.tensors import SharedTensor, Tensor, TileRef
from hexcute_core.tile.verify_barriers import Checks
from hexcute_core.tile.visit import operands, operations, placed, results, tiles
from hexcute_core.unions import assert_never


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
    for op in operations(program.body):
        read |= {ref.tensor for ref in operands(op) if ref.rank is not None}
        written |= {ref.tensor for ref in results(op) if ref.rank is not None}
    return Reached(frozenset(read), frozenset(written))


def slots_reached(program: TileProgram) -> Iterator[tuple[str, str, SourceSpan]]:
    """(tensor, pipeline, where) of every access to another block's slot of a pipeline."""
    ops = list(_filled(program))
    filled = {
        ref.tensor: slot.pipeline for op, slot in ops if slot is not None for ref in results(op)
    }
    for op, _ in ops:
        for ref in tiles(op):
            if ref.rank is not None and ref.tensor in filled:
                yield ref.tensor, filled[ref.tensor], op.span


def _filled(program: TileProgram) -> Iterator[tuple[TileOp, Produce | None]]:
    """Operations with the slot being filled that they stand in."""
    for stmt, slot in placed(program.body, None, _enter):
        if isinstance(stmt, TileOp):
            yield stmt, slot


def _enter(stmt: Nest, slot: Produce | None) -> Produce | None:
    match stmt:
        case Produce():
            return stmt
        case ForElements() | For() | While() | If() | Role():
            return slot
        case _:
            assert_never(stmt)


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
