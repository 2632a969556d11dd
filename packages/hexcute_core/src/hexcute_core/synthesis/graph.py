"""The tile operations of a program with their weights, and the components they form.

A component is a set of register tensors tied together by gemm, elementwise, reduce, cast and
register-to-register copies. Shared and global memory cut the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

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
    Rearrange,
    Reduce,
    RegisterTensor,
    SetElement,
    Stmt,
    TileProgram,
    TileRef,
    While,
)
from hexcute_core.tile.ir import TileOp

BRANCH_WEIGHT = 0.5


@dataclass(frozen=True)
class WeightedOp:
    """An operation and how often it runs in one block (branches count half)."""

    op: TileOp
    weight: float


@dataclass(frozen=True)
class Component:
    """Register tensors by name and the operations that touch them, in program order."""

    tensors: tuple[str, ...]
    ops: tuple[WeightedOp, ...]


@dataclass(frozen=True)
class Graph:
    """Everything synthesis needs to know of the program's structure."""

    program: TileProgram
    facts: Facts
    ops: tuple[WeightedOp, ...]
    components: tuple[Component, ...]

    def is_register(self, ref: TileRef) -> bool:
        return isinstance(self.program.tensor(ref.tensor), RegisterTensor)


def build_graph(program: TileProgram) -> Graph:
    """The graph of `program`; components in order of their first operation."""
    facts = Facts(program)
    ops = tuple(_weighted(program.body, 1.0, facts))
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
    groups: dict[str, list[str]] = {}
    for name in (t.name for t in program.tensors if t.name in registers):
        groups.setdefault(find(name), []).append(name)
    components = []
    for root, members in groups.items():
        mine = [item for item, names in zip(ops, touched) if any(find(n) == root for n in names)]
        if mine:
            components.append(Component(tuple(members), tuple(mine)))
    return Graph(program, facts, ops, tuple(components))


def op_refs(op: TileOp) -> tuple[TileRef, ...]:
    """Tiles an operation touches, destination first."""
    match op:
        case Fill():
            return (op.dst,)
        case Copy() | CastTile() | Reduce() | Rearrange():
            return (op.dst, op.src)
        case Gemm():
            return (op.c, op.a, op.b)
        case Elementwise():
            return (op.dst, *op.srcs)
        case ForElements():
            return (op.ref,)


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


def _weighted(body: Iterable[Stmt], weight: float, facts: Facts) -> Iterator[WeightedOp]:
    for stmt in body:
        match stmt:
            case (
                Fill()
                | Copy()
                | Gemm()
                | CastTile()
                | Elementwise()
                | Reduce()
                | Rearrange()
                | ForElements()
            ):
                yield WeightedOp(stmt, weight)
            case For():
                yield from _weighted(stmt.body, weight * facts.trips(stmt), facts)
            case While():
                yield from _weighted(stmt.body, weight * 32, facts)
            case If():
                yield from _weighted(stmt.then, weight * BRANCH_WEIGHT, facts)
                yield from _weighted(stmt.otherwise, weight * BRANCH_WEIGHT, facts)
            case _:
                pass
