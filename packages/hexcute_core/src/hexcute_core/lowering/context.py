"""What the lowering rules share: program, solution, names, register arrays, the prologue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from hexcute_core import thread as th
from hexcute_core.arch import Fragment, Mode
from hexcute_core.dtypes import DType, i32
from hexcute_core.errors import SourceSpan
from hexcute_core.lowering.arena import Arena, tensor_bytes
from hexcute_core.lowering.digits import index_in
from hexcute_core.scalar import Const, Element, Scalar, Var, add, cast, mul
from hexcute_core.synthesis.solution import BulkPlan, Rep, Solution
from hexcute_core.tile import (
    Copy,
    Gemm,
    Reached,
    SharedTensor,
    TileProgram,
    TileRef,
    reached,
)
from hexcute_core.tile.elements import Place
from hexcute_core.tile.facts import Facts
from hexcute_core.tile.layouts import cut_modes, layout_of, strides
from hexcute_core.tile.teams import Team
from hexcute_core.tile.visit import operations, statements, variables

if TYPE_CHECKING:
    from hexcute_core.lowering.pipeline import Ring
    from hexcute_core.lowering.started import Started
    from hexcute_core.lowering.stores import Stores

Visited: TypeAlias = tuple[TileRef, Scalar]
"""A value of a register tile: the tile and the value's number."""


@dataclass
class Context:
    """Mutable while one program is lowered; rules add to it and return statements."""

    program: TileProgram
    solution: Solution
    facts: Facts
    arena: Arena
    team: Team
    stores: Stores
    started: Started
    prologue: list[th.Stmt] = field(default_factory=list)
    role: int = 0
    # Whether one thread of the team runs everything.
    alone: bool = False
    rings: dict[str, Ring] = field(default_factory=dict)
    maps: dict[tuple[str, tuple[int, ...], int, tuple[int, ...]], str] = field(default_factory=dict)
    _bases: dict[Scalar, Var] = field(default_factory=dict)
    _count: int = 0
    _taken: set[str] = field(default_factory=set)
    _visited: Mapping[Place, Visited] = field(default_factory=dict)

    @property
    def lane(self) -> Scalar:
        """The thread's number within the team that runs the current statement."""
        return index_in(self.team)

    def barrier(self, span: SourceSpan) -> th.Prim:
        """All threads of the team meet: the block's barrier, or the role's own."""
        if self.role == 0:
            return th.Prim("bar.sync", (), span)
        count = Const(self.team.threads, i32)
        return th.Prim("bar.named.sync", (Const(self.role, i32), count), span)

    @contextmanager
    def acting(self, team: Team, role: int, alone: bool) -> Iterator[list[th.Stmt]]:
        """Within: statements run on `team`, or its first thread alone, as role number `role`;
        gives the role's own prologue."""
        outer = self.team, self.role, self.alone, self.prologue, self._bases
        self.team, self.role, self.alone, self.prologue, self._bases = team, role, alone, [], {}
        yield self.prologue
        self.team, self.role, self.alone, self.prologue, self._bases = outer

    @cached_property
    def async_used(self) -> frozenset[str]:
        """Shared tensors whose bytes the async proxy touches after threads may have written them:
        those that TMA stores or wgmma read, and all that share bytes with what TMA loads."""
        read: set[str] = set()
        filled: set[str] = set()
        for op in operations(self.program.body):
            if isinstance(op, Gemm):
                read.update((op.a.tensor, op.b.tensor))
            elif isinstance(op, Copy) and op.id in self.solution.bulk:
                load = self.solution.bulk[op.id].load
                (filled if load else read).add((op.dst if load else op.src).tensor)
        taken = [self._bytes(name) for name in filled]
        for tensor in self.program.tensors:
            if isinstance(tensor, SharedTensor) and tensor.name in self.arena.offsets:
                mine = self._bytes(tensor.name)
                if any(mine.start < other.stop and other.start < mine.stop for other in taken):
                    read.add(tensor.name)
        return frozenset(read)

    @cached_property
    def async_params(self) -> frozenset[str]:
        """Tensor parameters that TMA reads, writes or combines."""
        copies = (op for op in operations(self.program.body) if isinstance(op, Copy))
        plans = (self.solution.bulk.get(op.id) for op in copies)
        return frozenset(plan.param for plan in plans if plan is not None)

    def _bytes(self, name: str) -> range:
        """Where a shared tensor lies in the arena."""
        tensor = self.program.tensor(name)
        assert isinstance(tensor, SharedTensor)
        first = self.arena.offsets[name]
        return range(first, first + tensor_bytes(tensor))

    @cached_property
    def reached(self) -> Reached:
        """Shared tensors that blocks of the cluster touch in one another."""
        return reached(self.program)

    def map_name(self, plan: BulkPlan) -> str:
        """The tensor map of a TMA copy; copies with equal boxes share one."""
        param = self.program.param(plan.param)
        per_byte = max(1, 8 // param.dtype.bits)
        box = (*plan.box[:-1], plan.box[-1] // per_byte)
        dims = param.inward if param.inward != tuple(range(len(box))) else ()
        key = (plan.param, box, plan.span if plan.span > 16 else 0, dims)
        return self.maps.setdefault(key, f"{plan.param}_map{len(self.maps)}")

    def fresh(self, stem: str) -> str:
        """A name no other in the program has."""
        if not self._taken:
            self._taken.update(names_in(self.program))
        while True:
            self._count += 1
            name = f"{stem}{self._count}"
            if name not in self._taken:
                return name

    def once(self, value: Scalar) -> Scalar:
        """`value`, which depends on the thread alone, computed at the kernel's start."""
        if isinstance(value, (Const, Var)):
            return value
        if value not in self._bases:
            var = Var(self.fresh("base_"), value.dtype)
            self._bases[value] = var
            self.prologue.append(th.Assign(var, value, declares=True))
        return self._bases[value]

    def fragment(self, ref: TileRef) -> Fragment:
        """The fragment of a register tile."""
        return layout_of(self.solution.fragments, ref)

    def dtype(self, ref: TileRef) -> DType:
        return self.program.tensor(ref.tensor).dtype

    def register_base(self, ref: TileRef) -> Scalar:
        """Element of the register array where tile `ref` begins."""
        f = self.solution.fragments[ref.tensor]
        found = strides(f, cut_modes(ref, f.shape))
        return add(Const(0, i32), *(mul(ref.starts[m], found[m]) for m in sorted(found)))

    def element(self, ref: TileRef, index: Scalar) -> Element:
        """Value `index` of this thread's part of register tile `ref`."""
        return Element(ref.tensor, (add(self.register_base(ref), index),), self.dtype(ref))

    def assign(self, ref: TileRef, index: Scalar, value: Scalar, span: SourceSpan) -> th.SetElement:
        """Sets value `index` of this thread's part of `ref`, converted to its type."""
        target = add(self.register_base(ref), index)
        return th.SetElement(ref.tensor, target, cast(value, self.dtype(ref)), span)

    @contextmanager
    def visiting(self, places: Mapping[Place, Visited]) -> Iterator[None]:
        """Within: accesses to elements mean these values of tiles."""
        outer, self._visited = self._visited, places
        yield
        self._visited = outer

    def visited(self, place: Place) -> Visited:
        """The value that an access to an element means."""
        return self._visited[place]

    def loops(self, sizes: Sequence[int]) -> list[Scalar]:
        """One loop variable a size, the constant 0 where there is nothing to loop over."""
        return [Var(self.fresh("i"), i32) if n > 1 else Const(0, i32) for n in sizes]


def nest(
    loops: Sequence[Scalar],
    sizes: Sequence[int],
    body: Sequence[th.Stmt],
    copies: int | None = None,
) -> tuple[th.Stmt, ...]:
    """`body` inside unrolled loops, the first loop innermost.

    With `copies`, loops that would make more than that many copies of the body stay loops: only
    for bodies that index no register array by them.
    """
    out, made = tuple(body), 1
    for loop, size in zip(loops, sizes):
        if isinstance(loop, Var):
            zero, stop, one = Const(0, i32), Const(size, i32), Const(1, i32)
            made *= size
            out = (th.For(loop, zero, stop, one, out, unroll=copies is None or made <= copies),)
    return out


def rep_modes(reps: Sequence[Rep]) -> list[Mode]:
    """The tile moves of repetitions."""
    return [Mode(r.size, r.step, r.dim) for r in reps]


def register_offset(base: Scalar, reps: Sequence[Rep], loops: Sequence[Scalar]) -> Scalar:
    """Register element of a repetition."""
    return add(base, *(mul(loop, rep.reg) for rep, loop in zip(reps, loops)))


def names_in(program: TileProgram) -> set[str]:
    """Every name that the program uses: parameters, tensors, variables."""
    names = {p.name for p in program.params} | {t.name for t in program.tensors}
    names |= {name for name, _ in program.scalars} | set(program.symbols)
    for stmt in statements(program.body):
        names |= {var.name for var in variables(stmt)}
    return names
