"""SASS text -> `Machine`: a kernel's instructions by offset, and which may follow which.

    reach(starts, without) = what some path leads to from after `starts` that passes no `without`

A path is one thread's way through the code. Whatever the text leaves open (an indirect branch, a
call) raises `Unread`, so that nothing is concluded from a graph that lacks a path.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

_INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;")
_LABEL = re.compile(r"^\s*(\.L_x_\d+):")
_TARGET = re.compile(r"`\((\.L_x_\d+)\)")
_PREDICATE = re.compile(r"^@!?U?P\w+ +")
_IMMEDIATE = re.compile(r"\[[^\]]*?(?:0x([0-9a-f]+))?\]")
_TRAP = "BPT.TRAP "
"""Ends the launch with an error: no path leads on."""
_UNREAD = {"BRX", "BRXU", "JMP", "JMX", "CALL", "RET", "BREAK", "BPT", "RTT"}

_ENOUGH = 2

Where = Callable[[int], bool]


class Unread(ValueError):
    """The text has what this does not follow."""


@dataclass(frozen=True, eq=False)
class Machine:
    """`ops` by offset, as written, without predicates; `predicated` gives the predicates of
    those that have one; `follows` gives the offsets of what may run next."""

    ops: Mapping[int, str]
    predicated: Mapping[int, str]
    follows: Mapping[int, tuple[int, ...]]

    @property
    def entry(self) -> int:
        return min(self.ops)

    @cached_property
    def digest(self) -> str:
        """Of all instructions, each with its offset."""
        text = "\n".join(f"{at:x} {at in self.predicated} {op}" for at, op in self.ops.items())
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @cached_property
    def exits(self) -> frozenset[int]:
        return frozenset(at for at, op in self.ops.items() if kind(op) == "EXIT")

    def reach(self, starts: Iterable[int], without: Where = lambda at: False) -> set[int]:
        """What lies on paths from after `starts`; a path ends at the first `without` it meets,
        which itself counts as reached."""
        return self._walk([n for at in starts for n in self.follows[at]], without)

    def before(self, without: Where) -> set[int]:
        """The same from the kernel's first instruction on."""
        return self._walk([self.entry], without)

    def _walk(self, found: list[int], without: Where) -> set[int]:
        seen: set[int] = set()
        while found:
            at = found.pop()
            if at not in seen:
                seen.add(at)
                if not without(at):
                    found.extend(self.follows[at])
        return seen

    def held(self, at: int, waited: set[int], gone: set[int], free: bool = False) -> bool:
        """Whether on every path `at` is run between a wait and the arrival that gives back its
        slot. A wait that follows a wait with nothing between is the same one, tried again; after
        `at` it is for the next slot. Where the first slot is `free`, a path holds it at the start,
        and waits may be passed by until it is given back."""
        # An instruction that is next, how many slots are held, whether the last of them was
        # touched, whether it is the free one.
        seen: set[tuple[int, int, bool, bool]] = set()
        paths = [(self.entry, int(free), False, free)]
        while paths:
            state = paths.pop()
            if state in seen:
                continue
            seen.add(state)
            here, count, touched, first = state
            if here == at:
                if count == 0:
                    return False
                touched = True
            elif here in waited and not first:
                # More than one slot is as good as many, where what is asked is that there is one.
                count = min(_ENOUGH, count + (count == 0 or touched))
                touched = False
            elif here in gone:
                count = max(0, count - 1)
                touched, first = touched and count > 0, False
            paths += [(after, count, touched, first) for after in self.follows[here]]
        return True


def kind(op: str) -> str:
    """`LDS` of `LDS.128 R8, [R3]`."""
    return re.split(r"[. ]", op, maxsplit=1)[0]


def immediate(op: str) -> int:
    """The constant of the operand in brackets: 0x36000 of `[R9+URZ+0x36000]`."""
    found = _IMMEDIATE.search(op)
    return int(found[1], 16) if found is not None and found[1] else 0


def read(sass: str) -> Machine:
    """What `nvdisasm -c` wrote of an image with one kernel. Raises Unread."""
    ops: dict[int, str] = {}
    labels: dict[str, int] = {}
    predicated: dict[int, str] = {}
    waiting: list[str] = []
    for line in sass.splitlines():
        if label := _LABEL.match(line):
            waiting.append(label[1])
        elif found := _INSTRUCTION.match(line):
            at = int(found[1], 16)
            if at in ops:
                raise Unread("more than one kernel")
            ops[at] = _PREDICATE.sub("", found[2])
            if guard := _PREDICATE.match(found[2]):
                predicated[at] = guard[0].strip()
            labels |= dict.fromkeys(waiting, at)
            waiting.clear()
    order = sorted(ops)
    after = {at: (following,) for at, following in pairwise(order)}
    follows: dict[int, tuple[int, ...]] = {}
    for at, op in ops.items():
        goes_on = after.get(at, ())
        match kind(op):
            case "BRA":
                target = _TARGET.search(op)
                if target is None or target[1] not in labels:
                    raise Unread(op)
                always = op.startswith("BRA `") and at not in predicated
                follows[at] = (labels[target[1]], *(() if always else goes_on))
            case "EXIT":
                follows[at] = goes_on if at in predicated else ()
            case "BPT" if op.startswith(_TRAP):
                follows[at] = goes_on if at in predicated else ()
            case name if name in _UNREAD:
                raise Unread(op)
            case _:
                follows[at] = goes_on
    if not ops:
        raise Unread("no instruction")
    return Machine(ops, predicated, follows)
