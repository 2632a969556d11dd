"""Why a mistake has no effect, whatever the hardware does: from the form of the program alone."""

from __future__ import annotations

from collections.abc import Iterable

from hexcute_core.scalar import Const
from hexcute_core.thread import Prim, Regs, Stmt
from hexcute_core.thread.visit import statements

WAITS = ("cp.async.wait", "wgmma.wait", "tma.wait", "mbarrier.wait")
COMMITS = ("cp.async.commit", "wgmma.commit", "tma.commit")
SHOWS = ("fence.", "wgmma.fence", "bar.warp.sync")
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


def moved(stmt: Prim, crossed: Iterable[Stmt]) -> str | None:
    """Of a statement that changes places with others that touch nothing of what it orders."""
    prims = [inner for inner in statements(tuple(crossed)) if isinstance(inner, Prim)]
    names = [prim.name for prim in prims]
    if stmt.name == "mbarrier.init" and all(name == "mbarrier.init" for name in names):
        return "barriers are initialised in any order"
    if stmt.name in COMMITS:
        family = stmt.name.rpartition(".")[0]
        if not any(name.startswith(_members(family)) for name in names):
            return "no copy, product or wait of its groups stands between"
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
    if stmt.name.startswith(("cp.async.wait", "tma.wait", *SHOWS)) or stmt.name in COMMITS:
        return "threads come to it that have no groups, and nothing to show"
    return None


def _members(family: str) -> tuple[str, ...]:
    return ("tma.", "bulk.") if family == "tma" else (family,)


def _writes_registers(prim: Prim) -> bool:
    return bool(prim.operands) and isinstance(prim.operands[0], Regs)


def alone(stmt: Prim, body: tuple[Stmt, ...]) -> bool:
    """Whether no other statement of the program comes to the same named barrier."""
    if not stmt.name.startswith("bar.named") or not isinstance(stmt.operands[0], Const):
        return False
    named = [
        other for other in statements(body)
        if isinstance(other, Prim) and other.name.startswith("bar.named")
    ]  # fmt: skip
    known = all(isinstance(other.operands[0], Const) for other in named)
    return known and [other.operands[0] for other in named].count(stmt.operands[0]) == 1
