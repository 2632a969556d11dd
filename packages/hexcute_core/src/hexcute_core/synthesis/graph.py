"""The tile operations of a program with their weights, and the components they form.

A component is a set of register tensors tied together by gemm, elementwise, reduce, scan,
cast and register-to-register copies. Shared and global memory cut the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from hexcute_core.scalar import Element, Scalar
from hexcute_core.scalar.visit import walk
from hexcute_core.synthesis.facts import Facts
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
    Produce,
    Rearrange,
    Reduce,
    RegisterTensor,
    Role,
    Scan,
    SetElement,
    Stmt,
    Tensor,
    TileProgram,
    TileRef,
    While,
)
from hexcute_core.tile.ir import TileOp

BRANCH_WEIGHT = 0.5


@dataclass(frozen=True)
class Team:
    """The threads [first, first + threads) of a block, which run an operation together, and the
    registers each has claimed."""

    first: int
    threads: int
    registers: int | None = field(default=None, compare=False)


@dataclass(frozen=True)
class WeightedOp:
    """An operation, how often it runs in one block (branches count half), and who runs it.

    `pipeline` is the ring whose slot a copy fills, where it stands in a `Produce`.
    """

    op: TileOp
    weight: float
    team: Team
    pipeline: str | None = None


@dataclass(frozen=True)
class Component:
    """Register tensors by name and the operations that touch them, in program order."""

    tensors: tuple[str, ...]
    ops: tuple[WeightedOp, ...]

    @property
    def team(self) -> Team:
        """The threads that hold the tensors; `build_graph` has seen to it that they agree."""
        return self.ops[0].team


@dataclass(frozen=True)
class Graph:
    """Everything synthesis needs to know of the program's structure."""

    program: TileProgram
    facts: Facts
    ops: tuple[WeightedOp, ...]
    components: tuple[Component, ...]
    tensors: Mapping[str, Tensor]

    def is_register(self, ref: TileRef) -> bool:
        return isinstance(self.tensors[ref.tensor], RegisterTensor)


def build_graph(program: TileProgram) -> Graph:
    """The graph of `program`; components in order of their first operation."""
    facts = Facts(program)
    block = Team(0, program.block_dim)
    ops = tuple(_weighted(program.body, 1.0, block, None, facts))
    registers = {t.name for t in program.tensors if isinstance(t, RegisterTensor)}
    parent = {name: name for name in registers}

    def find(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    touched: list[list[str]] = []
    for item in ops:
        names = [n for n in op_tensors(item.op) if n in registers]
        touched.append(names)
        for name in names[1:]:
            if not isinstance(item.op, Rearrange):
                parent[find(name)] = find(names[0])
    members: dict[str, list[str]] = {}
    for name in (t.name for t in program.tensors if t.name in registers):
        members.setdefault(find(name), []).append(name)
    mine: dict[str, list[WeightedOp]] = {}
    for item, names in zip(ops, touched):
        for root in dict.fromkeys(find(n) for n in names):
            mine.setdefault(root, []).append(item)
    components = tuple(
        Component(tuple(members[root]), tuple(found)) for root, found in mine.items()
    )
    return Graph(program, facts, ops, components, {t.name: t for t in program.tensors})


def op_refs(op: TileOp) -> tuple[TileRef, ...]:
    """Tiles an operation touches, destination first."""
    match op:
        case Fill():
            return (op.dst,)
        case Copy() | CastTile() | Reduce() | Rearrange():
            return (op.dst, op.src)
        case Prefetch():
            return (op.src,)
        case Gemm():
            return (op.c, op.a, op.b)
        case Elementwise():
            return (op.dst, *op.srcs)
        case Scan():
            return (*op.dsts, *op.srcs)
        case ForElements():
            return (op.ref,)


def op_results(op: TileOp) -> tuple[TileRef, ...]:
    """Tiles an operation writes; of a loop over elements, the tile it runs over."""
    match op:
        case Scan():
            return op.dsts
        case Prefetch():
            return ()
        case _:
            return op_refs(op)[:1]


def op_tensors(op: TileOp) -> tuple[str, ...]:
    """Names of the tensors an operation touches, element accesses of its body included."""
    names = [ref.tensor for ref in op_refs(op)]
    if isinstance(op, ForElements):
        names += element_tensors(op.body)
    return tuple(dict.fromkeys(names))


def element_tensors(body: Iterable[Stmt]) -> list[str]:
    """Register tensors whose elements `body` reads or writes."""
    names: list[str] = []

    def scan(e: Scalar) -> None:
        names.extend(n.array for n in walk(e) if isinstance(n, Element))

    for stmt in body:
        match stmt:
            case Assign():
                scan(stmt.value)
            case SetElement():
                names.append(stmt.tensor)
                scan(stmt.value)
            case CallStmt():
                for arg in stmt.args:
                    scan(arg)
            case If():
                scan(stmt.cond)
                names += element_tensors(stmt.then) + element_tensors(stmt.otherwise)
            case For() | While():
                names += element_tensors(stmt.body)
            case _:
                pass
    return names


def _weighted(
    body: Iterable[Stmt], weight: float, team: Team, pipeline: str | None, facts: Facts
) -> Iterator[WeightedOp]:
    def inside(body: Iterable[Stmt], weight: float) -> Iterator[WeightedOp]:
        return _weighted(body, weight, team, pipeline, facts)

    for stmt in body:
        match stmt:
            case (
                Fill()
                | Copy()
                | Prefetch()
                | Gemm()
                | CastTile()
                | Elementwise()
                | Reduce()
                | Scan()
                | Rearrange()
                | ForElements()
            ):
                yield WeightedOp(stmt, weight, team, pipeline)
            case For():
                yield from inside(stmt.body, weight * facts.trips(stmt))
            case While():
                yield from inside(stmt.body, weight * 32)
            case If():
                yield from inside(stmt.then, weight * BRANCH_WEIGHT)
                yield from inside(stmt.otherwise, weight * BRANCH_WEIGHT)
            case Role():
                role = Team(stmt.first, stmt.threads, stmt.registers)
                yield from _weighted(stmt.body, weight, role, pipeline, facts)
            case Produce():
                yield from _weighted(stmt.body, weight, team, stmt.pipeline, facts)
            case _:
                pass
