"""Loads of the same tile by all blocks of a cluster: each block loads a part of it, for all of
them.

e is the same in all blocks along axis x of a cluster of C blocks if it does not depend on the
block's place there: blockIdx.x // d is where C divides d, and what is made of such values, under
such conditions, is too: numbers read at such places from a parameter that the kernel only reads
among them, and what tiles of them in registers add up to. Slots are filled and freed in step where
loops and conditions are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from hexcute_core.scalar import Binary, Call, Const, Element, Scalar, Var, children
from hexcute_core.synthesis.operands import CORE_ROWS
from hexcute_core.synthesis.solution import BulkPlan, Multicast, Rejected, subject
from hexcute_core.tile import (
    Copy,
    For,
    ForElements,
    Gemm,
    GlobalView,
    If,
    PipelineRelease,
    PipelineWait,
    Produce,
    RegisterTensor,
    Role,
    SetElement,
    Stmt,
    TileProgram,
    TileRef,
    UpdateElement,
    While,
)
from hexcute_core.tile.ir import Nest, TileOp
from hexcute_core.tile.visit import operands, placed, results, scalars, statements, variables
from hexcute_core.unions import assert_never

AXES = "xyz"


@dataclass(frozen=True)
class _Around:
    """The values that decide whether and how often a statement runs, and the pipeline whose slot
    it fills."""

    guards: tuple[Scalar, ...] = ()
    pipeline: str | None = None


def _enter(stmt: Nest, around: _Around) -> _Around:
    match stmt:
        case For() | While() | If():
            return replace(around, guards=(*around.guards, *scalars(stmt)))
        case Produce():
            return replace(around, pipeline=stmt.pipeline)
        case Role() | ForElements():
            return around
        case _:
            assert_never(stmt)


def find_multicasts(
    program: TileProgram, bulk: Mapping[int, BulkPlan]
) -> dict[int, Multicast | str]:
    """For every load by TMA that fills a pipeline's slot in a cluster: how it is shared, or why it
    is not."""
    if program.cluster_dim == (1, 1, 1):
        return {}
    all_placed = list(placed(program.body, _Around(), _enter))
    places = _Places(program, all_placed)
    free = {
        p.name: tuple(
            axis
            for axis, extent in enumerate(program.cluster_dim)
            if extent > 1
            and all(
                places.same(e, axis)
                for stmt, around in all_placed
                if isinstance(stmt, (Produce, PipelineWait, PipelineRelease))
                and stmt.pipeline == p.name
                for e in around.guards
            )
        )
        for p in program.pipelines
    }
    found: dict[int, Multicast | str] = {}
    for op, around in all_placed:
        if not isinstance(op, Copy) or op.id not in bulk or around.pipeline is None:
            continue
        values = [*_coordinates(program, op.src), *op.dst.starts]
        axes = tuple(
            axis for axis in free[around.pipeline] if all(places.same(e, axis) for e in values)
        )
        found[op.id] = _shared(program, bulk[op.id], axes)
    return found


def refused_multicasts(
    program: TileProgram, found: Mapping[int, Multicast | str]
) -> Iterator[Rejected]:
    """For the reader: loads that the blocks of a cluster do not share."""
    for op in statements(program.body):
        reason = found.get(op.id) if isinstance(op, Copy) else None
        if isinstance(op, Copy) and isinstance(reason, str):
            yield Rejected(subject(op), "tma.load.multicast", reason, op.span)


def _shared(program: TileProgram, plan: BulkPlan, axes: tuple[int, ...]) -> Multicast | str:
    if not axes:
        return "the blocks of a cluster load different tiles, or not in step"
    blocks = prod(program.cluster_dim[axis] for axis in axes)
    # A box is compact: parts of it along its slowest dimension are boxes themselves.
    slowest = min((d for d, extent in enumerate(plan.box) if extent > 1), default=0)
    rows = plan.box[slowest]
    if slowest == len(plan.box) - 1 or rows % (CORE_ROWS * blocks):
        return f"boxes of {rows} rows are not {blocks} parts of a multiple of {CORE_ROWS}"
    return Multicast(axes, blocks, plan.dims.index(slowest), rows // blocks)


def _coordinates(program: TileProgram, ref: TileRef) -> Iterator[Scalar]:
    view = program.tensor(ref.tensor)
    if isinstance(view, GlobalView):
        yield from view.origin
        yield from (s.step for mode in view.modes for s in mode)
    yield from ref.starts


def _only_read(program: TileProgram) -> frozenset[str]:
    """The views of parameters of which no statement writes any element."""
    views = [t for t in program.tensors if isinstance(t, GlobalView)]
    written = {name for stmt in statements(program.body) for name in _filled(stmt)}
    params = {v.param for v in views if v.name in written}
    return frozenset(v.name for v in views if v.param not in params)


def _filled(stmt: Stmt) -> tuple[str, ...]:
    """The tensors of which `stmt` itself writes elements."""
    if isinstance(stmt, UpdateElement):
        return (stmt.dst.tensor,)
    if isinstance(stmt, SetElement):
        return (stmt.tensor,)
    return tuple(ref.tensor for ref in results(stmt)) if isinstance(stmt, TileOp) else ()


def _made_of(
    program: TileProgram, stmt: Stmt, kept: frozenset[str]
) -> tuple[Scalar, ...] | None:
    """What the elements that `stmt` writes follow from, tiles in registers by their elements; None
    where more than that matters. `kept` are views of memory that nobody writes."""
    if isinstance(stmt, SetElement):
        return scalars(stmt)
    if isinstance(stmt, ForElements):
        # What is set inside counts by itself.
        return ()
    if not isinstance(stmt, TileOp) or isinstance(stmt, Gemm):
        return None
    if isinstance(stmt, Copy):
        if stmt.update is not None or stmt.src.rows is not None:
            return None
        if stmt.src.tensor in kept:
            return (*_coordinates(program, stmt.src), *stmt.dst.starts)
    read = [(ref, program.tensor(ref.tensor)) for ref in operands(stmt)]
    if not all(isinstance(tensor, RegisterTensor) for _, tensor in read):
        return None
    held = (Element(ref.tensor, ref.starts, tensor.dtype) for ref, tensor in read)
    return (*scalars(stmt), *held)


_Name = tuple[str, str]
"""A variable or a tile in registers: its kind, "var" or "tile", and its name."""


class _Places:
    """What depends on a block's place in its cluster."""

    def __init__(self, program: TileProgram, all_placed: Iterable[tuple[Stmt, _Around]]) -> None:
        self._extents = program.cluster_dim
        # What a value follows from: everything assigned, and when; None, where of a tile not all
        # follows from what memory holds.
        self._sources: dict[_Name, list[Scalar] | None] = {}
        self._different: dict[int, frozenset[_Name]] = {}
        kept = _only_read(program)
        for stmt, around in all_placed:
            for var in variables(stmt):
                self._add(("var", var.name), (*scalars(stmt), *around.guards))
            for tensor in _filled(stmt):
                made = _made_of(program, stmt, kept)
                self._add(("tile", tensor), None if made is None else (*made, *around.guards))

    def _add(self, name: _Name, sources: tuple[Scalar, ...] | None) -> None:
        known = self._sources.setdefault(name, [])
        if known is None or sources is None:
            self._sources[name] = None
        else:
            known += sources

    def same(self, e: Scalar, axis: int) -> bool:
        """Whether all blocks along `axis` of a cluster have one value of `e`."""
        if axis not in self._different:
            self._different[axis] = self._differing(axis)
        return self._different[axis].isdisjoint(self._leads_to(e, axis))

    def _differing(self, axis: int) -> frozenset[_Name]:
        """The names whose values follow, by any way, from a block's place along `axis`."""
        behind: dict[_Name, list[_Name]] = {}
        for name, sources in self._sources.items():
            found = [_PLACE] if sources is None else [
                n for e in sources for n in self._leads_to(e, axis)
            ]  # fmt: skip
            for source in found:
                behind.setdefault(source, []).append(name)
        different, left = {_PLACE}, [_PLACE]
        while left:
            for name in behind.get(left.pop(), ()):
                if name not in different:
                    different.add(name)
                    left.append(name)
        return frozenset(different)

    def _leads_to(self, e: Scalar, axis: int) -> Iterator[_Name]:
        """The names in `e`, the place itself among them."""
        block = f"blockIdx.{AXES[axis]}"
        match e:
            case Var():
                yield _PLACE if e.name == block else ("var", e.name)
            case Binary(op="floordiv", a=Var(name=name), b=Const() as d) if name == block:
                if d.value % self._extents[axis]:
                    yield _PLACE
            case Binary(op="shr", a=Var(name=name), b=Const() as bits) if name == block:
                if (1 << int(bits.value)) % self._extents[axis]:
                    yield _PLACE
            case Element():
                known = ("tile", e.array) in self._sources
                yield ("tile", e.array) if known else _PLACE
                for index in e.indices:
                    yield from self._leads_to(index, axis)
            case Call():
                yield _PLACE
            case _:
                for child in children(e):
                    yield from self._leads_to(child, axis)


_PLACE: _Name = "place", ""
"""A block's place in its cluster, and whatever else may differ from block to block."""
