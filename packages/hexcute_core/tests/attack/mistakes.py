"""mistakes(program) = the same program with one mistake each: a synchronising statement deleted,
written twice, moved, weakened or with a wrong number.

A mistake that has no effect says why (`harmless.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from mutations import SYNCHRONISING

from attack.harmless import Where, alone, by_more, free, meetings, moved, renamed, twice
from hexcute_core.scalar import Const, Scalar, add, free_vars, sub
from hexcute_core.thread import If, Prim, SharedPtr, Stmt, ThreadProgram, While
from hexcute_core.thread.visit import scalars, statements

BODIES = ("body", "then", "otherwise")

WEAKER = {
    "bar.sync": "bar.warp.sync", "bar.named.sync": "bar.named.arrive",
    "fence.proxy": "fence.proxy.global", "fence.proxy.global": "fence.proxy",
    "fence.gpu": "fence.cta", "tma.wait": "tma.wait.read",
    "mbarrier.wait.cluster": "mbarrier.wait", "mbarrier.arrive.cluster": "mbarrier.arrive",
    "mbarrier.arrive.cluster.release": "mbarrier.arrive.cluster",
    "mbarrier.expect": "mbarrier.arrive",
}  # fmt: skip
NEXT = "the next number"
ORDERS = (".acquire", ".release", ".acq_rel")


@dataclass(frozen=True)
class Mistake:
    """A program, which statement of it is wrong in what way, and why that has no effect."""

    kind: str
    what: str
    program: ThreadProgram
    harmless: str | None = None


@dataclass(frozen=True)
class _Edit:
    kind: str
    what: str
    block: tuple[Stmt, ...]
    harmless: str | None = None


def synchronises(stmt: Stmt) -> bool:
    """Whether a statement orders others."""
    ordered = isinstance(stmt, Prim) and any(order in stmt.name for order in ORDERS)
    return ordered or (isinstance(stmt, Prim) and stmt.name.startswith(SYNCHRONISING))


def mistakes(program: ThreadProgram) -> Iterator[Mistake]:
    """All of one program, in the order of its statements."""
    for edit in _edits(program.body, meetings(program.body), everyone=True):
        changed = replace(program, body=edit.block)
        yield Mistake(edit.kind, edit.what, changed, edit.harmless)


def _edits(block: tuple[Stmt, ...], where: Where, everyone: bool) -> Iterator[_Edit]:
    """Of a block of a program whose named barriers are met at `where`; `everyone`: all threads run
    it alike."""
    for i, stmt in enumerate(block):
        if synchronises(stmt):
            assert isinstance(stmt, Prim)
            yield from _of(block, i, stmt, where, everyone)
        for name in BODIES:
            inside = everyone and not isinstance(stmt, (If, While))
            for edit in _edits(getattr(stmt, name, ()), where, inside):
                inner: Any = replace(stmt, **{name: edit.block})  # type: ignore[arg-type]
                yield replace(edit, block=(*block[:i], inner, *block[i + 1 :]))
            yield from _moved_out(block, i, stmt, name)


def _named(stmt: Prim) -> str:
    return f"{stmt.name} at line {stmt.span.line if stmt.span else '-'}"


def _of(
    block: tuple[Stmt, ...], i: int, stmt: Prim, where: Where, everyone: bool
) -> Iterator[_Edit]:
    again = twice(stmt, alone(stmt, where), everyone)
    before, after, what = block[:i], block[i + 1 :], _named(stmt)
    if stmt.name.startswith(SYNCHRONISING):
        yield _Edit("delete", what, before + after)
    yield _Edit("duplicate", what, (*before, stmt, stmt, *after), again)
    yield from _moves(block, i, stmt, what)
    for weaker in _weaker(stmt):
        yield _Edit("weaken", f"{what} to {weaker.name}", (*before, weaker, *after))
    for how, wrong in _misnumbered(stmt):
        why = renamed(stmt, how == NEXT and free(stmt, where))
        yield _Edit("misnumber", f"{what}, {how}", (*before, wrong, *after), why)


def _touches(stmt: Stmt) -> bool:
    """Whether moving a barrier over the statement can matter: something in it is a primitive."""
    return any(isinstance(inner, Prim) for inner in statements((stmt,)))


def _moves(block: tuple[Stmt, ...], i: int, stmt: Prim, what: str) -> Iterator[_Edit]:
    """Over the statement before it and behind it that touches something, to both ends."""
    earlier = [j for j in range(i) if _touches(block[j])]
    later = [j for j in range(i + 1, len(block)) if _touches(block[j])]
    rest = block[:i] + block[i + 1 :]
    places = {}
    if earlier:
        places[earlier[-1]] = "one earlier"
        places.setdefault(earlier[0], "to the start")
    if later:
        places[later[0]] = "one later"
        places.setdefault(later[-1], "to the end")
    for j, where in places.items():
        # Declarations stay in front: what moves names no variable that is declared behind it.
        if j > i or _names(stmt).isdisjoint(_declared(block[j:i])):
            crossed = block[i + 1 : j + 1] if j > i else block[j:i]
            moves = (*rest[:j], stmt, *rest[j:])
            yield _Edit("move", f"{what}, {where}", moves, moved(stmt, crossed, j < i))


def _moved_out(block: tuple[Stmt, ...], i: int, stmt: Stmt, name: str) -> Iterator[_Edit]:
    """Out of a branch or loop, to the front of it or behind it."""
    body = getattr(stmt, name, ())
    for k, inner in enumerate(body):
        if synchronises(inner) and not _names(inner) & (_declared(body) | _loop_names(stmt)):
            left: Any = replace(stmt, **{name: body[:k] + body[k + 1 :]})  # type: ignore[arg-type]
            assert isinstance(inner, Prim)
            what = f"{_named(inner)}, out of its block"
            for where, crossed, pair in (
                ("to the front", body[:k], (inner, left)),
                ("behind it", body[k + 1 :], (left, inner)),
            ):
                why = by_more(inner, crossed) if isinstance(stmt, If) else None
                moves = (*block[:i], *pair, *block[i + 1 :])
                yield _Edit("move", f"{what} {where}", moves, why)


def _loop_names(stmt: Stmt) -> set[str]:
    var = getattr(stmt, "var", None)
    return set() if var is None else {var.name}


def _declared(block: tuple[Stmt, ...]) -> set[str]:
    found = set()
    for stmt in statements(block):
        for name in ("var", "array"):
            thing = getattr(stmt, name, None)
            if thing is not None and not isinstance(stmt, Prim):
                found.add(getattr(thing, "name", thing))
    return found


def _names(stmt: Stmt) -> set[str]:
    """The variables that a statement itself reads."""
    return {name for scalar in scalars(stmt) for name in free_vars(scalar)}


def _weaker(stmt: Prim) -> Iterator[Prim]:
    if stmt.name in WEAKER:
        operands = stmt.operands
        if stmt.name in ("bar.sync", "mbarrier.expect", "mbarrier.arrive.cluster"):
            operands = operands[: {"bar.sync": 0}.get(stmt.name, 1)]
        yield replace(stmt, name=WEAKER[stmt.name], operands=operands)
    for order in ORDERS:
        if order in stmt.name and not stmt.name.startswith("mbarrier"):
            yield replace(stmt, name=stmt.name.replace(order, ".relaxed"))


def _misnumbered(stmt: Prim) -> Iterator[tuple[str, Prim]]:
    """Each number of a statement, wrong by the least that can be meant."""
    for how, index, wrong in _numbers(stmt):
        operands = (*stmt.operands[:index], wrong, *stmt.operands[index + 1 :])
        yield how, replace(stmt, operands=operands)


def _numbers(stmt: Prim) -> Iterator[tuple[str, int, Any]]:
    name, operands = stmt.name, stmt.operands
    place = operands[0] if operands else None
    if name.startswith("mbarrier.") and isinstance(place, SharedPtr):
        yield "the next barrier", 0, SharedPtr(add(place.offset, 8))
        yield "the barrier before", 0, SharedPtr(sub(place.offset, 8))
    if name == "mbarrier.init":
        yield "a count of one more", 1, add(operands[1], 1)
        if not (isinstance(operands[1], Const) and operands[1].value == 1):
            yield "a count of one less", 1, sub(operands[1], 1)
    elif name == "mbarrier.expect":
        yield "16 bytes more", 1, add(operands[1], 16)
        yield "16 bytes less", 1, sub(operands[1], 16)
    elif name.startswith("mbarrier.wait"):
        yield "the other parity", 1, sub(1, operands[1])
    elif name.startswith("mbarrier.arrive.cluster"):
        yield "the next block", 1, add(operands[1], 1)
    elif name.startswith("bar.named"):
        yield NEXT, 0, add(operands[0], 1)
        yield "a warp more", 1, add(operands[1], 32)
        yield "a warp less", 1, sub(operands[1], 32)
    elif name.startswith(("cp.async.wait", "wgmma.wait", "tma.wait")):
        waited: Scalar = operands[0]  # type: ignore[assignment]
        yield "a group more left", 0, add(waited, 1)
