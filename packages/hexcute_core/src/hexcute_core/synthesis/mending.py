"""Where no layouts agree: the cheapest rearrange that lets them.

Every operand that an operation of the conflicting component reads may be taken through a
rearrange, alike for all operations of one kind on the same tensors; each is tried, gemm operands
first, and the solution of least clocks kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from hexcute_core.errors import LayoutConflict, NoLayout, SourceSpan
from hexcute_core.synthesis.candidates import Conflicts
from hexcute_core.synthesis.graph import Component, op_refs
from hexcute_core.synthesis.rewrite import Edge, edges, insert
from hexcute_core.synthesis.solution import Inserted, Solution
from hexcute_core.tile import Copy, Gemm, RegisterTensor, TileProgram
from hexcute_core.tile.ir import TileOp

# Places tried for one rearrange, and rearranges put in one after the other.
PLACES = 8
DEPTH = 3

Solve = Callable[[TileProgram], Solution]


@dataclass(frozen=True)
class _Place:
    edge: Edge
    ops: tuple[TileOp, ...]
    source: SourceSpan


def mend(program: TileProgram, conflict: Conflicts, solve: Solve) -> Solution | None:
    """The cheapest solution of `program` with rearranges inserted, or None."""
    return _mend(program, conflict, solve, (), DEPTH)


def _mend(
    program: TileProgram,
    conflict: Conflicts,
    solve: Solve,
    before: tuple[Inserted, ...],
    depth: int,
) -> Solution | None:
    best: Solution | None = None
    deeper: list[tuple[TileProgram, Conflicts, tuple[Inserted, ...]]] = []
    for place in list(_places(program, conflict.component))[:PLACES]:
        changed, numbers = insert(program, place.ops, place.edge)
        added = tuple(
            Inserted(n, place.edge.of(op).tensor, place.source, op.span)
            for n, op in zip(numbers, place.ops)
        )
        try:
            found = solve(changed)
        except Conflicts as again:
            deeper.append((changed, again, (*before, *added)))
            continue
        except (LayoutConflict, NoLayout):
            continue
        if best is None or found.cost < best.cost:
            best = replace(found, inserted=(*before, *added))
    if best is not None or depth == 1:
        return best
    for half, cause, added in deeper:
        whole = _mend(half, cause, solve, added, depth - 1)
        if whole is not None:
            return whole
    return None


def _places(program: TileProgram, component: Component) -> Iterator[_Place]:
    """Operands that another operation of the component made, gemm operands first."""
    ops = [item.op for item in component.ops]
    members = set(component.tensors)
    memory = {t.name for t in program.tensors if not isinstance(t, RegisterTensor)}
    groups: dict[tuple[object, ...], list[TileOp]] = {}
    for op in sorted(ops, key=lambda op: not isinstance(op, Gemm)):
        if not isinstance(op, Copy):
            names = tuple(r.tensor for r in op_refs(op))
            groups.setdefault((type(op), names), []).append(op)
    for alike in groups.values():
        for edge in edges(alike[0]):
            name = edge.of(alike[0]).tensor
            writer = next((w for w in ops if w not in alike and op_refs(w)[0].tensor == name), None)
            loaded = isinstance(writer, Copy) and writer.src.tensor in memory
            if name in members and writer is not None and not loaded:
                yield _Place(edge, tuple(alike), writer.span)
