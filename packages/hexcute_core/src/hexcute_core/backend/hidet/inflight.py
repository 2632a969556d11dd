"""What asynchronous products have in flight, by statement: registers to hold, loops entered busy.

The C++ compiler knows nothing of asynchronous registers. At a fence the operands of the products
up to the next commit must have their values; after a wait the accumulators of the groups that it
completes have new ones. The printed asm takes them as operands, so that nothing that reads or
writes them moves across. Groups are followed in program order, loop bodies once more where an
iteration leaves what the one before did not find.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hexcute_core.scalar import Const
from hexcute_core.thread import (
    Assign,
    DeclareArray,
    For,
    If,
    Prim,
    Regs,
    Say,
    SetElement,
    Stamp,
    Stmt,
    While,
)
from hexcute_core.thread.visit import statements
from hexcute_core.unions import assert_never

Groups = tuple[frozenset[str], ...]
"""Accumulators of the groups in flight, the oldest first."""


@dataclass
class InFlight:
    """By identity: `held`, the arrays that a fence or wait must hold; `busy`, the loops that are
    entered with products in flight."""

    held: dict[int, set[str]] = field(default_factory=dict)
    busy: set[int] = field(default_factory=set)


@dataclass
class _Walk:
    # The most groups that any wait leaves in flight: those before are alike.
    most: int
    found: InFlight = field(default_factory=InFlight)
    fences: list[int] = field(default_factory=list)
    current: set[str] = field(default_factory=set)

    def block(self, body: tuple[Stmt, ...], groups: Groups) -> Groups:
        for stmt in body:
            match stmt:
                case Prim():
                    groups = self.prim(stmt, groups)
                case For() | While():
                    if groups:
                        self.found.busy.add(id(stmt))
                    for _ in range(2):
                        before, groups = groups, _joined(groups, self.block(stmt.body, groups))
                        # Going on would double the work at every level of nested loops.
                        if groups == before:
                            break
                case If():
                    then = self.block(stmt.then, groups)
                    groups = _joined(then, self.block(stmt.otherwise, groups))
                case DeclareArray() | SetElement() | Assign() | Say() | Stamp():
                    pass
                case _:
                    assert_never(stmt)
        return groups

    def prim(self, stmt: Prim, groups: Groups) -> Groups:
        match stmt.name, stmt.operands:
            case "wgmma.fence", _:
                self.fences.append(id(stmt))
                self.found.held.setdefault(id(stmt), set())
            case "wgmma.commit", _:
                groups = _limited((*groups, frozenset(self.current)), self.most + 1)
                self.fences, self.current = [], set()
            case "wgmma.wait", (Const() as pending,):
                finished = max(len(groups) - int(pending.value), 0)
                self.found.held.setdefault(id(stmt), set()).update(*groups[:finished])
                groups = groups[finished:]
            case name, (Regs() as accumulator, *rest) if name.startswith("wgmma."):
                self.current.add(accumulator.array)
                sources = {r.array for r in rest if isinstance(r, Regs)}
                for fence in self.fences:
                    self.found.held[fence] |= {accumulator.array} | sources
            case _:
                pass
        return groups


def _limited(groups: Groups, most: int) -> Groups:
    """At most so many groups: the oldest, which every wait finishes together, are one."""
    surplus = max(len(groups) - most, 0)
    return (frozenset().union(*groups[: surplus + 1]), *groups[surplus + 1 :]) if groups else ()


def _joined(a: Groups, b: Groups) -> Groups:
    """Either history: groups of the same age together, the newest aligned."""
    size = max(len(a), len(b))
    padded = [((frozenset[str](),) * (size - len(x))) + x for x in (a, b)]
    return tuple(x | y for x, y in zip(*padded, strict=True))


def in_flight(body: tuple[Stmt, ...]) -> InFlight:
    """Follows the products of `body`."""
    waits = [
        int(s.operands[0].value)
        for s in statements(body)
        if isinstance(s, Prim) and s.name == "wgmma.wait" and isinstance(s.operands[0], Const)
    ]
    walk = _Walk(max(waits, default=0))
    walk.block(body, ())
    return walk.found
