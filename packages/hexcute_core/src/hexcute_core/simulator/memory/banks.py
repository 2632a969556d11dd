"""wavefronts(access) and sectors(access): how many rounds the memory system needs for one access.

Shared memory has 32 banks of 4 bytes. A warp's access goes in phases (32 lanes of up to 4 bytes,
16 of 8, 8 of 16; ldmatrix 8 rows), and a phase takes as many wavefronts as the most different
words any one bank has to give. Phases of a load merge where neighbours share addresses: the two
halves of a warp that loads 8 bytes, and the two quarters of each half of one that loads 16, if
every executing lane i has the address of lane i ^ 1 (or that lane is idle), or else every one that
of lane i ^ 2. Global memory moves in sectors of 32 bytes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hexcute_core.simulator.lanes.state import WARP
from hexcute_core.simulator.lanes.values import Array

BANKS = 32
WORD = 4
ROW = BANKS * WORD
SECTOR = 32


class Cost(NamedTuple):
    """Rounds taken, and the fewest that could move the same bytes."""

    real: int
    ideal: int


def wavefronts(warp: Array, lane: Array, address: Array, size: int, merges: bool = True) -> Cost:
    """The cost of accesses of `size` bytes at byte `address` [n] by `lane` [n] of `warp` [n].

    `merges` is false for instructions whose phases are served alone whatever they share.
    """
    phase = lane // (WARP if size <= WORD else ROW // size)
    if merges and size > WORD:
        phase = _merged(warp, lane, address, size, phase)
    words = max(1, size // WORD)
    word = ((address // WORD)[:, None] + np.arange(words)).reshape(-1)
    group = np.repeat(warp * WARP + phase, words)
    distinct = np.unique((group << 32) + word)
    bank = (distinct >> 32) * BANKS + (distinct & 0xFFFFFFFF) % BANKS
    places, counts = np.unique(bank, return_counts=True)
    phases = places // BANKS
    starts = np.flatnonzero(np.r_[True, phases[1:] != phases[:-1]])
    real = int(np.maximum.reduceat(counts, starts).sum())
    per_warp = np.unique((np.repeat(warp, words) << 32) + word) >> 32
    ideal = int((-(-np.unique(per_warp, return_counts=True)[1] // BANKS)).sum())
    return Cost(real, ideal)


def _merged(warp: Array, lane: Array, address: Array, size: int, phase: Array) -> Array:
    """Phase numbers, those of halves (8 bytes) or quarters (16) that merge made equal."""
    wide = int(warp.max()) + 1
    table = np.full((wide, WARP), -1, dtype=np.int64)
    table[warp, lane] = address
    lanes = np.arange(WARP)
    pairs = []
    for step in (1, 2):
        other = table[:, lanes ^ step]
        pairs.append((table < 0) | (other < 0) | (table == other))
    span = WARP if size == 8 else WARP // 2
    shared = [p.reshape(wide, -1, span).all(axis=2) for p in pairs]
    merge: Array = (shared[0] | shared[1])[warp, lane // span]
    per_span = span // (ROW // size)
    return np.where(merge, phase // per_span * per_span, phase)


def sectors(warp: Array, address: Array, size: int) -> Cost:
    """The cost of accesses of `size` bytes at byte `address` [n] (aligned, so that each stays in
    one sector) by lanes of `warp` [n]."""
    real = len(np.unique((warp << 48) + address // SECTOR))
    count = np.unique(np.unique((warp << 48) + address) >> 48, return_counts=True)[1]
    return Cost(real, int((-(-count * size // SECTOR)).sum()))
