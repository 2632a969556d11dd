"""Offsets in a kernel's machine code -> why accesses there are in order, as paths show it, or why
what is read does not matter.

    met     some barrier of all threads is before every run of the one, and after every run of the
            other
    told    the one holds a slot from a wait at mbarriers E to an arrival at F, the other from a
            wait at F to an arrival at E; it may wait for the next slot before it gives one back
    handed  the same by named barriers, at which the one waits and the other arrives (turns.py)
    ended   a store to another block is in memory before its thread arrives there, and no thread
            goes on to its end without that arrival
    dropped what is loaded goes into selects alone, which may leave it out

`met` is a proof. `told`, `ended` and `sent` show that nothing is touched outside of a wait and an
arrival; which slot and phase these name, how many arrivals a phase takes, and that lanes which an
arrival speaks for have met, is the simulator's to find. That the selects of `dropped` leave out
what nothing wrote, the tests find, which have no numbers there. Mbarriers have the names that
addresses.py finds: one by one, or a ring's together, where a register chooses the slot.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import permutations

from addresses import Name, names
from machine import Machine, immediate, kind
from turns import handed

_ALL_MEET = re.compile(r"BAR\.SYNC(\.DEFER_BLOCKING)? 0x0")
_OF_SOME = re.compile(r"BAR\.\S+ 0x[1-9a-f][0-9a-f]*\b.*")
_READS = {"LDS", "LDSM"}
_WRITES = {"STS", "STSM", "LDGSTS", "ATOMS"}
_SELECTS = {"FSEL", "SEL"}
_KNOWN = {
    "CS2R", "F2FP", "FADD", "FFMA", "FMNMX", "FMUL", "FSEL", "FSETP", "HFMA2", "IADD3", "IMAD",
    "ISETP", "LDG", "LDS", "LEA", "LOP3", "MOV", "MUFU", "P2R", "R2UR", "SEL", "SHF", "SHFL",
    "STS", "VIADD",
}  # fmt: skip
"""Instructions whose result, if it is a register, comes first, and whose operands are single
registers but for addresses, the last one of .WIDE, and what is stored."""
_REGISTER = re.compile(r"\bR(\d+)(?:\.reuse)?(\.64)?")
_BYTES = 16
_RESULT = re.compile(r"\S+ (?:P\w+, )*R\d+\b")


def met(code: Machine, one: int, other: int) -> bool:
    """Every thread meets all others at the same instructions in the same order, each once; and at
    one of them the turn passes from one of the two offsets to the other."""
    barriers = [at for at, op in code.ops.items() if op.startswith("BAR.")]
    barriers = [at for at in barriers if not _OF_SOME.fullmatch(code.ops[at])]
    for at in barriers:
        if not _ALL_MEET.fullmatch(code.ops[at]):
            return False
        aside = code.before(lambda a, at=at: a == at)  # type: ignore[misc]
        if at in code.predicated or at in code.reach([at]) or aside & code.exits:
            return False
    for at in barriers:
        early = code.before(lambda a, at=at: a == at)  # type: ignore[misc]
        late = code.reach([at])
        for first, second in ((one, other), (other, one)):
            if first not in late and second not in early:
                return True
    return False


def told(code: Machine, one: int, other: int) -> bool:
    """Some two mbarriers, or two rings of them, hand a slot to and fro between the two offsets."""
    pairs = permutations(sorted(set(names(code).values())), 2)
    alike = ((e, f) for e, f in pairs if e.exact == f.exact)
    return any(_holds(code, one, e, f) and _holds(code, other, f, e) for e, f in alike)


@lru_cache(maxsize=1 << 14)
def _holds(code: Machine, at: int, first: Name, last: Name) -> bool:
    """Whether `at` is run between a wait at `first` and an arrival at `last`."""
    named = names(code)
    waits, arrivals = (
        {a for a in named if code.ops[a].startswith("SYNCS.PHASECHK") == waiting}
        for waiting in (True, False)
    )
    length = abs(first.at - last.at)
    waited = {a for a in waits if _is_of(code, named[a], first, length)}
    gone = {a for a in arrivals if _is_of(code, named[a], last, length)}
    gone |= {a for a in arrivals if _away(code, a) or _may_be(last, named[a])}
    if kind(code.ops[at]) == "LDGSTS":
        # A copy that goes on by itself is over at the arrival that waits for copies, no other:
        # the phase takes one of every thread that copies, beside the one that asks for bytes.
        gone = {a for a in gone if kind(code.ops[a]) == "ARRIVES"}
    return bool(gone & code.reach([at])) and code.held(at, waited, gone)


def _is_of(code: Machine, name: Name, ring: Name, length: int) -> bool:
    """Whether it is this mbarrier, or of this ring, whose slots come one after another, up to the
    other ring of the pipeline or any other."""
    if name == ring or ring.exact or not name.exact:
        return name == ring
    rings = {other.at for other in names(code).values() if not other.exact}
    end = min([ring.at + length, *(at for at in rings if at > ring.at)])
    return ring.at <= name.at < end


def _may_be(mbarrier: Name, name: Name) -> bool:
    """Whether what a slot of a ring names may be this one."""
    return mbarrier.exact and not name.exact and name.at <= mbarrier.at


def _away(code: Machine, arrival: int) -> bool:
    """Whether it is at an mbarrier of another block, whose address shows no constant."""
    return ".RED" in code.ops[arrival] and immediate(code.ops[arrival]) == 0


def ended(code: Machine, store: int) -> bool:
    """The block stored to waits for an arrival before its threads go on."""
    there = {at for at, op in code.ops.items() if re.match(r"SYNCS\.ARRIVE\S*\.RED", op)}
    fences = {at for at, op in code.ops.items() if op == "MEMBAR.ALL.GPU"}
    told_there = code.reach([store], lambda a: a in there)
    visible = not code.reach([store], lambda a: a in fences) & there
    waits = [at for at in _named(code, "SYNCS.PHASECHK") if _acquires(code, at)]
    awaited = any(store not in code.reach([w]) and w not in code.reach([store]) for w in waits)
    return visible and awaited and store not in told_there and not told_there & code.exits


def sent(code: Machine, store: int, load: int | None = None) -> bool:
    """What a block stores to another, that one loads behind its wait; without a load, whether it
    ends behind it. Where a block waits for nothing, nothing is sent to it: the tests find that."""
    there = {at for at, op in code.ops.items() if re.match(r"SYNCS\.ARRIVE\S*\.RED", op)}
    fences = {at for at, op in code.ops.items() if op == "MEMBAR.ALL.GPU"}
    meet = {at for at, op in code.ops.items() if _OF_SOME.fullmatch(op) and "BAR.SYNC" in op}
    meet -= code.predicated.keys()
    waits = {at for at in _named(code, "SYNCS.PHASECHK") if _acquires(code, at)}
    alone = code.reach([store], lambda a: a in meet)
    joined = not alone & (there | waits | code.exits) and store not in alone
    visible = not code.reach(alone & meet, lambda a: a in fences) & there
    once = store not in code.reach(there | waits)
    behind = load is None or load not in code.before(lambda a: a in waits)
    return bool(there and waits) and joined and visible and once and behind


def dropped(code: Machine, load: int) -> bool:
    """Nothing but selects uses the registers that a load fills, until they hold something else."""
    filled, _ = _registers(code.ops[load])
    return len(filled) > 0 and all(_left_out(code, load, register) for register in filled)


def _left_out(code: Machine, load: int, register: int) -> bool:
    def lost(at: int) -> bool:
        return at not in code.predicated and register in _registers(code.ops[at])[0]

    used = (at for at in code.reach([load], lost) if register in _registers(code.ops[at])[1])
    return all(kind(code.ops[at]) in _SELECTS or _refilled(code, at, register) for at in used)


def _refilled(code: Machine, use: int, register: int) -> bool:
    """Whether something fills the register under the predicate of a use, straight before it."""
    guard = code.predicated.get(use, "@PT")
    name, at = guard.lstrip("@!"), use
    while [before for before, after in code.follows.items() if at in after] == [at - _BYTES]:
        at -= _BYTES
        if register in _registers(code.ops[at])[0] and code.predicated.get(at) == guard:
            return True
        if re.search(rf"\b{name}\b", code.ops[at]):
            return False
    return False


def _registers(op: str) -> tuple[set[int], set[int]]:
    """The registers that an instruction fills, and those that it may use: where it is not known,
    none, and eight from each that it names."""
    named = [(int(found[1]), 2 if found[2] else 1) for found in _REGISTER.finditer(op)]
    if kind(op) not in _KNOWN:
        return set(), {register + i for register, _ in named for i in range(8)}
    filled: set[int] = set()
    if _RESULT.match(op):
        (first, _), *named = named
        filled = set(range(first, first + _words(op)))
    if named and (".WIDE" in op or kind(op) == "STS"):
        named[-1] = named[-1][0], _words(op)
    return filled, {register + i for register, words in named for i in range(words)}


def _words(op: str) -> int:
    """The registers of an instruction's result, or of what it stores."""
    mnemonic = op.split(maxsplit=1)[0]
    if ".128" in mnemonic:
        return 4
    pair = ".64" in mnemonic or ".WIDE" in mnemonic or mnemonic == "CS2R"
    return 2 if pair else 1


def _acquires(code: Machine, wait: int) -> bool:
    """Whether a wait takes in what other multiprocessors wrote: it is followed by the invalidation
    of what this one holds."""
    return any(code.ops[at] == "CCTL.IVALL" for at in code.follows[wait])


def _named(code: Machine, *kinds: str) -> dict[int, int]:
    """The instructions of these kinds, and the constant by which each names its mbarrier."""
    return {at: immediate(op) for at, op in code.ops.items() if op.startswith(kinds)}


def dropping(code: Machine) -> list[int]:
    """The loads from global memory whose results may all be left out."""
    return [at for at, op in code.ops.items() if kind(op) == "LDG" and dropped(code, at)]


def rule(code: Machine, one: int, other: int) -> str | None:
    """The rule by which what the instructions at two offsets touch is in order; None for none."""
    for store, load in ((one, other), (other, one)):
        if stores_anywhere(code, store):
            return "sent" if touches(code, load, False) and sent(code, store, load) else None
    if met(code, one, other):
        return "met"
    if told(code, one, other):
        return "told"
    return "handed" if handed(code, one, other) else None


def touches(code: Machine, at: int, write: bool) -> bool:
    """Whether the instruction at an offset reads, or writes, shared memory of its block."""
    return kind(code.ops.get(at, "")) in (_WRITES if write else _READS)


def stores_anywhere(code: Machine, at: int) -> bool:
    """Whether it stores to what may be shared memory of another block."""
    return kind(code.ops.get(at, "")) == "ST"
