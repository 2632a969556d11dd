"""Configurations of products with weights of four bits, and the one of a problem."""

from __future__ import annotations

from dataclasses import dataclass

from hexcute_kernels.tables import Row, Sized, Table, tiles


@dataclass(frozen=True)
class W4A16Config:
    """BM tokens and BN columns per tile, STAGES of a group of k, GROUPS of 128 threads that
    multiply
    64 columns at a time each; blocks that STAY take one tile after another."""

    BM: int
    BN: int
    STAGES: int
    GROUPS: int = 2
    STAY: bool = False

    def blocks(self, problem: Sized) -> int:
        return tiles(problem, self.BM, self.BN)


@dataclass(frozen=True)
class MoeConfig:
    """How a layer's two products are computed, both by BM tokens per tile."""

    first: W4A16Config
    second: W4A16Config

    def blocks(self, problem: Sized) -> int:
        return self.first.blocks(problem)


@dataclass(frozen=True)
class GatedConfig:
    """BM rows and BN columns, gate's and up's, a block of WARPS, of which BLOCKS run on a
    multiprocessor; SPLIT of them share the groups of k, and each has DEPTH on the way."""

    BM: int
    BN: int
    DEPTH: int
    SPLIT: int
    WARPS: int
    BLOCKS: int


@dataclass(frozen=True)
class WeightedConfig:
    """The same of the second product, whose groups are not shared."""

    BM: int
    BN: int
    DEPTH: int
    WARPS: int
    BLOCKS: int


@dataclass(frozen=True)
class StreamedConfig:
    """How the two products of few rows an expert are computed, both by BM rows per block."""

    first: GatedConfig
    second: WeightedConfig

    def blocks(self, problem: Sized) -> int:
        return tiles(problem, self.first.BM, self.first.BN)


DENSE = Table(
    rows={
        "h200": (
            Row(W4A16Config(16, 128, 6), most={"m": 16}),
            Row(W4A16Config(32, 128, 5), most={"m": 32}),
            Row(W4A16Config(64, 128, 4), most={"m": 64}),
            Row(W4A16Config(128, 128, 4)),
        ),
    },
    more=(
        W4A16Config(16, 64, 8, 1),
        W4A16Config(16, 256, 6, 4, True),
        W4A16Config(64, 256, 3),
    ),
)

ROUTED = Table(
    rows={
        "h200": (
            Row(
                MoeConfig(W4A16Config(16, 128, 6), W4A16Config(16, 256, 6, 4, True)),
                most={"share": 16},
            ),
            Row(MoeConfig(W4A16Config(32, 128, 5), W4A16Config(32, 128, 2)), most={"share": 32}),
            Row(MoeConfig(W4A16Config(64, 128, 4), W4A16Config(64, 128, 2))),
        ),
    },
    more=(
        MoeConfig(W4A16Config(16, 256, 6, 4, True), W4A16Config(16, 256, 6, 4, True)),
        MoeConfig(W4A16Config(16, 128, 6), W4A16Config(16, 128, 2)),
        MoeConfig(W4A16Config(16, 128, 6), W4A16Config(16, 256, 2, 4)),
        MoeConfig(W4A16Config(64, 256, 3), W4A16Config(64, 256, 2)),
        MoeConfig(W4A16Config(64, 256, 4, 4), W4A16Config(64, 256, 2, 4)),
    ),
)
"""`share` is how many rows an expert gets on average."""


_FIRST = GatedConfig(8, 128, 2, 4, 4, 4)
_WIDE = GatedConfig(8, 256, 1, 2, 8, 2)
_SECOND = WeightedConfig(8, 128, 1, 4, 6)

STREAMED = Table(
    rows={
        "h200": (
            Row(
                StreamedConfig(GatedConfig(8, 128, 2, 4, 4, 3), WeightedConfig(8, 128, 2, 4, 5)),
                most={"pairs": 16},
            ),
            Row(StreamedConfig(GatedConfig(8, 128, 7, 2, 4, 2), _SECOND), most={"pairs": 32}),
            Row(StreamedConfig(_WIDE, _SECOND), most={"pairs": 64}),
            Row(StreamedConfig(_FIRST, _SECOND), most={"pairs": 256}),
            Row(StreamedConfig(_WIDE, _SECOND)),
        ),
    },
    more=(
        StreamedConfig(GatedConfig(8, 256, 2, 4, 8, 2), _SECOND),
        StreamedConfig(_FIRST, WeightedConfig(8, 256, 2, 4, 2)),
        StreamedConfig(_FIRST, WeightedConfig(8, 256, 1, 8, 3)),
    ),
)
"""`pairs` are rows of all experts together."""


def most_blocks(count: int, experts: int, high: int) -> int:
    """How many blocks of `high` rows any routing of `count` pairs takes at most."""
    return min(count, experts + count // high)
