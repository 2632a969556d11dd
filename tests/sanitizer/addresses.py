"""Machine code -> which mbarrier each wait and arrival names.

    Name(exact=True, at=n)     the one n bytes into the block's shared memory
    Name(exact=False, at=n)    n bytes behind an address that is not known: a slot of a ring, whose
                               first one is there if the address is a slot's number times its size

An address is followed back through all definitions that reach its use, in registers that moves,
sums, products and shifts fill. Whatever else fills one, or two definitions that differ, is not
known. What is filled under a predicate counts alone where it is used under the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile

from machine import Machine, kind

_PLAIN = re.compile(r"(U?R(?:\d+|Z))(?:\.reuse|\.64)*")
_GUARD = re.compile(r"!?U?P(?:\d|T|R)")
_NUMBER = re.compile(r"-?0x[0-9a-f]+|-?\d+")
_WINDOW, _WINDOW_BITS = 0x400, 24
"""A block's shared memory begins there in a window of so many bits, of which each block of the
cluster has one."""
_MASK = (1 << 32) - 1
_PRODUCTS = ("HGMMA", "QGMMA", "IGMMA", "BGMMA")
_TILES = ("HMMA", "QMMA", "IMMA", "DMMA", "BMMA", "LDSM")
_PREDICATES_ONLY = re.compile(r"U?(?:I|F|H|D|P)SETP2?|U?PLOP3|R2P|VOTEU?")


@dataclass(frozen=True)
class Value:
    """`of`: "number", "shared" for the start of the block's shared memory, "rank" for the block's
    number in its cluster, or "any"; and what was added to it."""

    of: str
    plus: int = 0

    def __add__(self, other: Value) -> Value:
        if Value("number") in (self, other):
            return self if other == Value("number") else other
        match {self.of, other.of}, (self.plus + other.plus) & _MASK:
            case kinds, plus if kinds == {"number"}:
                return Value("number", plus)
            case kinds, plus if kinds == {"number", "shared"}:
                return Value("shared", plus)
            case kinds, plus if "any" in kinds and "rank" not in kinds:
                return Value("any", plus)
        return _ANY

    def times(self, other: Value) -> Value:
        for one, factor in ((self, other), (other, self)):
            if factor.of == "number" and (one.of in ("number", "any") or factor.plus in (0, 1)):
                known = one.of if factor.plus else "number"
                return Value(known, one.plus * factor.plus & _MASK)
        return _ANY


_ANY = Value("any")


@dataclass(frozen=True, order=True)
class Name:
    """See the module."""

    exact: bool
    at: int


@lru_cache(maxsize=16)
def names(code: Machine) -> dict[int, Name]:
    """The mbarrier of each wait and arrival."""
    found = Values(code)
    waits_and_arrivals = ("SYNCS.PHASECHK", "SYNCS.ARRIVE", "ARRIVES.")
    return {
        at: Name(value.of == "shared", value.plus)
        for at, op in code.ops.items()
        if op.startswith(waits_and_arrivals)
        for value in (found.address(at),)
    }


class Values:
    """What registers hold, in one machine code."""

    def __init__(self, code: Machine) -> None:
        self._code = code
        self._before: dict[int, list[int]] = {}
        for at, following in code.follows.items():
            for after in following:
                self._before.setdefault(after, []).append(at)
        self._known: dict[int, Value] = {}

    def address(self, at: int) -> Value:
        """What the operand in brackets of an instruction comes to."""
        found = re.search(r"\[([^\]]*)\]", self._code.ops[at])
        total = Value("number")
        for part in found[1].split("+") if found is not None else ():
            total += self._operand(part, at)
        return total

    def _operand(self, text: str, at: int) -> Value:
        if _NUMBER.fullmatch(text):
            return Value("number", int(text, 0) & _MASK)
        if plain := _PLAIN.fullmatch(text):
            register = plain[1]
            return Value("number") if register.endswith("RZ") else self._held(register, at)
        return _ANY

    def _held(self, register: str, at: int) -> Value:
        """What a register holds where an instruction uses it."""
        starts = self.definitions(register, at)
        values = {_ANY if start is None else self.made(start) for start in starts}
        return values.pop() if len(values) == 1 else _ANY

    def definitions(self, register: str, use: int) -> Iterator[int | None]:
        """The instructions whose result may stand in a register at its use; None for none."""
        guard = self._code.predicated.get(use, "")
        seen: set[tuple[int, bool]] = set()
        left = [(use, guard != "")]
        while left:
            here, same = left.pop()
            if here == self._code.entry:
                yield None
            for at in self._before.get(here, ()):
                op, under = self._code.ops[at], self._code.predicated.get(at, "")
                kept = same and not changes(op, guard.lstrip("@!"))
                fills = register in _filled(op)
                if fills:
                    yield at
                if fills and (not under or (kept and self._implied(guard, under, at))):
                    continue
                if (at, kept) not in seen:
                    seen.add((at, kept))
                    left.append((at, kept))

    def changed(self, predicate: str, use: int) -> set[int | None]:
        """The instructions that may have filled a predicate last before its use; None for none."""
        found: set[int | None] = set()
        seen, left = {use}, [use]
        while left:
            here = left.pop()
            if here == self._code.entry:
                found.add(None)
            for at in self._before.get(here, ()):
                if changes(self._code.ops[at], predicate):
                    found.add(at)
                elif at not in seen:
                    seen.add(at)
                    left.append(at)
        return found

    def _implied(self, guard: str, under: str, at: int) -> bool:
        """Whether what is run under `guard` was run under `under` at an instruction before: they
        are the same, or the warp's predicate is a vote on the lane's, which is as it was."""
        if under == guard:
            return True
        lane, warp = guard.lstrip("@!"), under.lstrip("@!")
        vote = {(f"@!{lane}", f"@!{warp}"): "ALL", (f"@{lane}", f"@{warp}"): "ANY"}
        wanted = f"VOTEU.{vote.get((guard, under))} {warp}, {lane}"
        seen, left = {at}, [at]
        while left:
            here = left.pop()
            if here == self._code.entry:
                return False
            for before in self._before.get(here, ()):
                op = self._code.ops[before]
                if op == wanted and before not in self._code.predicated:
                    continue
                if changes(op, lane) or changes(op, warp):
                    return False
                if before not in seen:
                    seen.add(before)
                    left.append(before)
        return True

    def made(self, at: int) -> Value:
        """The result of an instruction; what rests on itself is not known."""
        if at not in self._known:
            self._known[at] = _ANY
            self._known[at] = self._computed(at)
        return self._known[at]

    def _computed(self, at: int) -> Value:
        mnemonic, *given = _parts(self._code.ops[at])
        given = [g for g in given if not _GUARD.fullmatch(g)][1:]
        values = [Value("rank") if g == "SR_CgaCtaId" else self._operand(g, at) for g in given]
        match mnemonic, values:
            case "MOV" | "UMOV" | "R2UR" | "S2R" | "S2UR", [value, *_]:
                return value
            case "HFMA2.MMA", _ if given == ["-RZ", "RZ", "0", "0"]:
                return Value("number")
            case "VIADD" | "IADD3" | "UIADD3", [first, *rest]:
                return sum(rest, first)
            case "IMAD" | "UIMAD" | "IMAD.IADD" | "IMAD.MOV.U32" | "IMAD.SHL.U32", [a, b, c]:
                return a.times(b) + c
            case "LEA" | "ULEA", [Value("rank"), Value("number", start), Value("number", bits)] if (
                start, bits) == (_WINDOW, _WINDOW_BITS):  # fmt: skip
                return Value("shared")
            case "LEA" | "ULEA", [a, b, Value("number", bits)]:
                return a.times(Value("number", 1 << bits)) + b
            case "SHF.L.U32" | "USHF.L.U32", [a, Value("number", bits), _]:
                return a.times(Value("number", 1 << bits))
        return _ANY


def _parts(op: str) -> list[str]:
    """The mnemonic and the operands."""
    mnemonic, _, rest = op.partition(" ")
    return [mnemonic, *(part.strip() for part in rest.split(",") if part.strip())]


@lru_cache(maxsize=1 << 16)
def _filled(op: str) -> frozenset[str]:
    """The registers that an instruction may fill: so many from its first operand on that is no
    predicate."""
    mnemonic, *operands = _parts(op)
    name = kind(op)
    operands = [o for o in operands if not _GUARD.fullmatch(o)]
    first = _PLAIN.fullmatch(operands[0]) if operands else None
    if first is None or first[1].endswith("Z") or _PREDICATES_ONLY.fullmatch(name):
        return frozenset()
    count = 1
    if name in _PRODUCTS:
        count = 256
    elif name in _TILES or ".128" in mnemonic:
        count = 4
    elif "64" in mnemonic or ".WIDE" in mnemonic or name.startswith(("CS2", "D")):
        count = 2
    letters, number = first[1].rstrip("0123456789"), int(first[1].lstrip("UR"))
    return frozenset(f"{letters}{number + i}" for i in range(count))


@lru_cache(maxsize=1 << 16)
def changes(op: str, predicate: str) -> bool:
    """Whether an instruction may fill a predicate: one of those before the operand that is its
    result, or straight behind that."""
    _, *operands = _parts(op)
    results = list(takewhile(_GUARD.fullmatch, operands))
    if kind(op).startswith("VOTE"):
        results = results[:1]
    results += takewhile(_GUARD.fullmatch, operands[len(results) + 1 :])
    return predicate in results or "PR" in results
