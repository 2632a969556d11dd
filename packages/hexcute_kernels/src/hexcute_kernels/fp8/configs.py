"""Configurations of the blockwise FP8 GEMM, and the one of a product, as measured on an H200."""

from __future__ import annotations

from dataclasses import dataclass

from hexcute_kernels.tables import Row, Sized, Table, tiles


@dataclass(frozen=True)
class BlockwiseConfig:
    """Tile BM x BN, STAGES, CONSUMERS warp groups that multiply, PORTIONS of BM that a group takes
    one after the other, GROUP rows of tiles that run together."""

    BM: int
    BN: int
    STAGES: int
    CONSUMERS: int
    PORTIONS: int = 1
    GROUP: int = 8

    def blocks(self, problem: Sized) -> int:
        return tiles(problem, self.BM, self.BN)


BLOCKWISE = Table(
    rows={
        "h200": (
            Row(BlockwiseConfig(64, 128, 8, 1), {"m": 64, "k": 1536, "out_bits": 16}, fills=100),
            Row(BlockwiseConfig(192, 128, 4, 3), most={"k": 1024, "out_bits": 16}, fills=512),
            Row(BlockwiseConfig(128, 128, 5, 2), most={"out_bits": 16, "k": 1024}, fills=100),
            Row(BlockwiseConfig(128, 64, 8, 2), most={"out_bits": 16, "m": 128}),
            Row(BlockwiseConfig(128, 128, 5, 2), most={"out_bits": 16}, fills=100),
            Row(BlockwiseConfig(128, 128, 4, 2), fills=100),
            Row(BlockwiseConfig(128, 64, 8, 2), most={"out_bits": 16}),
            Row(BlockwiseConfig(128, 64, 6, 2)),
        ),
    },
    more=(BlockwiseConfig(64, 64, 8, 1), BlockwiseConfig(128, 32, 8, 2)),
)
