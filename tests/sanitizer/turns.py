"""Named barriers by which two roles hand a slot to and fro: the rule `handed`.

    role   waits at E, touches, arrives at F          other role   waits at F, touches, arrives at E

A barrier has no parity: its phases come one after another, each of so many threads. So a role that
arrives again has to have waited in between, and then the number of its round is that of the phase
it waits for. One role may begin without a wait, since the slot is free: a wait under a predicate
that is false in no round but the first. How many threads a phase takes is the simulator's to find,
and that no number of rounds wraps is taken for granted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import permutations

from addresses import Value, Values
from machine import Machine, kind

_BARRIER = re.compile(r"BAR\.(SYNC|ARV)\S* (0x[0-9a-f]+), 0x[0-9a-f]+")
_ALL_MEET = re.compile(r"BAR\.SYNC\S* 0x0")
_NOT_ZERO = re.compile(r"ISETP\.NE(?:\.U32)?\.AND (P\d), PT, (R\d+)(?:\.reuse)?, RZ, PT")


@dataclass(frozen=True)
class _Role:
    """What a role does at its two barriers; `first`: those of its waits that it passes by in the
    first round."""

    waits: frozenset[int]
    arrivals: frozenset[int]
    first: frozenset[int]


def handed(code: Machine, one: int, other: int) -> bool:
    """Some two named barriers hand a slot to and fro between the two offsets."""
    named: dict[str, dict[str, set[int]]] = {}
    for at, op in code.ops.items():
        if found := _BARRIER.fullmatch(op):
            named.setdefault(found[2], {"SYNC": set(), "ARV": set()})[found[1]].add(at)
        elif kind(op) == "BAR" and not _ALL_MEET.fullmatch(op):
            return False
    for e, f in permutations(named, 2):
        roles = [
            _Role(
                frozenset(named[before]["SYNC"]),
                frozenset(named[after]["ARV"]),
                frozenset(named[before]["SYNC"] & code.predicated.keys()),
            )
            for before, after in ((e, f), (f, e))
        ]
        apart = not any(
            (mine.waits | mine.arrivals) & code.reach(yours.waits | yours.arrivals)
            for mine, yours in permutations(roles)
        )
        one_begins = sum(bool(role.first) for role in roles) <= 1
        if apart and one_begins and all(map(_holds, (code, code), (one, other), roles)):
            return True
    return False


def _holds(code: Machine, at: int, role: _Role) -> bool:
    """Whether `at` is run between a wait and an arrival of a role that never arrives twice."""
    if kind(code.ops[at]) == "LDGSTS" or not role.arrivals & code.reach([at]):
        return False
    if not all(_but_at_first(code, wait, role.arrivals) for wait in role.first):
        return False
    again = code.reach(role.arrivals, lambda a: a in role.waits) & role.arrivals
    return not again and code.held(at, set(role.waits), set(role.arrivals), bool(role.first))


def _but_at_first(code: Machine, wait: int, arrivals: frozenset[int]) -> bool:
    """Whether a wait is run wherever an arrival came before: its predicate says that a number is
    not 0, which is 0 at the start alone, and by each arrival has grown by one."""
    values = Values(code)
    found = _tested(values, code, wait)
    if found is None:
        return False
    at, register = found
    starts, steps = set(), set()
    for where in values.definitions(register, at):
        if where is None or where in code.predicated:
            return False
        zero = values.made(where) == Value("number")
        (starts if zero else steps).add(where)
    step = re.compile(rf"(VIADD {register}, {register}|IADD3 {register}, {register}), 0x1(, RZ)?")
    grow = all(
        step.fullmatch(code.ops[s].replace(".reuse", ""))
        and set(values.definitions(register, s)) <= starts | steps
        for s in steps
    )
    return grow and all(
        not code.reach([a]) & starts and set(values.definitions(register, a)) <= steps
        for a in arrivals
    )


def _tested(values: Values, code: Machine, wait: int) -> tuple[int, str] | None:
    """The one instruction that fills the predicate of a wait, and the register that it compares
    with 0; None where it does something else."""
    guard = code.predicated[wait]
    found = values.changed(guard.lstrip("@!"), wait)
    if len(found) != 1:
        return None
    (at,) = found
    test = None if at is None else _NOT_ZERO.fullmatch(code.ops[at])
    if at is None or test is None or guard != f"@{test[1]}" or at in code.predicated:
        return None
    return at, test[2]
