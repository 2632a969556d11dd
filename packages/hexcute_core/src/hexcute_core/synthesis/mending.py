"""Where no layouts satisfy all equations: rearranges that are added so that some do, each at the
operation that broke an equation.

The operand that could not have the layout it needs is taken through a rearrange, alike for all
operations of one kind on the same tensors (or the operand of a product, where memory cannot hold
what it asks for); where a narrower tensor was cast to it, that one may be moved instead. A part
of a tensor which is cut along what threads share among them, or in ways that no order of registers
suits, is read from shared memory. Of the ways that solve the program the cheapest is kept; where
one rearrange is not enough, the next conflict is mended in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from hexcute_core.errors import LayoutConflict, NoLayout, SourceSpan
from hexcute_core.synthesis.candidates import Conflicts
from hexcute_core.synthesis.register_parts import Apart
from hexcute_core.synthesis.rewrite import edges, insert
from hexcute_core.synthesis.search import Unmovable
from hexcute_core.synthesis.solution import Inserted, Solution
from hexcute_core.tile import CastTile, Gemm, Rearrange, RegisterTensor, TileProgram
from hexcute_core.tile.ir import TileOp
from hexcute_core.tile.layouts import cut_modes
from hexcute_core.tile.visit import operands, operations, results, tiles
from hexcute_core.unions import assert_never

# Rearranges put in one after the other for each operation that broke an equation: both operands of
# a product and four vectors beside it.
DEPTH = 6
# Solutions tried for them all, and more for each further operation.
ATTEMPTS = 32
MORE = 8

Solve = Callable[[TileProgram], Solution]
Cause: TypeAlias = "Conflicts | Unmovable | Apart"


@dataclass(frozen=True)
class _Place:
    """Operations whose operand at place `edge` may come through a rearrange, which `cut`s it from
    its tensor, and the line that its tensor comes from."""

    edge: int
    ops: tuple[TileOp, ...]
    source: SourceSpan
    cut: bool = False


class _Mender:
    """Depth first over places; mutable while it runs."""

    def __init__(self, solve: Solve) -> None:
        self.solve = solve
        self.left = ATTEMPTS - MORE
        self.broken: set[object] = set()

    def mend(
        self, program: TileProgram, cause: Cause, before: tuple[Inserted, ...] = (), depth: int = 0
    ) -> Solution | None:
        """The cheapest solution of `program` with one rearrange more, or with several. `depth`
        operations are changed already: those `before`, and rearranges of the author's that are
        cut."""
        broken = _broken_by(cause)
        if broken not in self.broken:
            self.broken.add(broken)
            self.left += MORE
        best: Solution | None = None
        deeper: list[tuple[TileProgram, Cause, tuple[Inserted, ...], int]] = []
        for place in _places(program, cause):
            if self.left == 0:
                break
            self.left -= 1
            changed, numbers = insert(program, place.ops, place.edge, place.cut)
            moved = [op for op in place.ops if not isinstance(op, Rearrange)]
            added = tuple(
                Inserted(n, operands(op)[place.edge].tensor, place.source, op.span)
                for n, op in zip(numbers, moved, strict=True)
            )
            try:
                found = self.solve(changed)
            except (Conflicts, Unmovable, Apart) as again:
                deeper.append((changed, again, (*before, *added), depth + len(place.ops)))
                continue
            except (LayoutConflict, NoLayout):
                continue
            if best is None or found.cost < best.cost:
                best = replace(found, inserted=(*before, *added))
        if best is not None or depth >= DEPTH * len(self.broken):
            return best
        for half, reason, added, changes in deeper:
            whole = self.mend(half, reason, added, changes)
            if whole is not None:
                return whole
        return None


def mend(program: TileProgram, cause: Cause, solve: Solve) -> Solution | None:
    """The cheapest solution of `program` with rearranges inserted, or None."""
    return _Mender(solve).mend(program, cause)


def _broken_by(cause: Cause) -> object:
    """The operation, component or tensor that has no layout."""
    match cause:
        case Conflicts():
            return cause.conflict.op.id
        case Unmovable():
            return tuple(component.tensors for component in cause.components)
        case Apart():
            return cause.tensor
        case _:
            assert_never(cause)


def _places(program: TileProgram, cause: Cause) -> Iterator[_Place]:
    """Operands that a rearrange may free, the likeliest first."""
    if isinstance(cause, Conflicts):
        yield from _broken(program, cause)
        return
    if isinstance(cause, Apart):
        yield from _cuts(program, cause.tensor)
        return
    # What no memory can hold is what a product asks of its operands.
    for component in cause.components:
        ops = [item.op for item in component.ops]
        seen: set[tuple[str, ...]] = set()
        for op in ops:
            if isinstance(op, Gemm) and _names(op) not in seen:
                seen.add(_names(op))
                places = (_place(program, ops, op, edge) for edge in reversed(edges(op)))
                yield from (p for p in places if p is not None)


def _broken(program: TileProgram, conflict: Conflicts) -> Iterator[_Place]:
    """Operands of the conflict's operation that have the wrong layout, then what they were cast
    from; where its result has, what reads it too."""
    ops = [item.op for item in conflict.component.ops]
    broken, tensor = conflict.conflict.op, conflict.conflict.tensor
    if conflict.conflict.cut:
        yield from _cuts(program, tensor)
        if isinstance(broken, Gemm) and broken.c.tensor == tensor:
            return
    wrong = [e for e in edges(broken) if operands(broken)[e].tensor == tensor]
    # Where it is the result that differs, every operand may be brought to its layout.
    for edge in wrong or edges(broken):
        place = _place(program, ops, broken, edge)
        if place is None:
            continue
        yield place
        name = operands(broken)[edge].tensor
        cast = next((o for o in ops if isinstance(o, CastTile) and o.dst.tensor == name), None)
        if cast is not None and _bits(program, cast.src.tensor) < _bits(program, name):
            narrower = _place(program, ops, cast, 0)
            if narrower is not None:
                yield narrower
    if wrong:
        return
    # Or the result is moved on its way to those that want it otherwise.
    for op in ops:
        for edge in edges(op):
            if operands(op)[edge].tensor == tensor and op is not broken:
                place = _place(program, ops, op, edge)
                if place is not None:
                    yield place


def _cuts(program: TileProgram, name: str) -> Iterator[_Place]:
    """Operands that are parts of a tensor which is not held in these parts: all that cut it alike,
    for as long as one is left the tensor has to be held so."""
    tensor = next((t for t in program.tensors if t.name == name), None)
    if not isinstance(tensor, RegisterTensor):
        return
    ops = list(operations(program.body))
    alike: dict[tuple[object, int], list[TileOp]] = {}
    for op in ops:
        for edge, ref in enumerate(operands(op)):
            readable = not op.cut if isinstance(op, Rearrange) else edge in edges(op)
            cut = cut_modes(ref, tensor.shape) if ref.tensor == name else ()
            if cut and readable:
                alike.setdefault((cut, edge), []).append(op)
    for (_, edge), found in alike.items():
        place = _place(program, ops, found[0], edge)
        if place is not None:
            yield replace(place, ops=tuple(found), cut=True)


def _place(program: TileProgram, ops: list[TileOp], op: TileOp, edge: int) -> _Place | None:
    """The operand at place `edge` of `op`, and of all like it, with where its tensor comes from."""
    if not isinstance(program.tensor(operands(op)[edge].tensor), RegisterTensor):
        return None
    names = tuple(r.tensor for r in tiles(op))
    alike = tuple(o for o in ops if type(o) is type(op) and _names(o) == names)
    moved = operands(op)[edge].tensor
    writers = [
        o.span for o in ops if moved in {r.tensor for r in results(o)} and o not in alike
    ]
    return _Place(edge, alike, writers[-1] if writers else op.span)


def _names(op: TileOp) -> tuple[str, ...]:
    return tuple(r.tensor for r in tiles(op))


def _bits(program: TileProgram, name: str) -> int:
    return program.tensor(name).dtype.bits
