"""Tile programs rewritten statement by statement, before synthesis.

`expand` writes rearranges and fills of shared memory as copies, so that the search sees copies
alone; `insert` puts a rearrange before an operation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from hexcute_core.dtypes import i32
from hexcute_core.scalar import Const
from hexcute_core.tile import (
    Copy,
    Fill,
    Rearrange,
    RegisterTensor,
    SharedTensor,
    Stmt,
    Sync,
    Tensor,
    TileProgram,
    TileRef,
)
from hexcute_core.tile.ir import TileOp
from hexcute_core.tile.visit import change, operands, operations, with_operands


@dataclass(frozen=True)
class Detour:
    """A rearrange written as copies through shared memory: the ids of both and the buffer."""

    op: int
    store: int
    load: int
    buffer: str


@dataclass(frozen=True)
class Expanded:
    """A program whose rearranges and shared fills are copies."""

    program: TileProgram
    detours: tuple[Detour, ...]


def last_id(program: TileProgram) -> int:
    """The largest number of an operation."""
    return max((op.id for op in operations(program.body)), default=0)


def whole(name: str, shape: tuple[int, ...]) -> TileRef:
    """All of a tensor."""
    zero = Const(0, i32)
    return TileRef(name, (zero,) * len(shape), shape, tuple(range(len(shape))))


def filled_from(op: Fill) -> str:
    """The registers from which `op`, where it fills shared memory, is stored."""
    return f"fill_{op.id}"


def expand(program: TileProgram, kept: Collection[int] = ()) -> Expanded:
    """`program` with rearranges, but those in `kept`, as copies through a buffer of their own.

    The numbers of the copies do not depend on `kept`.
    """
    tensors: list[Tensor] = []
    detours: list[Detour] = []
    number = last_id(program)
    shared = {t.name for t in program.tensors if isinstance(t, SharedTensor)}

    def f(stmt: Stmt) -> Iterable[Stmt]:
        nonlocal number
        if isinstance(stmt, Rearrange):
            number += 2
            if stmt.id in kept:
                return (stmt,)
            held, span = program.tensor(stmt.src.tensor), stmt.span
            assert isinstance(held, RegisterTensor)
            source = whole(held.name, held.shape) if stmt.cut else stmt.src
            buffer = SharedTensor(f"rearranged_{stmt.id}", held.dtype, source.shape, span)
            tensors.append(buffer)
            detours.append(Detour(stmt.id, number - 1, number, buffer.name))
            ref = whole(buffer.name, buffer.shape)
            store = Copy(number - 1, source, ref, span)
            back = replace(stmt.src, tensor=buffer.name) if stmt.cut else ref
            load = Copy(number, back, stmt.dst, span)
            # The first barrier protects an earlier reader of the buffer.
            return (Sync(span), store, Sync(span), load)
        if isinstance(stmt, Fill) and stmt.dst.tensor in shared:
            number += 1
            dtype = program.tensor(stmt.dst.tensor).dtype
            registers = RegisterTensor(filled_from(stmt), dtype, stmt.dst.shape, stmt.span)
            tensors.append(registers)
            ref = whole(registers.name, registers.shape)
            fill = Fill(stmt.id, ref, stmt.value, stmt.span)
            return (fill, Copy(number, ref, stmt.dst, stmt.span))
        return (stmt,)

    body = change(program.body, f)
    changed = replace(program, body=body, tensors=(*program.tensors, *tensors))
    return Expanded(changed, tuple(detours))


def insert(
    program: TileProgram, ops: Iterable[TileOp], edge: int, cut: bool = False
) -> tuple[TileProgram, list[int]]:
    """`program` with the operand at place `edge` of each of `ops` taken through a rearrange that
    stands right before it, `cut` there where it is a part of its tensor, and the numbers of the
    rearranges. The author's own rearranges are cut themselves."""
    number = last_id(program)
    changed: dict[int, tuple[Stmt, ...]] = {}
    tensors: list[Tensor] = []
    numbers: list[int] = []
    for op in ops:
        if isinstance(op, Rearrange):
            changed[op.id] = (replace(op, cut=True),)
            continue
        number += 1
        ref = operands(op)[edge]
        tensor = program.tensor(ref.tensor)
        moved = RegisterTensor(f"{tensor.name}_moved_{number}", tensor.dtype, ref.shape, op.span)
        tensors.append(moved)
        numbers.append(number)
        taken = whole(moved.name, moved.shape)
        rearrange = Rearrange(number, taken, ref, None, op.span, cut)
        refs = tuple(taken if i == edge else r for i, r in enumerate(operands(op)))
        reading = with_operands(op, refs)
        assert reading is not None, "`edge` is one of `edges(op)`"
        changed[op.id] = (rearrange, reading)

    def f(stmt: Stmt) -> Iterable[Stmt]:
        return changed.get(stmt.id, (stmt,)) if isinstance(stmt, TileOp) else (stmt,)

    body = change(program.body, f)
    return replace(program, body=body, tensors=(*program.tensors, *tensors)), numbers


def edges(op: TileOp) -> range:
    """The places, in `operands(op)`, of those that a rearrange may bring."""
    return range(0 if with_operands(op, operands(op)) is None else len(operands(op)))
