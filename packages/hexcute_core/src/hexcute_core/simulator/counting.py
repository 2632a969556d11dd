"""What a run costs, by primitive and source line: instructions, bytes, wavefronts, sectors, flops.

The memory models are in `banks`; `ideal` is what the same bytes would take at best: the distinct
words of a warp over 32 banks, the distinct bytes over 32-byte sectors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from hexcute_core.errors import SourceSpan
from hexcute_core.simulator.lanes.values import Array
from hexcute_core.simulator.memory.banks import Cost, sectors, wavefronts

Key = tuple[str, int]
"""A primitive and the site it stands at."""


@dataclass(frozen=True)
class Access:
    """What one primitive at one line did to one kind of memory: `cost` counts wavefronts of
    shared or sectors of global memory, `ideal` the fewest that could move the same."""

    name: str
    span: SourceSpan | None
    instructions: int
    cost: int
    ideal: int

    @property
    def excess(self) -> float:
        """How many times the ideal the access costs; 1.0 is as good as can be."""
        return self.cost / self.ideal if self.ideal else 1.0


@dataclass
class Tally:
    """Running counts of a simulation."""

    instructions: Counter[Key] = field(default_factory=Counter)
    bytes: Counter[Key] = field(default_factory=Counter)
    wavefronts: Counter[Key] = field(default_factory=Counter)
    ideal_wavefronts: Counter[Key] = field(default_factory=Counter)
    sectors: Counter[Key] = field(default_factory=Counter)
    ideal_sectors: Counter[Key] = field(default_factory=Counter)
    tensor: Counter[str] = field(default_factory=Counter)
    special: Counter[str] = field(default_factory=Counter)
    _known: dict[tuple[object, ...], Cost] = field(default_factory=dict)

    def issue(self, name: str, site: int, warps: int) -> None:
        """`warps` warps issue one instruction."""
        self.instructions[name, site] += warps

    def moved(self, name: str, site: int, amount: int) -> None:
        """Lanes move `amount` bytes."""
        self.bytes[name, site] += amount

    def shared(
        self, name: str, site: int, warp: Array, lane: Array, address: Array, size: int
    ) -> None:
        """One access of `size` bytes per lane at shared byte `address` [n]."""
        if not len(address):
            return
        # Moving all lanes by whole rows of banks changes nothing.
        moved = address - (int(address.min()) & ~127)
        key = (name, size, warp.tobytes(), lane.tobytes(), moved.tobytes())
        cost = self._known.get(key)
        if cost is None:
            merges = name.startswith("ld.")
            cost = self._known[key] = wavefronts(warp, lane, address, size, merges)
        self.wavefronts[name, site] += cost.real
        self.ideal_wavefronts[name, site] += cost.ideal

    def global_(self, name: str, site: int, warp: Array, address: Array, size: int) -> None:
        """One access of `size` bytes per lane at byte `address` [n] of a buffer."""
        if not len(address):
            return
        moved = address - (int(address.min()) & ~31)
        key = ("global", size, warp.tobytes(), moved.tobytes())
        cost = self._known.get(key)
        if cost is None:
            cost = self._known[key] = sectors(warp, address, size)
        self.sectors[name, site] += cost.real
        self.ideal_sectors[name, site] += cost.ideal

    def freeze(self, sites: Sequence[SourceSpan | None]) -> Counters:
        """The counts so far as a value, names sorted."""
        return Counters(
            _by_name(self.instructions),
            _by_name(self.bytes),
            _by_name(self.wavefronts),
            _by_name(self.sectors),
            dict(sorted(self.tensor.items())),
            dict(sorted(self.special.items())),
            self._accesses(self.wavefronts, self.ideal_wavefronts, sites),
            self._accesses(self.sectors, self.ideal_sectors, sites),
        )

    def _accesses(
        self, cost: Counter[Key], ideal: Counter[Key], sites: Sequence[SourceSpan | None]
    ) -> tuple[Access, ...]:
        found = [
            Access(key[0], sites[key[1]], self.instructions[key], cost[key], ideal[key])
            for key in cost
        ]
        return tuple(sorted(found, key=lambda a: (str(a.span), a.name)))


def _by_name(counts: Counter[Key]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for (name, _), count in counts.items():
        total[name] += count
    return dict(sorted(total.items()))


@dataclass(frozen=True)
class Counters:
    """Counts by primitive: warp instructions, bytes moved by their lanes (for cp.async those read
    from global memory), wavefronts of shared memory, 32-byte sectors of global memory; Tensor
    Core operations (a multiply-add is two) by instruction, special-function operations by name;
    and the shared and global accesses line by line."""

    instructions: Mapping[str, int]
    bytes: Mapping[str, int]
    wavefronts: Mapping[str, int]
    sectors: Mapping[str, int]
    tensor: Mapping[str, int] = field(default_factory=dict)
    special: Mapping[str, int] = field(default_factory=dict)
    shared_accesses: tuple[Access, ...] = ()
    global_accesses: tuple[Access, ...] = ()

    def show(self) -> str:
        """Tables: one primitive per line, then one access a line; `-` where a count has no
        meaning."""
        columns = (self.instructions, self.bytes, self.wavefronts, self.sectors)
        rows: list[tuple[str, ...]] = [
            ("primitive", "instructions", "bytes", "wavefronts", "sectors")
        ]
        for name in self.instructions:
            rows.append((name, *(str(column.get(name, "-")) for column in columns)))
        text = _table(rows)
        for what, counts in (("Tensor Core", self.tensor), ("special-function", self.special)):
            if counts:
                found = ((name, str(count)) for name, count in counts.items())
                text += "\n" + _table([(f"{what} operations", "count"), *found])
        for unit, accesses in (
            ("wavefronts", self.shared_accesses),
            ("sectors", self.global_accesses),
        ):
            if accesses:
                lines = (
                    (f"{_line(a.span)} {a.name}", str(a.instructions), str(a.cost), str(a.ideal),
                     f"{a.excess:.2f}x")
                    for a in accesses
                )  # fmt: skip
                head = ("access", "instructions", unit, "ideal", "excess")
                text += "\n" + _table([head, *lines])
        return text


def _line(span: SourceSpan | None) -> str:
    """`file.py:12`, the folder left out."""
    return "-" if span is None else f"{PurePath(span.file).name}:{span.line}"


def _table(rows: Iterable[tuple[str, ...]]) -> str:
    held = list(rows)
    widths = [max(len(row[i]) for row in held) for i in range(len(held[0]))]
    lines = (
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in held
    )
    return "\n".join(lines) + "\n"
