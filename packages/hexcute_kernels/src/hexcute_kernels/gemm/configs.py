"""Configurations of the GEMMs, and which one a product gets: as measured, one row a size.

mma.sync: small tiles and deep rings for few rows, else the largest tile that still fills a GPU.
wgmma: the same; blocks that stay where there are tiles for them.
"""

from __future__ import annotations

from dataclasses import dataclass

from hexcute_kernels.tables import Row, Sized, Table, tiles


@dataclass(frozen=True)
class MmaConfig:
    """Block tile BM x BN x BK, shared-memory STAGES, WARPS a block, GROUP rows of blocks that run
    together."""

    BM: int
    BN: int
    BK: int
    STAGES: int
    WARPS: int
    GROUP: int = 8

    def blocks(self, problem: Sized) -> int:
        return tiles(problem, self.BM, self.BN)


@dataclass(frozen=True)
class WgmmaConfig:
    """Tile BM x BN x BK, STAGES, CONSUMERS warp groups that multiply, GROUP rows of clusters of
    CLUSTER_M x CLUSTER_N blocks, PARTS of a tile stored apart, SCHEDULE of the blocks."""

    BM: int
    BN: int
    BK: int
    STAGES: int
    CONSUMERS: int
    GROUP: int = 8
    CLUSTER_M: int = 1
    CLUSTER_N: int = 1
    PARTS: int = 1
    SCHEDULE: str = "tile"

    def blocks(self, problem: Sized) -> int:
        return tiles(problem, self.BM, self.BN)


MMA = Table(
    rows={
        "h100": (
            Row(MmaConfig(32, 64, 64, 8, 4), most={"m": 32}),
            Row(MmaConfig(64, 64, 64, 6, 4), most={"m": 64}),
            Row(MmaConfig(256, 128, 64, 3, 8), fills=128),
            Row(MmaConfig(128, 128, 32, 4, 4)),
        ),
    },
    more=(
        MmaConfig(256, 128, 32, 4, 8),
        MmaConfig(128, 256, 32, 4, 8),
        MmaConfig(128, 256, 64, 3, 8),
        MmaConfig(64, 128, 64, 4, 4),
        MmaConfig(32, 128, 64, 5, 4),
    ),
)

WGMMA = Table(
    rows={
        "h100": (
            Row(WgmmaConfig(64, 32, 128, 8, 1), most={"m": 64, "n": 8192}),
            Row(WgmmaConfig(64, 64, 64, 8, 1), most={"m": 64}),
            Row(WgmmaConfig(128, 256, 64, 4, 2, PARTS=2, SCHEDULE="persistent"), fills=96),
            Row(WgmmaConfig(128, 128, 64, 6, 2)),
        ),
    },
    more=(
        WgmmaConfig(128, 256, 64, 4, 2),
        WgmmaConfig(256, 128, 64, 4, 2),
        WgmmaConfig(128, 192, 64, 5, 2),
        WgmmaConfig(64, 128, 64, 6, 1),
        WgmmaConfig(64, 96, 64, 6, 1),
        WgmmaConfig(128, 64, 64, 6, 2),
        WgmmaConfig(128, 128, 64, 5, 2),
        WgmmaConfig(128, 256, 64, 4, 2, CLUSTER_M=2),
        WgmmaConfig(128, 256, 64, 3, 2, SCHEDULE="persistent"),
        WgmmaConfig(128, 256, 64, 4, 2, CLUSTER_M=2, PARTS=2, SCHEDULE="persistent"),
        WgmmaConfig(128, 128, 64, 5, 2, SCHEDULE="pingpong"),
    ),
)
