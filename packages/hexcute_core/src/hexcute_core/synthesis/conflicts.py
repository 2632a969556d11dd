"""Bank conflicts of many swizzles at once, and the swizzle with the fewest.

A warp's access goes in phases of 128 bytes; a phase takes as many wavefronts as the most different
places that one group of banks has to serve, a group being as wide as one lane's access.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cute_layout import Swizzle
from hexcute_core.arch.groups import WARP

ROW_BITS = 1024
WORD_BITS = 32


class Access(NamedTuple):
    """What one instruction of a warp touches: the element offset where each lane's `width` bits
    begin, before the swizzle, and how often it happens."""

    starts: tuple[int, ...]
    width: int
    weight: float


class Counted(NamedTuple):
    """The wavefronts of one access and the fewest possible."""

    wavefronts: int
    least: int


class Family(tuple[Swizzle, ...]):
    """Swizzles to choose among, made once: as a key it is the object."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


@lru_cache(maxsize=4096)
def swizzles(base: int, extent: int, bits: int) -> Family:
    """The identity, then every swizzle that permutes `extent` elements onto themselves, keeps 2 **
    base of them together and moves banks; plainer ones first."""
    top = (ROW_BITS // bits).bit_length() - 1
    found = [Swizzle(0, base, 0)]
    for low in range(base, top):
        for count in range(1, top - low + 1):
            shift = count
            while extent % (1 << (low + count + shift)) == 0:
                found.append(Swizzle(count, low, shift))
                shift += 1
    return Family(sorted(found, key=lambda s: (s.bits, -s.base, abs(s.shift))))


def choose(
    accesses: Sequence[Access], bits: int, candidates: tuple[Swizzle, ...]
) -> tuple[Swizzle, list[Counted]]:
    """The candidate with the fewest wavefronts, the first of equals, and the counts under it."""
    if not accesses:
        return candidates[0], []
    counts = np.stack([_wavefronts(a.starts, a.width, bits, candidates) for a in accesses], axis=1)
    total = counts @ np.array([a.weight for a in accesses])
    best = int(np.argmin(total))
    return candidates[best], [Counted(int(n), _least(a)) for n, a in zip(counts[best], accesses)]


def _least(access: Access) -> int:
    lanes = _phase_lanes(access.width)
    return -(-len(access.starts) // lanes)


def _phase_lanes(width: int) -> int:
    return min(WARP, ROW_BITS // max(width, WORD_BITS))


@lru_cache(maxsize=16384)
def _wavefronts(
    starts_of_lanes: tuple[int, ...], width: int, bits: int, candidates: tuple[Swizzle, ...]
) -> NDArray[np.int64]:
    """Wavefronts under each candidate; a search asks for the same accesses again and again."""
    starts = np.array(starts_of_lanes, dtype=np.int64)
    rows = np.array([(s.bits, s.base, s.shift) for s in candidates], dtype=np.int64)
    mask = ((1 << rows[:, 0]) - 1) << rows[:, 1]
    moved = starts ^ ((starts >> rows[:, 2:]) & mask[:, None])
    granule = max(width, WORD_BITS)
    lanes, groups = _phase_lanes(width), ROW_BITS // granule
    places = moved * bits // granule
    missing = -len(starts_of_lanes) % lanes
    if missing:
        # A phase that is not full repeats its last lane, which adds nothing.
        places = np.concatenate([places, np.repeat(places[:, -1:], missing, axis=1)], axis=1)
    phases = np.sort(places.reshape(len(candidates), -1, lanes), axis=2)
    first = np.ones(phases.shape, dtype=np.bool_)
    first[:, :, 1:] = phases[:, :, 1:] != phases[:, :, :-1]
    row = np.arange(phases.shape[0] * phases.shape[1]).reshape(*phases.shape[:2], 1)
    busy = np.bincount(
        (row * groups + phases % groups)[first], minlength=int(row[-1, -1, -1] + 1) * groups
    )
    worst: NDArray[np.int64] = busy.reshape(*phases.shape[:2], groups).max(axis=2).sum(axis=1)
    return worst
