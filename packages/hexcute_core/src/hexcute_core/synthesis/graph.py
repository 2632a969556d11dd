"""The tile operations of a program with their weights, and the components they form.

A component is a set of register tensors tied together by gemm, elementwise, reduce, scan,
cast and register-to-register copies. Shared and global memory cut the graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from hexcute_core.tile import (
    For,
    ForElements,
    If,
    Produce,
    Rearrange,
    RegisterTensor,
    Role,
    Tensor,
    TileProgram,
    TileRef,
    While,
)
from hexcute_core.tile.facts import Facts
from hexcute_core.tile.ir import Nest, TileOp
from hexcute_core.tile.teams import Team, inner_team, whole_block
from hexcute_core.tile.visit import placed, tensors
from hexcute_core.unions import assert_never

BRANCH_WEIGHT = 0.5


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
    block = _Around(1.0, whole_block(program))
    ops = tuple(
        WeightedOp(stmt, around.weight, around.team, around.pipeline)
        for stmt, around in placed(program.body, block, partial(_enter, facts))
        if isinstance(stmt, TileOp)
    )
    registers = {t.name for t in program.tensors if isinstance(t, RegisterTensor)}
    parent = {name: name for name in registers}

    def find(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    touched: list[list[str]] = []
    for item in ops:
        names = [n for n in tensors(item.op) if n in registers]
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


@dataclass(frozen=True)
class _Around:
    """How often a place of the program is reached in one block, who runs it, and the pipeline
    whose slot is filled there."""

    weight: float
    team: Team
    pipeline: str | None = None


def _enter(facts: Facts, stmt: Nest, around: _Around) -> _Around:
    match stmt:
        case For() | While():
            return replace(around, weight=around.weight * facts.trips(stmt))
        case If():
            return replace(around, weight=around.weight * BRANCH_WEIGHT)
        case Role():
            return replace(around, team=inner_team(stmt, around.team))
        case Produce():
            return replace(around, pipeline=stmt.pipeline)
        case ForElements():
            return around
        case _:
            assert_never(stmt)
