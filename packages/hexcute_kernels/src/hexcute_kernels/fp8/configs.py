"""Configurations of FP8 products and of what makes their operands, and which a call gets."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hexcute_kernels.tables import Row, Sized, Table, tiles


@dataclass(frozen=True)
class BlockwiseConfig:
    """Tile BM x BN, STAGES, CONSUMERS warp groups that multiply, PORTIONS of its rows that a group
    takes one after the other, GROUP rows of tiles that run together, CLUSTER blocks that share a's
    rows; whether the sums of a portion are added LATE."""

    BM: int
    BN: int
    STAGES: int
    CONSUMERS: int
    PORTIONS: int = 1
    GROUP: int = 8
    CLUSTER: int = 1
    LATE: bool = False

    def blocks(self, problem: Sized) -> int:
        return tiles(problem, self.BM, self.BN)


@dataclass(frozen=True)
class ThinBlockwiseConfig:
    """Tile BM x BN, of which BN rows are b's, STAGES, CONSUMERS warp groups that multiply, SPLITS
    of k over the blocks of a cluster; EARLY as `gemm.configs.ThinConfig` says."""

    BM: int
    BN: int
    STAGES: int
    CONSUMERS: int
    SPLITS: int = 1
    EARLY: bool = False

    def blocks(self, problem: Sized) -> int:
        return self.SPLITS * tiles(problem, self.BM, self.BN)


# More than 132 blocks of few slots share a multiprocessor: all of them read from the start.
THIN_BLOCKWISE = Table(
    rows={
        "h200": (
            Row(ThinBlockwiseConfig(8, 128, 4, 2, 2), {"m": 8}, fills=700),
            Row(ThinBlockwiseConfig(8, 64, 11, 1), {"m": 8}, fills=133),
            Row(ThinBlockwiseConfig(8, 64, 11, 1, 2), {"m": 8}, fills=133),
            Row(ThinBlockwiseConfig(16, 64, 10, 1), {"m": 16}, fills=133),
            Row(ThinBlockwiseConfig(16, 64, 10, 1, 2), {"m": 16}, fills=133),
            Row(ThinBlockwiseConfig(32, 128, 4, 2, EARLY=True), {"m": 32, "k": 512}, fills=190),
            Row(ThinBlockwiseConfig(32, 128, 4, 1), {"m": 32}, fills=190),
            Row(ThinBlockwiseConfig(32, 64, 8, 1, EARLY=True), {"m": 32}, fills=100),
            Row(ThinBlockwiseConfig(32, 64, 8, 1, 2), {"m": 32}, fills=133),
            Row(ThinBlockwiseConfig(32, 64, 14, 2, 2, EARLY=True), {"m": 32}, fills=100),
            Row(ThinBlockwiseConfig(32, 128, 4, 1, 4, EARLY=True), {"m": 32}),
            Row(ThinBlockwiseConfig(64, 64, 5, 1), {"m": 64}, fills=133),
            Row(ThinBlockwiseConfig(64, 64, 12, 2, EARLY=True), {"m": 64}, fills=100),
            Row(ThinBlockwiseConfig(64, 64, 5, 1, 2), {"m": 64}, fills=133),
            Row(ThinBlockwiseConfig(64, 64, 12, 1, 2, EARLY=True), {"m": 64}, fills=100),
            Row(ThinBlockwiseConfig(64, 64, 5, 1, 4), {"m": 64}),
            Row(ThinBlockwiseConfig(128, 64, 7, 2, 2, EARLY=True), least={"k": 12288}, fills=100),
            Row(ThinBlockwiseConfig(128, 64, 7, 1, 2, EARLY=True), fills=100),
            Row(ThinBlockwiseConfig(64, 64, 12, 1, 2, EARLY=True)),
        ),
    },
    more=(
        ThinBlockwiseConfig(8, 128, 6, 2, 4),
        ThinBlockwiseConfig(32, 64, 8, 1),
    ),
)

WIDE = BlockwiseConfig(256, 128, 3, 2, 2, CLUSTER=2)
"""The tile that fetches the fewest bytes for a product."""
LATE = replace(WIDE, LATE=True)

BLOCKWISE = Table(
    rows={
        "h200": (
            Row(BlockwiseConfig(64, 128, 8, 2), {"m": 64, "k": 1024, "out_bits": 16}, fills=100),
            Row(BlockwiseConfig(64, 192, 6, 1), {"m": 64, "out_bits": 16}, fills=100, room=132),
            Row(BlockwiseConfig(64, 128, 8, 2), {"m": 64, "out_bits": 16}, fills=300),
            Row(BlockwiseConfig(64, 64, 12, 1), {"m": 64, "out_bits": 16}),
            Row(
                BlockwiseConfig(128, 128, 5, 2, LATE=True),
                {"m": 128, "k": 1024, "out_bits": 16},
                fills=200,
            ),
            Row(BlockwiseConfig(128, 64, 8, 2), {"m": 128, "out_bits": 16}),
            Row(
                BlockwiseConfig(128, 128, 5, 2),
                {"m": 2048, "n": 8192, "k": 2048, "out_bits": 16},
                least={"n": 6145},
            ),
            Row(WIDE, {"k": 1536, "out_bits": 16}, fills=120),
            Row(LATE, {"out_bits": 16}, fills=120),
            Row(BlockwiseConfig(128, 128, 5, 2), {"out_bits": 16}, fills=100),
            Row(BlockwiseConfig(128, 128, 4, 2), fills=100),
            Row(BlockwiseConfig(128, 64, 8, 2), {"out_bits": 16}),
            Row(BlockwiseConfig(128, 64, 6, 2)),
        ),
    },
    more=(
        BlockwiseConfig(64, 128, 8, 1),
        BlockwiseConfig(128, 32, 8, 2),
        BlockwiseConfig(128, 128, 5, 2, CLUSTER=2, LATE=True),
        BlockwiseConfig(192, 128, 4, 3),
        BlockwiseConfig(256, 128, 3, 2, 2),
    ),
)

GROUPED = Table(
    rows={
        "h200": (
            Row(BlockwiseConfig(64, 128, 8, 1), {"share": 40, "out_bits": 16}),
            Row(
                BlockwiseConfig(128, 256, 3, 2, GROUP=1, LATE=True), {"share": 160, "out_bits": 16}
            ),
            Row(
                BlockwiseConfig(128, 192, 4, 2, GROUP=1),
                {"share": 1024, "out_bits": 16},
                least={"share": 385, "k": 4096},
            ),
            Row(BlockwiseConfig(128, 256, 3, 2, LATE=True), {"share": 1024, "out_bits": 16}),
            Row(LATE, {"out_bits": 16}),
            Row(BlockwiseConfig(128, 128, 4, 2)),
        ),
    },
    more=(
        BlockwiseConfig(64, 128, 8, 2),
        BlockwiseConfig(128, 64, 8, 2),
        BlockwiseConfig(128, 128, 5, 2, GROUP=1),
        BlockwiseConfig(128, 128, 5, 2),
        BlockwiseConfig(128, 192, 4, 2),
        WIDE,
    ),
)
"""`share` is how many rows an expert has, on average or as the caller says."""


@dataclass(frozen=True)
class QuantizeConfig:
    """BM rows and WIDE times 128 columns of a tile, WARPS of a block."""

    BM: int
    WARPS: int
    WIDE: int = 1

    def blocks(self, problem: Sized) -> int:
        return tiles(problem, self.BM, 128 * self.WIDE)


QUANTIZE = Table(
    rows={"h200": (Row(QuantizeConfig(8, 4, 4)),)},
    more=(
        QuantizeConfig(2, 4, 8),
        QuantizeConfig(4, 8, 8),
        QuantizeConfig(16, 4),
    ),
)
QUANTIZE_WEIGHTS = Table(
    rows={"h200": (Row(QuantizeConfig(128, 8)),)}, more=(QuantizeConfig(128, 16),)
)
