"""What a run costs: instructions, bytes, shared-memory wavefronts and global sectors.

Bank model: 32 banks of 4 bytes; a warp's access goes in phases (32 lanes of up to 4 bytes, 16 of
8, 8 of 16; ldmatrix 8 rows), and a phase takes as many wavefronts as the most different 4-byte
words any one bank has to give. Global memory moves in sectors of 32 bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from hexcute_core.simulator.values import Array

BANKS = 32
WORD = 4
SECTOR = 32


@dataclass
class Tally:
    """Running counts of a simulation, by primitive."""

    instructions: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    wavefronts: Counter[str] = field(default_factory=Counter)
    sectors: Counter[str] = field(default_factory=Counter)

    def freeze(self) -> Counters:
        """The counts so far as a value, names sorted."""
        return Counters(
            dict(sorted(self.instructions.items())),
            dict(sorted(self.bytes.items())),
            dict(sorted(self.wavefronts.items())),
            dict(sorted(self.sectors.items())),
        )


@dataclass(frozen=True)
class Counters:
    """Counts by primitive: warp instructions, bytes moved by their lanes (for cp.async those read
    from global memory), wavefronts of shared memory, 32-byte sectors of global memory."""

    instructions: Mapping[str, int]
    bytes: Mapping[str, int]
    wavefronts: Mapping[str, int]
    sectors: Mapping[str, int]

    def show(self) -> str:
        """A table, one primitive a line; `-` where a count has no meaning."""
        columns = (self.instructions, self.bytes, self.wavefronts, self.sectors)
        rows: list[tuple[str, ...]] = [
            ("primitive", "instructions", "bytes", "wavefronts", "sectors")
        ]
        for name in self.instructions:
            rows.append((name, *(str(column.get(name, "-")) for column in columns)))
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = (
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
            for row in rows
        )
        return "\n".join(lines) + "\n"


def count_wavefronts(group: Array, address: Array, size: int) -> int:
    """Wavefronts of accesses of `size` bytes at byte `address` [n], lanes of one phase sharing
    a number in `group` [n]."""
    if not len(address):
        return 0
    words = max(1, size // WORD)
    word = (address // WORD)[:, None] + np.arange(words)
    key = np.unique((group[:, None] << 32) + word)
    phase_bank = (key >> 32) * BANKS + (key & 0xFFFFFFFF) % BANKS
    places, counts = np.unique(phase_bank, return_counts=True)
    phases = places // BANKS
    starts = np.flatnonzero(np.r_[True, phases[1:] != phases[:-1]])
    return int(np.maximum.reduceat(counts, starts).sum())


def phase_of(warp: Array, lane: Array, size: int) -> Array:
    """The phase number of lanes (0-31) of warps, for accesses of `size` bytes."""
    width = 32 if size <= WORD else 128 // size
    phase: Array = warp * 32 + lane // width
    return phase


def count_sectors(warp: Array, address: Array) -> int:
    """Sectors of one access a lane at byte `address` [n] (aligned, so it stays in one sector)."""
    return len(np.unique((warp << 48) + address // SECTOR))
