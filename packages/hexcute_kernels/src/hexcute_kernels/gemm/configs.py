"""Configurations of the GEMMs, and which one a product gets: as measured, one row a size.

mma.sync: small tiles and deep rings for few rows, else the largest tile that still fills a GPU.
wgmma: the same; blocks that stay where there are tiles for them. thin: the largest tile that, with
K split, gives a multiprocessor a block or two; two are in the way of each other where one keeps
enough bytes under way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from hexcute_core.tuner.space import Space
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


@dataclass(frozen=True)
class ThinConfig:
    """Tile BM x BN x BK, of which BN lies along the shorter side of the result, STAGES, CONSUMERS
    warp groups that multiply, SPLITS of K over the blocks of a cluster, and whether blocks may come
    EARLY, before the launch ahead has ended: that gains a microsecond where they are at most one a
    multiprocessor, and costs more where two share one, for they are spread unevenly then."""

    BM: int
    BN: int
    BK: int
    STAGES: int
    CONSUMERS: int
    SPLITS: int = 1
    EARLY: bool = False

    def blocks(self, problem: Thin) -> int:
        across = -(-problem.thick // self.BM) * -(-problem.thin // self.BN)
        return self.SPLITS * across * (1 if problem.batch is None else problem.batch)


class Thin(Protocol):
    """A problem whose results are `batch` matrices (None: one) of `thin` by `thick`, or turned."""

    @property
    def thin(self) -> int: ...
    @property
    def thick(self) -> int: ...
    @property
    def batch(self) -> int | None: ...


SM80_BYTES, SM90_BYTES = 163 * 1024, 226 * 1024
"""Shared memory that a block may have, without what barriers take."""


def _ring(c: Mapping[str, Any]) -> int:
    """Bytes of the stages."""
    return int((c["BM"] + c["BN"]) * c["BK"] * 2 * c["STAGES"])


def _each(c: Mapping[str, Any], threads: int) -> int:
    """Accumulators a thread."""
    return int(c["BM"] * c["BN"] // threads)


MMA = Table(
    rows={
        "h100": (
            Row(MmaConfig(128, 128, 32, 4, 4), most={"k": 64}, fills=128),
            Row(MmaConfig(32, 64, 64, 2, 4), most={"k": 64}),
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
    space=Space(
        {
            "BM": (32, 64, 128, 256), "BN": (64, 128, 256), "BK": (32, 64),
            "STAGES": (3, 4, 5, 6, 8), "WARPS": (4, 8),
        },
        (lambda c: _each(c, 32 * c["WARPS"]) <= 128, lambda c: _ring(c) <= SM80_BYTES),
    ),
)  # fmt: skip

WGMMA = Table(
    rows={
        "h100": (
            Row(WgmmaConfig(64, 32, 128, 8, 1), most={"m": 64, "n": 8192}),
            Row(WgmmaConfig(64, 64, 64, 8, 1), most={"m": 64}),
            Row(WgmmaConfig(128, 256, 64, 4, 2, PARTS=2, SCHEDULE="persistent"), fills=96),
            Row(WgmmaConfig(128, 128, 64, 6, 2)),
        ),
        "h200": (
            *(
                Row(WgmmaConfig(128, width, 64, stages, 2), {"m": 128}, fills=113)
                for width, stages in ((224, 4), (192, 4), (160, 5), (128, 6), (112, 6), (96, 7))
            ),
            Row(WgmmaConfig(128, 80, 64, 7, 2), {"m": 128}, fills=100),
            Row(WgmmaConfig(64, 128, 64, 8, 1), {"m": 128}, fills=100),
            Row(WgmmaConfig(128, 64, 64, 8, 2), {"m": 128}),
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
    space=Space(
        {
            "BM": (64, 128, 192, 256), "BN": tuple(range(32, 257, 32)), "BK": (64, 128),
            "STAGES": (3, 4, 5, 6, 8), "CONSUMERS": (1, 2, 3), "PARTS": (1, 2),
            "SCHEDULE": ("tile", "persistent"),
        },
        (
            lambda c: c["BM"] % (64 * c["CONSUMERS"]) == 0,
            lambda c: _each(c, 128 * c["CONSUMERS"]) <= 128,
            # The result's tile takes the slots, or memory of its own where blocks stay.
            lambda c: c["PARTS"] == 1 or c["SCHEDULE"] == "persistent",
            lambda c: _ring(c) + (c["SCHEDULE"] == "persistent") * 2 * c["BM"] * c["BN"]
            // c["PARTS"] <= SM90_BYTES,
        ),
    ),
)  # fmt: skip


def _thin(thin: int, *rows: tuple[int, ThinConfig]) -> tuple[Row[ThinConfig], ...]:
    """Rows for results of at most `thin` rows or columns, each with the blocks that it is to give
    at least."""
    return tuple(Row(config, {"thin": thin}, fills) for fills, config in rows)


THIN = Table(
    rows={
        "h200": (
            *_thin(
                8,
                (200, ThinConfig(128, 8, 64, 6, 1)),
                (75, ThinConfig(128, 8, 64, 6, 1, EARLY=True)),
                (90, ThinConfig(128, 8, 64, 6, 1, 2, EARLY=True)),
                (90, ThinConfig(64, 8, 128, 6, 1, 2, EARLY=True)),
            ),
            *_thin(
                16,
                (200, ThinConfig(128, 16, 64, 5, 1)),
                (75, ThinConfig(128, 16, 64, 5, 1, EARLY=True)),
                (90, ThinConfig(64, 16, 128, 5, 1, EARLY=True)),
                (90, ThinConfig(64, 16, 128, 5, 1, 2, EARLY=True)),
            ),
            *_thin(
                32,
                (200, ThinConfig(128, 32, 64, 4, 2)),
                (133, ThinConfig(64, 32, 128, 4, 1)),
                (90, ThinConfig(64, 32, 64, 8, 1, EARLY=True)),
                (90, ThinConfig(64, 32, 128, 9, 1, 2, EARLY=True)),
            ),
            *_thin(
                64,
                (100, ThinConfig(256, 64, 64, 4, 2)),
                (133, ThinConfig(64, 64, 64, 6, 1)),
                (90, ThinConfig(64, 64, 128, 6, 1)),
                (90, ThinConfig(64, 64, 128, 6, 1, 2, EARLY=True)),
            ),
            *_thin(
                128,
                (90, ThinConfig(64, 128, 64, 8, 1)),
                (90, ThinConfig(64, 128, 128, 4, 1, 2, EARLY=True)),
            ),
            Row(ThinConfig(64, 32, 128, 4, 1, 4), {"thin": 32}),
            Row(ThinConfig(64, 64, 128, 5, 1, 4)),
        ),
    },
    more=(
        ThinConfig(64, 8, 128, 6, 1, EARLY=True),
        ThinConfig(64, 16, 64, 10, 1, 2, EARLY=True),
        ThinConfig(64, 32, 128, 9, 1, EARLY=True),
        ThinConfig(128, 32, 128, 5, 2),
        ThinConfig(64, 64, 128, 6, 1, EARLY=True),
        ThinConfig(128, 64, 64, 8, 2, 2),
        ThinConfig(128, 128, 64, 5, 2, 2, EARLY=True),
    ),
    space=Space(
        {
            "BM": (64, 128, 256), "BN": (8, 16, 32, 64, 128), "BK": (64, 128),
            "STAGES": (4, 5, 6, 8, 10), "CONSUMERS": (1, 2), "SPLITS": (1, 2, 4),
            "EARLY": (False, True),
        },
        (
            lambda c: c["BM"] % (64 * c["CONSUMERS"]) == 0,
            lambda c: _each(c, 128 * c["CONSUMERS"]) <= 64,
            lambda c: _ring(c) <= SM90_BYTES,
        ),
    ),
)  # fmt: skip
