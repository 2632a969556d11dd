"""Configurations of decoding, and into how many splits they cut the keys of a problem.

    splits = the blocks that fill a GPU / those of one split, of at least a tile of keys each
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from hexcute_kernels.tables import Row, Table

MOST = 256
"""Splits at most: they are all read again, one after the other."""


class Cached(Protocol):
    """A problem of `tiles` tiles of queries' heads, each against sk keys."""

    @property
    def sk(self) -> int: ...
    @property
    def tiles(self) -> int: ...


@dataclass(frozen=True)
class DecodeConfig:
    """BN keys a tile, STAGES of them in shared memory."""

    BN: int
    STAGES: int


@dataclass(frozen=True)
class SplitConfig:
    """BN keys a tile, STAGES of them in shared memory; BLOCKS that fill a GPU."""

    BN: int
    STAGES: int
    BLOCKS: int

    def blocks(self, problem: Cached) -> int:
        return problem.tiles * self.splits(problem)

    def share(self, problem: Cached) -> int:
        """Tiles of keys a split."""
        wanted = max(1, min(self.BLOCKS // max(problem.tiles, 1), MOST))
        return max(1, -(-self._tiles(problem) // wanted))

    def splits(self, problem: Cached) -> int:
        """How many splits there are, none of them empty."""
        return max(1, -(-self._tiles(problem) // self.share(problem)))

    def _tiles(self, problem: Cached) -> int:
        return -(-problem.sk // self.BN)

    @property
    def kernel(self) -> DecodeConfig:
        """What of it are the kernel's constants."""
        return DecodeConfig(self.BN, self.STAGES)


@dataclass(frozen=True)
class CombineConfig:
    """CHUNK splits at a time, by WARPS warps."""

    CHUNK: int
    WARPS: int


FEW, MANY = CombineConfig(16, 1), CombineConfig(64, 4)
"""How up to 32 splits are combined, and more."""

SPLIT = Table(
    rows={
        "a100": (
            Row(SplitConfig(64, 3, 324), most={"d": 64}),
            Row(SplitConfig(32, 3, 324), most={"d": 128}),
            Row(SplitConfig(16, 3, 324)),
        ),
        "h200": (
            Row(SplitConfig(32, 6, 264), most={"d": 64, "sk": 8192}),
            Row(SplitConfig(32, 3, 528), most={"d": 64}),
            Row(SplitConfig(32, 3, 324), most={"d": 128, "sk": 2048}),
            Row(SplitConfig(32, 3, 528), most={"d": 128}),
            Row(SplitConfig(16, 3, 528)),
        ),
    },
    more=(
        SplitConfig(64, 2, 396),
        SplitConfig(64, 3, 264),
        SplitConfig(64, 2, 792),
        SplitConfig(32, 2, 792),
        SplitConfig(32, 2, 528),
        SplitConfig(32, 3, 1056),
        SplitConfig(32, 4, 396),
        SplitConfig(32, 4, 264),
        SplitConfig(64, 3, 528),
        SplitConfig(16, 4, 792),
        SplitConfig(16, 5, 528),
    ),
)
