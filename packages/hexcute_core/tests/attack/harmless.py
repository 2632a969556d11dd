"""Why a mistake has no effect, whatever the hardware does: from the form of the program alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from hexcute_core.scalar import Const, add
from hexcute_core.thread import If, Prim, Regs, Stmt, While
from hexcute_core.thread.visit import statements

WAITS = ("cp.async.wait", "wgmma.wait", "tma.wait", "mbarrier.wait")
COMMITS = ("cp.async.commit", "wgmma.commit", "tma.commit")
SHOWS = ("fence.", "wgmma.fence", "bar.warp.sync")
_GROUPED = ("commit", "wait", "mbarrier")
# What orders, or is ordered by, a barrier: anything but arithmetic on a thread's own registers.
OWN = ("mma.", "shfl.", "griddepcontrol.")


def twice(stmt: Prim, alone: bool, everyone: bool) -> str | None:
    """Of a statement that is there twice; `alone`: no other statement names its barrier,
    `everyone`: all threads of the block come to it."""
    if stmt.name.startswith(WAITS):
        return "it waits for what is over, and stays over until its waiter goes on"
    if stmt.name.startswith(SHOWS):
        return "it shows what is shown"
    if stmt.name in COMMITS:
        return "a group of nothing more: every wait leaves fewer copies unfinished"
    if stmt.name == "bar.sync" and everyone:
        return "all threads meet twice"
    if stmt.name == "bar.named.sync" and alone:
        return "all who meet there meet twice"
    return None


def renamed(stmt: Prim, free: bool) -> str | None:
    """Of a named barrier with another number; `free`: those who meet there meet nowhere else, and
    nobody else uses that number."""
    return "a barrier of the same threads, which nobody else uses" if free else None


def moved(stmt: Prim, crossed: Iterable[Stmt], earlier: bool) -> str | None:
    """Of a statement that changes places with others that touch nothing of what it orders."""
    prims = [inner for inner in statements(tuple(crossed)) if isinstance(inner, Prim)]
    names = [prim.name for prim in prims]
    if stmt.name == "mbarrier.init" and all(name == "mbarrier.init" for name in names):
        return "barriers are initialised in any order"
    if stmt.name.startswith("mbarrier.arrive") and all(
        name.startswith("mbarrier.arrive") for name in names
    ):
        return "arrivals come in any order"
    if stmt.name in COMMITS:
        family = stmt.name.rpartition(".")[0]
        counted = tuple(f"{family}.{word}" for word in _GROUPED)
        if not earlier and not any(name.startswith(counted) for name in names):
            return "copies between join an earlier group, and are waited for sooner"
        if not any(name.startswith(_members(family)) for name in names):
            return "no copy, product or wait of its groups stands between"
    if earlier and stmt.name.startswith(WAITS[:3]):
        family = stmt.name.split(".wait")[0]
        if not any(name.startswith(_members(family)) for name in names):
            return "it waits sooner, for the same groups"
    if stmt.name == "mbarrier.expect" and all(name.startswith("tma.load") for name in names):
        return "no phase ends before the arrival that announces its bytes"
    disturbed = any(_writes_registers(p) or p.name.startswith("wgmma") for p in prims)
    if stmt.name == "wgmma.fence" and not disturbed:
        return "no register is written between, and no product stands there"
    if all(name.startswith(OWN) for name in names):
        return "what stands between touches a thread's own registers alone"
    return None


def by_more(stmt: Prim, crossed: Iterable[Stmt]) -> str | None:
    """Of a statement that leaves a branch at whose end it stood: more threads come to it."""
    if any(isinstance(inner, Prim) for inner in statements(tuple(crossed))):
        return None
    if stmt.name.startswith((*WAITS[:3], *SHOWS)) or stmt.name in COMMITS:
        return "it is come to more often: a wait waits more, a group of nothing is none"
    return None


def _members(family: str) -> tuple[str, ...]:
    return ("tma.", "bulk.") if family == "tma" else (family,)


def _writes_registers(prim: Prim) -> bool:
    return bool(prim.operands) and isinstance(prim.operands[0], Regs)


Where: TypeAlias = "dict[object, set[tuple[int, ...]]]"


def meetings(block: Iterable[Stmt], branch: tuple[int, ...] = ()) -> Where:
    """For each number of a named barrier, the branches in which statements come to it. A barrier
    that one branch alone comes to is of the same threads each time."""
    found: Where = {}
    for stmt in block:
        if isinstance(stmt, Prim) and stmt.name.startswith("bar.named"):
            how = branch if stmt.name.endswith("sync") else (*branch, id(stmt))
            found.setdefault(stmt.operands[0], set()).add(how)
        for name in ("body", "then", "otherwise"):
            parted = isinstance(stmt, (If, While))
            inside = (*branch, id(stmt), len(name)) if parted else branch
            for number, places in meetings(getattr(stmt, name, ()), inside).items():
                found.setdefault(number, set()).update(places)
    return found


def alone(stmt: Prim, where: Where) -> bool:
    """Whether the threads that come to the statement's barrier all do so in one branch."""
    known = all(isinstance(number, Const) for number in where)
    return stmt.name == "bar.named.sync" and known and len(where[stmt.operands[0]]) == 1


def free(stmt: Prim, where: Where) -> bool:
    """Whether one branch alone comes to the barrier, and nobody to that of the next number."""
    number = stmt.operands[0] if stmt.operands else None
    if not alone(stmt, where) or not isinstance(number, Const):
        return False
    return add(number, 1) not in where
