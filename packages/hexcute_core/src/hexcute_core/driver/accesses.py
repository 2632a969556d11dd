"""accesses(thread program) = for every copy, what its lowered calls touch, thread by thread.

A row is (thread, register, element of global memory, byte of shared memory, block of the cluster),
-1 where a call has no such side. Expressions are evaluated as the simulator evaluates them, on
every thread and every turn of the loops that the lowering made, for given values of the author's
variables. The author's own loops and branches decide when a copy runs, never what it touches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hexcute_core.driver.lookups import Lanes, Numbers, looked_up, lookups
from hexcute_core.scalar import Const, Scalar, Var
from hexcute_core.scalar.visit import walk
from hexcute_core.simulator.lanes.scalars import Evaluate, compile_scalar
from hexcute_core.simulator.lanes.state import LaneState
from hexcute_core.simulator.lanes.values import Value
from hexcute_core.thread.ir import (
    Assign,
    DeclareArray,
    For,
    GlobalPtr,
    If,
    Prim,
    Regs,
    RemotePtr,
    Say,
    SetElement,
    SharedPtr,
    Stamp,
    Stmt,
    ThreadProgram,
    While,
)
from hexcute_core.thread.visit import statements
from hexcute_core.tile import TileProgram
from hexcute_core.tile.teams import Team
from hexcute_core.tile.visit import statements as tile_statements
from hexcute_core.tile.visit import variables
from hexcute_core.unions import assert_never

Rows: TypeAlias = NDArray[np.int64]
Columns: TypeAlias = "dict[str, Value | Rows]"
THREAD, REGISTER, GLOBAL, SHARED, BLOCK = range(5)


@dataclass(frozen=True)
class Touched:
    """Rows of calls that move elements, and of those that only fill with zeros."""

    moved: Rows
    zeroed: Rows


@dataclass(frozen=True)
class Site:
    """The calls of one copy at one place: its primitives, and the loops (outermost first) and
    conditions that the lowering put around them."""

    op: int
    prims: tuple[Prim, ...]
    loops: tuple[tuple[str, range], ...] = ()
    conditions: tuple[Scalar, ...] = ()

    @property
    def arrays(self) -> list[Regs]:
        """The register operands."""
        return [o for prim in self.prims for o in prim.operands if isinstance(o, Regs)]

    @property
    def params(self) -> set[str]:
        """The tensors of global memory that are touched."""
        return {o.param for prim in self.prims for o in prim.operands if isinstance(o, GlobalPtr)}


class Accesses:
    """The copies of a lowered program, and the scalars that the lowering defined for them."""

    def __init__(self, program: TileProgram, lowered: ThreadProgram) -> None:
        authors = {v.name for stmt in tile_statements(program.body) for v in variables(stmt)}
        found = [
            s
            for s in statements(lowered.body)
            if isinstance(s, Assign) and s.var.name not in authors
        ]
        names = [s.var.name for s in found]
        self._own = {s.var.name: s.value for s in found if names.count(s.var.name) == 1}
        self._lookups = lookups(lowered.body)
        self._compiled: dict[Scalar, Evaluate] = {}
        self.sites: dict[int, list[Site]] = {}
        for site in _sites(lowered.body, authors):
            self.sites.setdefault(site.op, []).append(site)

    def free(self, site: Site) -> Iterator[Var]:
        """The variables of a site that differ by neither thread nor call: those of the author."""
        looped = {"threadIdx.x", *(name for name, _ in site.loops)}
        pending = [*site.conditions]
        for prim in site.prims:
            for operand in prim.operands:
                match operand:
                    case GlobalPtr() | SharedPtr() | Regs():
                        pending.append(operand.offset)
                    case RemotePtr():
                        pending += [operand.offset, operand.rank]
                    case _ if not hasattr(operand, "coords"):
                        pending.append(operand)  # type: ignore[arg-type]
        seen: set[str] = set()
        while pending:
            here = pending.pop()
            pending += looked_up(here, self._lookups)
            for node in walk(here):
                if isinstance(node, Var) and node.name not in seen | looped:
                    seen.add(node.name)
                    if node.name in self._own:
                        pending.append(self._own[node.name])
                    else:
                        yield node

    def touched(
        self,
        site: Site,
        names: Mapping[str, Value],
        team: Team,
        array: str,
        numbers: Numbers | None = None,
    ) -> Touched:
        """What a site touches where the author's variables are `names`; `array` is the register
        tensor of the copy, "" where it has none, and `numbers` name the rows where a tile does."""
        turns = 1
        for _, values in site.loops:
            turns *= len(values)
        lanes = turns * team.threads
        thread = np.tile(np.arange(team.threads, dtype=np.int32), turns)
        turn = np.repeat(np.arange(turns), team.threads)
        vars: dict[str, Value] = {**names, "threadIdx.x": (thread + team.first).astype(np.int32)}
        for name, values in reversed(site.loops):
            vars[name] = np.asarray(values, dtype=np.int32)[turn % len(values)]
            turn = turn // len(values)
        machine = Lanes(vars, lanes, self._number_at, numbers)
        rows = np.full((lanes, 5), -1, dtype=np.int64)
        rows[:, THREAD] = thread
        runs, inside = (np.ones(lanes, dtype=bool) for _ in range(2))
        for condition in site.conditions:
            runs &= np.asarray(self.value(machine, condition), dtype=bool)
        for prim in site.prims:
            for operand in prim.operands:
                match operand:
                    case Regs() if operand.array == array:
                        rows[:, REGISTER] = self.value(machine, operand.offset)
                    case GlobalPtr():
                        rows[:, GLOBAL] = self.value(machine, operand.offset)
                        predicate: Any = prim.operands[-1]
                        inside &= np.asarray(self.value(machine, predicate), dtype=bool)
                    case SharedPtr():
                        rows[:, SHARED] = self.value(machine, operand.offset)
                    case RemotePtr():
                        rows[:, SHARED] = self.value(machine, operand.offset)
                        rows[:, BLOCK] = self.value(machine, operand.rank)
                    case _:
                        pass
        zeroed = rows[runs & ~inside]
        zeroed[:, GLOBAL] = -1
        return Touched(rows[runs & inside], zeroed)

    def _number_at(self, machine: LaneState, array: str) -> Value | None:
        where = self._lookups.get(array)
        return None if where is None else self.value(machine, where)

    def value(self, machine: LaneState, e: Scalar) -> Value:
        """`e` on every lane; what the lowering defined is evaluated where it is first used."""
        if e not in self._compiled:
            self._compiled[e] = compile_scalar(e)
        for node in walk(e):
            if isinstance(node, Var) and node.name in self._own and node.name not in machine.vars:
                machine.vars[node.name] = self.value(machine, self._own[node.name])
        return self._compiled[e](machine)


def _sites(body: Iterable[Stmt], authors: set[str]) -> Iterator[Site]:
    """The sites of `body`; what the lowering put around them is known by whose variable counts, and
    by the copy that a branch names."""
    for op, stmts in groupby(body, lambda s: s.op if isinstance(s, Prim) else None):
        if op is not None:
            yield Site(op, tuple(s for s in stmts if isinstance(s, Prim)))
            continue
        for stmt in stmts:
            match stmt:
                case For(start=Const() as first, stop=Const() as stop, step=Const() as step) if (
                    stmt.var.name not in authors
                ):
                    turns = range(int(first.value), int(stop.value), int(step.value))
                    for site in _sites(stmt.body, authors):
                        yield replace(site, loops=((stmt.var.name, turns), *site.loops))
                case For() | While():
                    yield from _sites(stmt.body, authors)
                case If():
                    for site in _sites(stmt.then, authors):
                        own = (stmt.cond,) if stmt.op == site.op else ()
                        yield replace(site, conditions=(*own, *site.conditions))
                    yield from _sites(stmt.otherwise, authors)
                case DeclareArray() | SetElement() | Assign() | Prim() | Say() | Stamp():
                    pass
                case _:
                    assert_never(stmt)
