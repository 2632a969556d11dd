"""stamped : ThreadProgram -> the same with stamps where threads begin and end to wait, copy,
multiply or store.

A stamp says what its thread does from there on, until other work begins: two stretches share one
where they meet, or where a few instructions lie between, or the end of a loop's trip. Stamps stand
at waits for barriers, slots and copies, at gemms and the waits for their products, and at the
instructions that start copies from global memory or another block or write to it: not inside loops
that repeat one instruction, nor between the copies and products of a statement.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeGuard

from hexcute_core.dtypes import u64
from hexcute_core.errors import SourceSpan
from hexcute_core.scalar import Element, Scalar, Var, free_vars
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
from hexcute_core.thread.stamps import PARAMETERS
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
_BOOKKEEPING = (
    "bar.named.arrive", "bar.warp.sync", "cluster.arrive", "cp.async.commit", "cp.async.mbarrier",
    "fence", "griddepcontrol.launch", "mbarrier.arrive", "mbarrier.expect", "mbarrier.init",
    "setmaxnreg", "tma.commit",
)  # fmt: skip
"""What says something to others and goes on."""
_FEW = 16
"""Nodes of an expression that is computed in passing."""


def stamped(program: ThreadProgram) -> ThreadProgram:
    """`program` with its stamps. It takes more scalar parameters, behind those it has and before
    the symbols, that say where a block's stamps go."""
    taken, prefix = _names(program), "timeline"
    while any(f"{prefix}_{name}" in taken for name in PARAMETERS):
        prefix += "_"
    params = tuple(f"{prefix}_{name}" for name in PARAMETERS)
    walk, begin = _Walk(), _set_up(program.body)
    body = (*program.body[:begin], *walk.block(program.body[begin:], None)[0])
    symbols = {name for p in program.params for e in p.shape for name in free_vars(e)}
    first = next(
        (i for i, p in enumerate(program.params) if not p.pointer and p.name in symbols),
        len(program.params),
    )
    own = [ThreadParam(param, u64) for param in params]
    return replace(
        program,
        params=(*program.params[:first], *own, *program.params[first:]),
        body=body,
        stamps=Stamps(tuple(walk.intervals), tuple(walk.runs), params),
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


_OPEN = -1
"""In some interval or in none: that depends on the way a thread came."""


@dataclass(frozen=True)
class _Mark:
    """A stamp to be, before its run is known."""

    opens: int | None
    span: SourceSpan | None


@dataclass
class _Walk:
    """Numbers the intervals and the runs of a program; equal ones, of a loop's copies say, are one.

    A state is the interval a thread is in, None, or `_OPEN`.
    """

    intervals: dict[Interval, int] = field(default_factory=dict)
    runs: dict[tuple[int | None, ...], int] = field(default_factory=dict)

    def block(
        self, body: tuple[Stmt, ...], state: int | None, closed: bool = False
    ) -> tuple[tuple[Stmt, ...], int | None]:
        """The statements with stamps between, and the state behind them: None if it is to be
        `closed`."""
        out: list[Stmt | _Mark] = []
        for stmt in _early(body):
            number = self.number(stmt)
            if number is None and _bookkeeping(stmt):
                out.append(stmt)
                continue
            if number is not None or not any(_told(s) for s in statements([stmt])):
                if number != state:
                    out.append(_Mark(number, _span(stmt)))
                    state = number
                out.append(stmt)
                continue
            match stmt:
                case If():
                    then, one = self.block(stmt.then, state)
                    otherwise, other = self.block(stmt.otherwise, state)
                    out.append(replace(stmt, then=then, otherwise=otherwise))
                    state = one if one == other else _OPEN
                case For() | While():
                    # A trip that begins in an interval ends the one that the last trip left open.
                    chained = self.begins(stmt.body)
                    if not chained and state is not None:
                        out.append(_Mark(None, stmt.span))
                        state = None
                    entry = _OPEN if chained else None
                    inside, end = self.block(stmt.body, entry, closed=not chained)
                    out.append(replace(stmt, body=inside))
                    state = end if end == state else _OPEN
                case DeclareArray() | SetElement() | Assign() | Prim() | Say() | Stamp():
                    out.append(stmt)
                case _:
                    assert_never(stmt)
        if closed and state is not None:
            out.append(_Mark(None, _span(body[-1])))
            state = None
        return self.sealed(out), state

    def begins(self, body: tuple[Stmt, ...]) -> bool:
        """Whether a block begins in an interval."""
        first = next((stmt for stmt in body if not _bookkeeping(stmt)), None)
        return first is not None and self.number(first) is not None

    def sealed(self, marked: list[Stmt | _Mark]) -> tuple[Stmt, ...]:
        """The block with its stamps, runs of which end where nested stamps come between."""
        out: list[Stmt] = []
        waiting: list[_Mark] = []
        places: list[int] = []

        def seal() -> None:
            run = tuple(mark.opens for mark in waiting)
            number = self.runs.setdefault(run, len(self.runs)) if run else 0
            for at, (place, mark) in enumerate(zip(places, waiting, strict=True)):
                out[place] = Stamp(number, at, mark.span)
            waiting.clear()
            places.clear()

        for stmt in marked:
            if isinstance(stmt, _Mark):
                waiting.append(stmt)
                places.append(len(out))
                out.append(Stamp(0, 0))
                continue
            if any(isinstance(s, Stamp) for s in statements([stmt])):
                seal()
            out.append(stmt)
        seal()
        return tuple(out)

    def number(self, stmt: Stmt) -> int | None:
        """The interval that is all of `stmt`, if it is one."""
        if any(_loops(s) for s in statements([stmt])):
            return None
        prims = [s for s in statements([stmt]) if isinstance(s, Prim)]
        found = [(a, p.span) for p in prims if (a := activity(p)) is not None]
        if len({a for a, _ in found}) != 1:
            return None
        return self.intervals.setdefault(Interval(*found[0]), len(self.intervals))


def _set_up(body: tuple[Stmt, ...]) -> int:
    """How many statements come before the first that does what an author's line says: barriers are
    made there, and their makers waited for."""
    for i, stmt in enumerate(body):
        if any(_told(s) and s.span is not None for s in statements([stmt])):
            return i
    return len(body)


def _early(body: tuple[Stmt, ...]) -> list[Stmt]:
    """The block with its waits for products as early as nothing but arithmetic is in their way.

    There the assembler has them, since a wait lets it schedule freely what follows; a stamp before
    the wait would hold both where they were written, and a kernel with stamps would be another.
    """
    out: list[Stmt] = []
    for stmt in body:
        at = len(out)
        if isinstance(stmt, Prim) and stmt.name == "wgmma.wait":
            while at and all(_arithmetic(s) for s in statements([out[at - 1]])):
                at -= 1
        out.insert(at, stmt)
    return out


def _arithmetic(stmt: Stmt) -> bool:
    """Whether `stmt` only computes, without a loop of the machine's."""
    match stmt:
        case DeclareArray() | SetElement() | Assign() | If():
            return True
        case For():
            return stmt.unroll
        case Prim() | Say() | Stamp() | While():
            return False
        case _:
            assert_never(stmt)


def _told(stmt: Stmt) -> TypeGuard[Prim]:
    return isinstance(stmt, Prim) and activity(stmt) is not None


def _bookkeeping(stmt: Stmt) -> bool:
    """Whether `stmt` is a matter of a few instructions, which the interval before it may have."""
    match stmt:
        case DeclareArray():
            return True
        case Assign():
            return _small(stmt.value)
        case Prim():
            return any(f"{stmt.name}.".startswith(f"{name}.") for name in _BOOKKEEPING)
        case If():
            return _small(stmt.cond) and all(map(_bookkeeping, stmt.then + stmt.otherwise))
        case SetElement() | Say() | Stamp() | For() | While():
            return False
        case _:
            assert_never(stmt)


def _small(e: Scalar) -> bool:
    return sum(1 for _ in walk(e)) <= _FEW


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
