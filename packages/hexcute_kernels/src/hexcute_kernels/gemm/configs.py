"""Configurations of the GEMMs, how each cuts a product, and which of them are tried.

Rows are as measured: mma.sync has them for all, wgmma for large products and for thin ones with
long sums. For what no row takes, the cost model chooses among all configurations.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from hexcute_core.tuner.space import Space
from hexcute_kernels.gemm.cost import (
    Cut,
    Sizes,
    dots_clocks,
    dots_wait,
    microseconds,
    room,
    staged_clocks,
    staged_wait,
    tma_wait,
    wgmma_clocks,
)
from hexcute_kernels.gemm.dots import THREADS
from hexcute_kernels.tables import Row, Sized, Table, tiles


@dataclass(frozen=True)
class MmaConfig:
    """Block tile BM x BN x BK, shared-memory STAGES, WARPS per block, GROUP rows of blocks that run
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
    CLUSTER_M x CLUSTER_N blocks, PARTS of a tile stored apart, SCHEDULE of the blocks; whether they
    may come EARLY, before the launch ahead has ended, which gains a microsecond."""

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
    EARLY: bool = False

    def blocks(self, problem: Sized) -> int:
        return tiles(problem, self.BM, self.BN)

    def cut(self, p: Sizes) -> Cut:
        """How a product is cut. One block has all registers of a multiprocessor."""
        rows, columns = self.BM * self.CLUSTER_M, self.BN * self.CLUSTER_N
        cluster = self.CLUSTER_M * self.CLUSTER_N
        return Cut(
            self.BM, self.BN, self.BK, tiles(p, rows, columns) * cluster, splits=1,
            busy=wgmma_clocks(self.BM, self.BN, self.BK),
            wait=tma_wait(self.STAGES),
            # Of what blocks of a cluster share, each brings a part.
            brought=(self.BM / self.CLUSTER_N + self.BN / self.CLUSTER_M) * self.BK * 2,
            room=1, cluster=cluster, early=self.EARLY, stays=self.SCHEDULE != "tile",
        )  # fmt: skip


@dataclass(frozen=True)
class ThinConfig:
    """Tile BM x BN x BK, of which BN lies along the shorter side of the result, STAGES, CONSUMERS
    warp groups that multiply, SPLITS of K over the blocks of a cluster, and whether blocks may come
    EARLY, before the launch ahead has ended: that gains a microsecond where they are at most one
    per multiprocessor, and costs more where two share one, for they are spread unevenly then."""

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

    def cut(self, p: Thin) -> Cut:
        """How a product is cut."""
        each = self.BM * self.BN // (128 * self.CONSUMERS)
        shared = _ring(vars(self)) + self.BM * self.BN * 4
        return Cut(
            self.BM, self.BN, self.BK, self.blocks(p) // self.SPLITS, self.SPLITS,
            busy=wgmma_clocks(self.BM, self.BN, self.BK),
            wait=tma_wait(self.STAGES),
            brought=(self.BM + self.BN) * self.BK * 2,
            room=room(shared, 128 * (self.CONSUMERS + 1), each + 60),
            cluster=self.SPLITS, early=self.EARLY,
        )  # fmt: skip


@dataclass(frozen=True)
class StagedConfig:
    """Tile BM x BN x BK, WARPS a block, SPLITS of K over the blocks of a cluster, and whether they
    may come EARLY."""

    BM: int
    BN: int
    BK: int
    WARPS: int
    SPLITS: int = 1
    EARLY: bool = False

    def blocks(self, problem: Sized) -> int:
        return self.SPLITS * tiles(problem, self.BM, self.BN)

    def cut(self, p: Thin) -> Cut:
        """How a product is cut."""
        threads = 32 * self.WARPS
        held = (self.BM + self.BN) * self.BK // threads
        loads = (min(self.BM, p.m) + min(self.BN, p.n)) * self.BK / threads / p.run
        registers = min(255, held * 3 // 2 + self.BM * self.BN // threads + 50)
        return Cut(
            self.BM, self.BN, self.BK, self.blocks(p) // self.SPLITS, self.SPLITS,
            busy=staged_clocks(self.BM, self.BN, self.BK, self.WARPS, loads),
            wait=staged_wait(held / p.run),
            brought=(self.BM + self.BN) * self.BK * 2,
            room=room((self.BM + self.BN) * self.BK * 4, threads, registers),
            cluster=self.SPLITS, early=self.EARLY, tma=False,
        )  # fmt: skip


@dataclass(frozen=True)
class DotsConfig:
    """ROWS of the operand with many rows, FEW of the other, DEPTH of k at a time, SPLITS of k over
    the blocks of a cluster, and whether blocks may come EARLY."""

    ROWS: int
    FEW: int
    DEPTH: int
    SPLITS: int = 1
    EARLY: bool = False

    def blocks(self, problem: Thin) -> int:
        batch = 1 if problem.batch is None else problem.batch
        return self.SPLITS * -(-problem.thick // self.ROWS) * batch

    def cut(self, p: Thin) -> Cut:
        """How a product is cut."""
        held = (self.ROWS + self.FEW) * self.DEPTH // THREADS
        loads = (self.ROWS + min(self.FEW, p.thin)) * self.DEPTH / THREADS / p.run
        products = self.ROWS * self.FEW * self.DEPTH // THREADS
        return Cut(
            self.ROWS, self.FEW, self.DEPTH, self.blocks(p) // self.SPLITS, self.SPLITS,
            busy=dots_clocks(THREADS // 32, loads, products),
            wait=dots_wait(loads),
            brought=(self.ROWS + self.FEW) * self.DEPTH * 2,
            room=room(0, THREADS, held + products + 24),
            cluster=self.SPLITS, early=self.EARLY, tma=False,
        )  # fmt: skip


class Thin(Sizes, Protocol):
    """A product whose results are `thin` by `thick`, or turned; rows along k start at a multiple of
    `run` elements."""

    @property
    def thin(self) -> int: ...
    @property
    def thick(self) -> int: ...
    @property
    def run(self) -> int: ...


SM80_BYTES, SM90_BYTES = 163 * 1024, 226 * 1024
"""Shared memory that a block may have, without what barriers take."""


def _ring(c: Mapping[str, Any]) -> int:
    """Bytes of the stages."""
    return int((c["BM"] + c["BN"]) * c["BK"] * 2 * c["STAGES"])


def _each(c: Mapping[str, Any], threads: int) -> int:
    """Accumulators a thread."""
    return int(c["BM"] * c["BN"] // threads)


def _cost(config: Any, problem: Any, gpu: str) -> float:
    """What a table chooses by."""
    return microseconds(config.cut(problem), problem, gpu)


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


def _dots_cost(config: Any, problem: Any, gpu: str) -> float:
    """The same where not all of the other operand's rows may fit."""
    return _cost(config, problem, gpu) if problem.thin <= config.FEW else math.inf


def _stages(bm: int, bn: int, bk: int, taken: int, room: int = SM90_BYTES, most: int = 12) -> int:
    """The stages that `room` has beside `taken` bytes; more than `most` gain nothing."""
    return min(most, (room - taken) // ((bm + bn) * bk * 2))


def _staying() -> Iterator[WgmmaConfig]:
    """Blocks that stay, with the whole tile's results or a part of them beside the stages."""
    for bm, bn, parts in (
        (128, 256, 2), (128, 224, 1), (128, 208, 1), (128, 192, 1), (256, 128, 2),
    ):  # fmt: skip
        stages = _stages(bm, bn, 64, bm * bn * 2 // parts)
        one = WgmmaConfig(bm, bn, 64, stages, 2, 16, PARTS=parts, SCHEDULE="persistent")
        yield from (one, replace(one, GROUP=8))
        yield from (replace(one, CLUSTER_M=2), replace(one, CLUSTER_N=2))


def _a_block_a_tile() -> Iterator[WgmmaConfig]:
    wide = (32, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 256)
    for bm, consumers, widths in (
        (128, 2, wide), (64, 1, (64, 96, 128, 192, 256)), (192, 3, (64, 96, 128, 160, 192)),
        (256, 2, (64, 96, 128)),
    ):  # fmt: skip
        for bn in widths:
            yield WgmmaConfig(bm, bn, 64, _stages(bm, bn, 64, 0, most=8), consumers)


def _thin_configs() -> Iterator[ThinConfig]:
    """Tiles of few columns, two blocks per multiprocessor or one; then tiles for results that are
    few in both directions."""
    for bn in (8, 16, 32, 64, 128):
        for bm, bk in ((128, 64), (64, 128), (64, 64)):
            consumers = 2 if bm == 128 and bn >= 32 else 1
            for part in (2, 1):
                stages = _stages(bm, bn, bk, bm * bn * 4, SM90_BYTES // part)
                for splits in (1, 2, 4, 8):
                    if stages >= 3 and (bn <= 32 or splits <= 4):
                        yield ThinConfig(bm, bn, bk, stages, consumers, splits)
    for bm, bn in ((256, 64), (128, 96), (128, 160), (128, 192)):
        for splits in (1, 2, 4, 8):
            yield ThinConfig(bm, bn, 64, _stages(bm, bn, 64, bm * bn * 4), 2, splits)


def _staged_configs() -> Iterator[StagedConfig]:
    """Small tiles for few results, large ones for many; deep ones for sums that are long."""
    for bm, bn, bk, warps in (
        (16, 8, 128, 4), (16, 8, 128, 8), (16, 16, 128, 4), (16, 32, 32, 4), (16, 32, 128, 8),
        (16, 64, 64, 4), (16, 64, 64, 8), (16, 128, 64, 4), (32, 8, 128, 8), (32, 32, 32, 4),
        (32, 32, 64, 8), (32, 64, 32, 4), (32, 64, 64, 8), (64, 8, 64, 4), (64, 8, 64, 8),
        (64, 8, 128, 8), (64, 16, 64, 8), (64, 32, 64, 8), (64, 64, 32, 4), (64, 64, 64, 8),
        (64, 64, 64, 16), (128, 64, 32, 8), (128, 64, 64, 16), (128, 128, 32, 8),
        (128, 128, 32, 16),
    ):  # fmt: skip
        for splits in (1, 2, 4, 8):
            if bm // splits >= 8:
                yield StagedConfig(bm, bn, bk, warps, splits)


def _dots_configs() -> Iterator[DotsConfig]:
    """As many sums per thread as there are registers for."""
    for rows, few, depth in (
        (8, 1, 512), (4, 1, 1024), (8, 2, 512), (4, 4, 512), (4, 4, 1024), (2, 8, 512),
        (2, 8, 1024),
    ):  # fmt: skip
        for splits in (1, 2, 4, 8):
            if splits <= rows:
                yield DotsConfig(rows, few, depth, splits)


def _also_early(*configs: Iterable[Any]) -> tuple[Any, ...]:
    """Each configuration once, and with blocks that come early."""
    each = dict.fromkeys(config for some in configs for config in some)
    return tuple(replace(config, EARLY=early) for config in each for early in (False, True))


LARGE = WgmmaConfig(128, 256, 64, 4, 2, 16, PARTS=2, SCHEDULE="persistent", EARLY=True)
HEAVY = {"thick": 2048, "k": 2048}
"""From here on a product with few rows is heavy."""


def large(p: Sizes) -> bool:
    """Whether a product has tiles for two rounds of the largest blocks."""
    return p.m > 128 and p.n > 192 and tiles(p, LARGE.BM, LARGE.BN) >= 250


def heavy(p: Thin) -> bool:
    """Whether a thin product takes the time of reading its larger operand."""
    return p.thick >= HEAVY["thick"] and p.k >= HEAVY["k"]


def _heavy(thin: int, *rows: tuple[int, ThinConfig]) -> tuple[Row[ThinConfig], ...]:
    """Rows for results of at most `thin` rows or columns, each with the blocks that it is to give
    at least: as measured."""
    return tuple(Row(config, {"thin": thin}, fills, HEAVY) for fills, config in rows)


WGMMA: Table[WgmmaConfig] = Table(
    rows={
        "h200": (
            *(
                Row(WgmmaConfig(128, width, 64, stages, 2), {"m": 128}, 113, {"m": 65, **HEAVY})
                for width, stages in ((224, 4), (192, 4), (160, 5), (128, 6), (112, 6), (96, 7))
            ),
            Row(WgmmaConfig(128, 80, 64, 7, 2), {"m": 128}, 100, {"m": 65, **HEAVY}),
            Row(LARGE, fills=250, least={"m": 129, "n": 193}),
        ),
    },
    more=_also_early(_staying(), _a_block_a_tile()),
    cost=_cost,
)
THIN: Table[ThinConfig] = Table(
    rows={
        "h200": (
            *_heavy(
                8,
                (200, ThinConfig(128, 8, 64, 6, 1)),
                (75, ThinConfig(128, 8, 64, 6, 1, EARLY=True)),
                (90, ThinConfig(128, 8, 64, 6, 1, 2, EARLY=True)),
                (90, ThinConfig(64, 8, 128, 6, 1, 2, EARLY=True)),
            ),
            *_heavy(
                16,
                (200, ThinConfig(128, 16, 64, 5, 1)),
                (75, ThinConfig(128, 16, 64, 5, 1, EARLY=True)),
                (90, ThinConfig(64, 16, 128, 5, 1, EARLY=True)),
                (90, ThinConfig(64, 16, 128, 5, 1, 2, EARLY=True)),
            ),
            *_heavy(
                32,
                (200, ThinConfig(128, 32, 64, 4, 2)),
                (133, ThinConfig(64, 32, 128, 4, 1)),
                (90, ThinConfig(64, 32, 64, 8, 1, EARLY=True)),
                (90, ThinConfig(64, 32, 128, 9, 1, 2, EARLY=True)),
            ),
            *_heavy(
                64,
                (100, ThinConfig(256, 64, 64, 4, 2)),
                (133, ThinConfig(64, 64, 64, 6, 1)),
                (90, ThinConfig(64, 64, 128, 6, 1)),
                (90, ThinConfig(64, 64, 128, 6, 1, 2, EARLY=True)),
            ),
            Row(
                ThinConfig(128, 128, 64, 5, 2, 2, EARLY=True),
                {"thin": 128},
                120,
                {"thin": 65, "k": 16384},
            ),
            *_heavy(
                128,
                (90, ThinConfig(64, 128, 64, 8, 1)),
                (90, ThinConfig(64, 128, 128, 4, 1, 2, EARLY=True)),
            ),
        ),
    },
    more=_also_early(_thin_configs()),
    cost=_cost,
)
STAGED: Table[StagedConfig] = Table(more=_also_early(_staged_configs()), cost=_cost)
DOTS: Table[DotsConfig] = Table(more=_also_early(_dots_configs()), cost=_dots_cost)
