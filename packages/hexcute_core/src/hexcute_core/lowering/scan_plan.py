"""In which order a scan combines: the digits of its axis, the smallest step first.

The values of a thread that lie before the first thread digit are its runs. Each further digit, of
the thread index or of a thread's runs, is a level: it joins blocks of what the levels below cover.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from hexcute_core.arch import Fragment, Mode, overhang
from hexcute_core.arch.registers import locate
from hexcute_core.dtypes import DType, accumulator
from hexcute_core.errors import LayoutConflict
from hexcute_core.lowering.elementwise import refine
from hexcute_core.lowering.threads import TOGETHER, WORD, ThreadDigit, thread_digits, together
from hexcute_core.tile import Scan
from hexcute_core.tile.layouts import layout_of

# Blocks of one thread that a level joins at once: their totals share the scratch memory.
BLOCKS = 8
Parts = list[tuple[int, int]]


@dataclass(frozen=True)
class ValueDigit:
    """A digit of a thread's values, `step` along the axis (0: across it), `place` values apart in
    the scan's own order and `registers` apart in that of each operand, results first."""

    size: int
    step: int
    place: int
    registers: tuple[int, ...]


@dataclass(frozen=True)
class Level:
    """`digit` joins blocks that `values` and `threads` cover; whether lanes of a warp alone need
    to talk (`near`), by shuffles."""

    digit: ValueDigit | ThreadDigit
    values: tuple[ValueDigit, ...]
    threads: tuple[ThreadDigit, ...]
    near: bool


@dataclass(frozen=True)
class Plan:
    """A scan's digits: `run` within a thread's runs, `kept` across the axis, then the levels.

    `types` are those that values are carried in, `guarded` says whether what lies beyond the tile
    would come first.
    """

    op: Scan
    fragment: Fragment
    types: tuple[DType, ...]
    run: tuple[ValueDigit, ...]
    kept: tuple[ValueDigit, ...]
    levels: tuple[Level, ...]
    guarded: bool

    @cached_property
    def outer(self) -> tuple[ValueDigit, ...]:
        """The digits of a thread's runs."""
        return tuple(x.digit for x in self.levels if isinstance(x.digit, ValueDigit))

    @property
    def run_length(self) -> int:
        return prod(d.size for d in self.run)

    def units(self, level: Level) -> tuple[ValueDigit, ...]:
        """Value digits for whose values a level does the same, side by side."""
        same = (*level.values, level.digit)
        return (*self.kept, *(d for d in self.outer if d not in same))

    def slots(self, level: Level) -> int:
        """Totals of one unit that a thread tells others."""
        return level.digit.size - 1 if isinstance(level.digit, ValueDigit) else 1

    def batches(self, level: Level) -> tuple[int, ...]:
        """Of each unit digit, how many values go through shared memory between two barriers."""
        room = max(1, TOGETHER // (self.slots(level) * len(self.types)))
        out = []
        for digit in self.units(level):
            out.append(together(digit.size, room))
            room //= out[-1]
        return tuple(out)

    def scratch_bytes(self, threads: int) -> int:
        """Shared memory that the levels need in a block of `threads`."""
        cells = (prod(self.batches(x)) * self.slots(x) for x in self.levels if not x.near)
        return max(cells, default=0) * threads * sum(t.bits // 8 for t in self.types)


def plan_scan(op: Scan, fragments: Mapping[str, Fragment]) -> Plan:
    """The plan of `op`; raises LayoutConflict where threads hold overlapping parts of the axis."""
    operands = [layout_of(fragments, ref) for ref in (*op.dsts, *op.srcs)]
    f, types = operands[0], tuple(accumulator(e.dtype) for e in op.combine)
    threads = thread_digits(f, op.axis)
    talk = all(t.bits <= WORD for t in types)
    blocks = None if talk and _shuffle(threads) else BLOCKS
    along = sorted((m for m in f.value if m.dim == op.axis), key=lambda m: m.step)
    first = min((d.step for d in threads), default=f.shape[op.axis])
    runs = _values(operands, [m for m in along if m.step < first], 1)
    place = prod(d.size for d in runs)
    kept = _values(operands, [m for m in f.value if m.dim != op.axis], place, along=False)
    place *= prod(d.size for d in kept)
    outer = _values(operands, [m for m in along if m.step >= first], place, blocks)
    levels: list[Level] = []
    values: tuple[ValueDigit, ...] = ()
    lanes: tuple[ThreadDigit, ...] = ()
    digits: list[ValueDigit | ThreadDigit] = [*outer, *threads]
    for digit in sorted(digits, key=lambda d: d.step):
        if isinstance(digit, ThreadDigit):
            levels.append(Level(digit, values, lanes, talk and _shuffle((*lanes, digit))))
            lanes = (*lanes, digit)
        else:
            levels.append(Level(digit, values, lanes, talk and _shuffle(lanes)))
            values = (*values, digit)
    _require_order(op, f, (*runs, *(x.digit for x in levels)))
    modes = [m for m in (*f.thread, *f.value) if m.dim == op.axis]
    guarded = op.reverse and op.axis in overhang(f.shape, modes)
    return Plan(op, f, types, runs, kept, tuple(levels), guarded)


def _shuffle(threads: Sequence[ThreadDigit]) -> bool:
    return all(d.shuffles for d in threads)


def _require_order(op: Scan, f: Fragment, digits: tuple[ValueDigit | ThreadDigit, ...]) -> None:
    reach = 1
    for digit in digits:
        if digit.step != reach:
            raise LayoutConflict(
                f"a scan along mode {op.axis} of {f}, which holds elements of it more than once",
                op.span,
                "let the tile's layout follow from its copies, or rearrange it first",
            )
        reach *= digit.size


def _values(
    operands: list[Fragment],
    modes: list[Mode],
    place: int,
    limit: int | None = None,
    along: bool = True,
) -> tuple[ValueDigit, ...]:
    """The value digits of `modes`, cut so that every operand has one stride a digit, and at
    `limit` values where there is one; the first is `place` values apart in the scan's order."""
    held: list[list[Parts]] = []
    for operand in operands:
        found = [locate(operand, m) for m in modes]
        if any(parts is None for parts in found):
            raise TypeError(f"{operand} does not hold the digits {modes}")
        held.append([list(parts or ()) for parts in found])
    steps = [_cut(m, limit) if along else [(m.size, 0)] for m in modes]
    sizes, columns = refine([m.size for m in modes], [*held, steps])
    out = []
    for size, step, *registers in zip(sizes, columns[-1], *columns[:-1]):
        out.append(ValueDigit(size, step, place, tuple(registers)))
        place *= size
    return tuple(out)


def _cut(m: Mode, limit: int | None) -> Parts:
    """The mode in parts of at most `limit` values, where its size has such divisors."""
    parts, size, step = [], m.size, m.step
    while size > 1:
        part = size if limit is None else together(size, limit)
        part = size if part == 1 else part
        parts.append((part, step))
        size, step = size // part, step * part
    return parts
