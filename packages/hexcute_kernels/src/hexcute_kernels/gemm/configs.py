"""Configurations of the GEMMs, and how each cuts a product."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from hexcute_kernels.gemm.cost import (
    SUM,
    Cut,
    Sizes,
    dots_clocks,
    dots_wait,
    from_l2,
    room,
    staged_clocks,
    staged_wait,
    tma_wait,
    wgmma_clocks,
)
from hexcute_kernels.gemm.dots import THREADS
from hexcute_kernels.gemm.staged import WIDE
from hexcute_kernels.parts.split import owners
from hexcute_kernels.tables import Sized, tiles


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
    CLUSTER_M x CLUSTER_N blocks, PARTS of a tile stored one by one, SCHEDULE of the blocks; whether
    they may come EARLY, before the launch ahead has ended, which gains a microsecond; SWAP: a
    tile's rows are columns of the result, of which it may have any multiple of eight."""

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
    SWAP: bool = False

    def blocks(self, problem: Sized) -> int:
        return tiles(problem, *((self.BN, self.BM) if self.SWAP else (self.BM, self.BN)))

    def cut(self, p: Sizes) -> Cut:
        """How a product is cut. One block has all registers of a multiprocessor."""
        rows, columns = self.BM * self.CLUSTER_M, self.BN * self.CLUSTER_N
        high, wide = (self.BN, self.BM) if self.SWAP else (self.BM, self.BN)
        cluster = self.CLUSTER_M * self.CLUSTER_N
        across = tiles(p, *((columns, rows) if self.SWAP else (rows, columns)))
        return Cut(
            high, wide, self.BK, across * cluster, splits=1,
            busy=wgmma_clocks(self.BM, self.BN, self.BK),
            wait=tma_wait(self.STAGES), ahead=self.STAGES,
            # Of what blocks of a cluster share, each brings a part.
            brought=from_l2(
                (self.BM + self.BN) * self.BK * 2,
                (self.BM / self.CLUSTER_N + self.BN / self.CLUSTER_M) * self.BK * 2,
                p,
            ),
            room=1, cluster=cluster, early=self.EARLY, stays=self.SCHEDULE != "tile",
            apart=self.SCHEDULE == "apart",
            # Rows that TMA cannot write are written by threads, an element or four at a time.
            scattered=p.n % 8 != 0,
        )  # fmt: skip


@dataclass(frozen=True)
class GroupedConfig:
    """Tile BM x BN x BK, STAGES, CONSUMERS warp groups that multiply and store apart, GROUP rows of
    an expert's tiles that run together, PARTS of a tile's columns stored one by one, CLUSTER_N
    blocks side by side that share the rows."""

    BM: int
    BN: int
    BK: int
    STAGES: int
    CONSUMERS: int
    GROUP: int = 8
    PARTS: int = 1
    CLUSTER_N: int = 1

    def blocks(self, problem: Sized) -> int:
        return tiles(problem, self.BM, self.BN)


@dataclass(frozen=True)
class ThinConfig:
    """Tile BM x BN x BK, of which BN lies along the shorter side of the result, or FLAT, along the
    longer one, STAGES, CONSUMERS warp groups that multiply, SPLITS of K over the blocks of a
    cluster, and whether blocks may come EARLY, before the launch ahead has ended: that gains a
    microsecond where they are at most one per multiprocessor, and costs more where two share one,
    for they are spread unevenly then."""

    BM: int
    BN: int
    BK: int
    STAGES: int
    CONSUMERS: int
    SPLITS: int = 1
    EARLY: bool = False
    FLAT: bool = False

    @property
    def owners(self) -> int:
        """How many blocks of a cluster add up, each a part of the columns."""
        return owners(self.BN, self.SPLITS)

    @property
    def beside(self) -> int:
        """Bytes that a block's results, the sums that it receives and a barrier for them take."""
        others = self.SPLITS - 1
        return self.BM * self.BN // self.owners * (2 + 4 * others) + 1024 * (others > 0)

    def blocks(self, problem: Thin) -> int:
        high, wide = (self.BN, self.BM) if self.FLAT else (self.BM, self.BN)
        across = -(-problem.thick // high) * -(-problem.thin // wide)
        return self.SPLITS * across * (1 if problem.batch is None else problem.batch)

    def cut(self, p: Thin) -> Cut:
        """How a product is cut."""
        each = self.BM * self.BN // (128 * self.CONSUMERS)
        shared, step = ring(vars(self)) + self.beside, (self.BM + self.BN) * self.BK * 2
        return Cut(
            self.BM, self.BN, self.BK, self.blocks(p) // self.SPLITS, self.SPLITS,
            busy=wgmma_clocks(self.BM, self.BN, self.BK),
            wait=tma_wait(self.STAGES), ahead=self.STAGES,
            # Few columns come beside rows that DRAM is slower to bring than L2.
            brought=step if self.BN < 64 else from_l2(step, step, p),
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
            scattered=self.SPLITS == 1 and self.BM * self.BN < WIDE,
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
        steps = -(-p.k // (self.DEPTH * self.SPLITS)) or 1
        return Cut(
            self.ROWS, self.FEW, self.DEPTH, self.blocks(p) // self.SPLITS, self.SPLITS,
            busy=dots_clocks(THREADS // 32, loads, products + self.ROWS * self.FEW * SUM / steps),
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


def ring(c: Mapping[str, Any]) -> int:
    """Bytes of a configuration's stages."""
    return int((c["BM"] + c["BN"]) * c["BK"] * 2 * c["STAGES"])
