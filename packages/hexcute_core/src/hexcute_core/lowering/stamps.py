"""stamped : ThreadProgram -> the same with stamps where threads begin and end to wait, copy,
multiply or store.

A stamp says what its thread does from there on, so that two stretches that meet share one. Stamps
stand around waits for barriers, slots and copies, around gemms with the waits for their products,
and around the instructions that start copies from global memory or another block or write to it:
not inside loops that repeat one instruction, nor between the copies and products of a statement.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hexcute_core.dtypes import u64
from hexcute_core.errors import SourceSpan
from hexcute_core.scalar import Element, Var, free_vars
from hexcute_core.scalar.visit import walk
from hexcute_core.thread import (
    Activity,
    Assign,
    DeclareArray,
    For,
    If,
    Interval,
    Prim,
    Say,
    SetElement,
    Stamp,
    Stamps,
    Stmt,
    ThreadParam,
    ThreadProgram,
    While,
)
from hexcute_core.thread.visit import scalars, statements
from hexcute_core.unions import assert_never

_ACTIVITIES: dict[str, Activity] = {
    "mbarrier.wait": "wait", "cp.async.wait": "wait", "bar.sync": "wait", "bar.named.sync": "wait",
    "bar.named.any": "wait",
    "cluster.wait": "wait", "tma.wait": "wait", "griddepcontrol.wait": "wait",
    "cp.async": "copy", "ld.global": "copy", "tma.load": "copy", "bulk.load": "copy",
    "tma.prefetch": "copy", "ld.cluster": "copy", "st.cluster": "store",
    "wgmma": "multiply", "mma": "multiply",
    "st.global": "store", "tma.store": "store", "tma.reduce": "store", "bulk.store": "store",
    "red.global": "store", "atom.global": "store",
}  # fmt: skip
"""By what a primitive's name begins with; of two that do, the longer."""
_NOTHING_MOVED = ("cp.async.commit", "cp.async.mbarrier")


def stamped(program: ThreadProgram) -> ThreadProgram:
    """`program` with its stamps. It takes one more scalar parameter, behind those it has and before
    the symbols: the address of the table that says where a block's stamps go."""
    param = "timeline"
    taken = _names(program)
    while param in taken:
        param += "_"
    walk = _Walk()
    body = walk.block(program.body)
    symbols = {name for p in program.params for e in p.shape for name in free_vars(e)}
    first = next(
        (i for i, p in enumerate(program.params) if not p.pointer and p.name in symbols),
        len(program.params),
    )
    own = ThreadParam(param, u64)
    return replace(
        program,
        params=(*program.params[:first], own, *program.params[first:]),
        body=body,
        stamps=Stamps(tuple(walk.intervals), param),
    )


def _names(program: ThreadProgram) -> set[str]:
    names = {p.name for p in program.params} | {m.name for m in program.maps}
    for stmt in statements(program.body):
        for node in (n for e in scalars(stmt) for n in walk(e)):
            if isinstance(node, Var):
                names.add(node.name)
            elif isinstance(node, Element):
                names.add(node.array)
        match stmt:
            case DeclareArray():
                names.add(stmt.array)
            case Assign() | For():
                names.add(stmt.var.name)
            case SetElement() | Prim() | Say() | Stamp() | While() | If():
                pass
            case _:
                assert_never(stmt)
    return names


@dataclass
class _Walk:
    """Numbers the intervals of a program; equal ones, of a loop's copies say, are one."""

    intervals: dict[Interval, int] = field(default_factory=dict)

    def block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """The statements with stamps between; the block begins and ends in no interval."""
        out: list[Stmt] = []
        current: int | None = None
        for stmt in body:
            number = self.number(stmt)
            if number != current:
                out.append(Stamp(number, _span(stmt)))
                current = number
            out.append(stmt if number is not None else self.inside(stmt))
        if current is not None:
            out.append(Stamp(None, _span(body[-1])))
        return tuple(out)

    def inside(self, stmt: Stmt) -> Stmt:
        """`stmt`, in no interval itself, with those of its blocks."""
        match stmt:
            case For() | While():
                return replace(stmt, body=self.block(stmt.body))
            case If():
                then, otherwise = self.block(stmt.then), self.block(stmt.otherwise)
                return replace(stmt, then=then, otherwise=otherwise)
            case DeclareArray() | SetElement() | Assign() | Prim() | Say() | Stamp():
                return stmt
            case _:
                assert_never(stmt)

    def number(self, stmt: Stmt) -> int | None:
        """The interval that is all of `stmt`, if it is one."""
        if any(_loops(s) for s in statements([stmt])):
            return None
        prims = [s for s in statements([stmt]) if isinstance(s, Prim)]
        found = [(a, p.span) for p in prims if (a := activity(p)) is not None]
        if len({a for a, _ in found}) != 1:
            return None
        return self.intervals.setdefault(Interval(*found[0]), len(self.intervals))


def _loops(stmt: Stmt) -> bool:
    """Whether `stmt` is a loop of the author's: those that lowering makes have no place."""
    return isinstance(stmt, While) or (isinstance(stmt, For) and stmt.span is not None)


def activity(prim: Prim) -> Activity | None:
    """What a thread does that runs `prim`; None for what takes no time worth telling."""
    if prim.name in _NOTHING_MOVED:
        return None
    words = prim.name.split(".")
    for count in range(len(words), 0, -1):
        found = _ACTIVITIES.get(".".join(words[:count]))
        if found is not None:
            return found
    return None


def _span(stmt: Stmt) -> SourceSpan | None:
    return None if isinstance(stmt, DeclareArray) else stmt.span
