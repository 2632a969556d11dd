"""Tile programs rewritten statement by statement, before synthesis.

`expand` writes rearranges and fills of shared memory as copies, so that the search sees copies
alone; `insert` puts a rearrange before an operation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from hexcute_core.dtypes import i32
from hexcute_core.scalar import Const
from hexcute_core.tile import (
    CastTile,
    Copy,
    Elementwise,
    Fill,
    For,
    ForElements,
    Gemm,
    If,
    Produce,
    Rearrange,
    Reduce,
    RegisterTensor,
    Role,
    Scan,
    SharedTensor,
    Stmt,
    Sync,
    Tensor,
    TileProgram,
    TileRef,
    While,
)
from hexcute_core.tile.ir import TileOp

Change = Callable[[Stmt], Iterable[Stmt]]


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


def change(body: Iterable[Stmt], f: Change) -> tuple[Stmt, ...]:
    """`body` with every statement that has no body of its own replaced by `f` of it."""
    out: list[Stmt] = []
    for stmt in body:
        match stmt:
            case For() | While() | Role() | Produce():
                out.append(replace(stmt, body=change(stmt.body, f)))
            case If():
                then, otherwise = change(stmt.then, f), change(stmt.otherwise, f)
                out.append(replace(stmt, then=then, otherwise=otherwise))
            case _:
                out += f(stmt)
    return tuple(out)


def statements(body: Iterable[Stmt]) -> Iterator[Stmt]:
    """Every statement, outer ones first."""
    for stmt in body:
        yield stmt
        match stmt:
            case For() | While() | ForElements() | Role() | Produce():
                yield from statements(stmt.body)
            case If():
                yield from statements(stmt.then)
                yield from statements(stmt.otherwise)
            case _:
                pass


def last_id(program: TileProgram) -> int:
    """The largest number of an operation."""
    return max((getattr(s, "id", 0) for s in statements(program.body)), default=0)


def whole(name: str, shape: tuple[int, ...]) -> TileRef:
    """All of a tensor."""
    zero = Const(0, i32)
    return TileRef(name, (zero,) * len(shape), shape, tuple(range(len(shape))))


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
        match stmt:
            case Rearrange():
                number += 2
                if stmt.id in kept:
                    return (stmt,)
                dtype = program.tensor(stmt.src.tensor).dtype
                buffer = SharedTensor(f"rearranged_{stmt.id}", dtype, stmt.src.shape, stmt.span)
                tensors.append(buffer)
                detours.append(Detour(stmt.id, number - 1, number, buffer.name))
                ref, span = whole(buffer.name, buffer.shape), stmt.span
                store = Copy(number - 1, stmt.src, ref, span)
                load = Copy(number, ref, stmt.dst, span)
                # The first barrier protects an earlier reader of the buffer.
                return (Sync(span), store, Sync(span), load)
            case Fill() if stmt.dst.tensor in shared:
                number += 1
                dtype = program.tensor(stmt.dst.tensor).dtype
                registers = RegisterTensor(f"fill_{stmt.id}", dtype, stmt.dst.shape, stmt.span)
                tensors.append(registers)
                ref = whole(registers.name, registers.shape)
                fill = Fill(stmt.id, ref, stmt.value, stmt.span)
                return (fill, Copy(number, ref, stmt.dst, stmt.span))
            case _:
                return (stmt,)

    body = change(program.body, f)
    changed = replace(program, body=body, tensors=(*program.tensors, *tensors))
    return Expanded(changed, tuple(detours))


def insert(
    program: TileProgram, ops: Iterable[TileOp], edge: Edge
) -> tuple[TileProgram, list[int]]:
    """`program` with operand `edge` of each of `ops` taken through a rearrange that stands right
    before it, and the numbers of the rearranges."""
    number = last_id(program)
    changed: dict[int, tuple[Stmt, ...]] = {}
    tensors: list[Tensor] = []
    numbers: list[int] = []
    for op in ops:
        number += 1
        ref = edge.of(op)
        tensor = program.tensor(ref.tensor)
        moved = RegisterTensor(f"{tensor.name}_moved_{number}", tensor.dtype, ref.shape, op.span)
        tensors.append(moved)
        numbers.append(number)
        taken = whole(moved.name, moved.shape)
        rearrange = Rearrange(number, taken, ref, None, op.span)
        changed[op.id] = (rearrange, edge.put(op, taken))

    def f(stmt: Stmt) -> Iterable[Stmt]:
        return changed.get(getattr(stmt, "id", -1), (stmt,))

    body = change(program.body, f)
    return replace(program, body=body, tensors=(*program.tensors, *tensors)), numbers


@dataclass(frozen=True)
class Edge:
    """An operand that an operation reads: a field, and a place in it for the sources of an
    elementwise operation or a scan."""

    side: str
    place: int | None = None

    def of(self, op: TileOp) -> TileRef:
        """The operand of `op`."""
        value = getattr(op, self.side)
        ref: TileRef = value if self.place is None else value[self.place]
        return ref

    def put(self, op: TileOp, ref: TileRef) -> TileOp:
        """`op` with the operand replaced."""
        if self.place is None:
            return replace(op, **{self.side: ref})  # type: ignore[arg-type]
        refs = getattr(op, self.side)
        put = tuple(ref if i == self.place else r for i, r in enumerate(refs))
        return replace(op, **{self.side: put})  # type: ignore[arg-type]


def edges(op: TileOp) -> list[Edge]:
    """Every operand that `op` only reads."""
    match op:
        case Gemm():
            return [Edge("a"), Edge("b")]
        case Elementwise() | Scan():
            return [Edge("srcs", i) for i in range(len(op.srcs))]
        case CastTile() | Reduce():
            return [Edge("src")]
        case Copy():
            return [Edge("src")]
        case _:
            return []
