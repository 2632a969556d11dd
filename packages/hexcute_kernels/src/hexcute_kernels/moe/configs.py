"""Configurations of products with weights of four bits, and the one of a problem."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hexcute_kernels.tables import Row, Sized, Table, tiles


@dataclass(frozen=True)
class W4A16Config:
    """BM tokens and BN columns of weights per tile, STAGES of a group of k, GROUPS of 128 threads
    that multiply one tile, of which TEAMS take turns, and LOADS that load; RUN tiles of the same
    tokens one after another, SPLIT parts of k summed apart; EXACT, whether no weight is rounded.
    Where BLOCKS share a multiprocessor each does one such piece of work, else they stay. KEPT, if
    not 0, is how many groups of k there are, whose tokens stay in shared memory for all RUN tiles;
    CLUSTER blocks side by side take the same tokens. ORDERED, a first product's tokens are brought
    into the order of `sorting` before. TRITON is "dataflow" where weights pass through shared
    memory once more, "layout" where they lie there row after row: what either costs."""

    BM: int
    BN: int
    STAGES: int
    GROUPS: int = 2
    TEAMS: int = 1
    LOADS: int = 1
    RUN: int = 1
    SPLIT: int = 1
    EXACT: bool = False
    BLOCKS: int = 1
    KEPT: int = 0
    CLUSTER: int = 1
    ORDERED: bool = False
    TRITON: str = ""

    def blocks(self, problem: Sized) -> int:
        return tiles(problem, self.BM, self.BN) * self.SPLIT


@dataclass(frozen=True)
class MoeConfig:
    """How a layer's two products are computed, both by BM tokens per tile."""

    first: W4A16Config
    second: W4A16Config

    def blocks(self, problem: Sized) -> int:
        return self.first.blocks(problem)


@dataclass(frozen=True)
class FewConfig:
    """BM rows and BN columns, gate's and up's, a block of WARPS, of which BLOCKS run on a
    multiprocessor; SPLIT of them share the blocks of k, and each has DEPTH on the way."""

    BM: int
    BN: int
    DEPTH: int
    SPLIT: int
    WARPS: int
    BLOCKS: int

    def blocks(self, problem: Sized) -> int:
        return tiles(problem, self.BM, self.BN) * self.SPLIT


@dataclass(frozen=True)
class GatedConfig(FewConfig):
    """The same of a layer's first product. TOGETHER, blocks of the same weights run side by side,
    so that an expert of more than BM rows has its weights fetched from memory once."""

    TOGETHER: bool = False


@dataclass(frozen=True)
class WeightedConfig:
    """The same of the second product."""

    BM: int
    BN: int
    DEPTH: int
    WARPS: int
    BLOCKS: int
    SPLIT: int = 1
    TOGETHER: bool = False


@dataclass(frozen=True)
class StreamedConfig:
    """How the two products of few rows an expert are computed, both by BM rows per block."""

    first: GatedConfig
    second: WeightedConfig

    def blocks(self, problem: Sized) -> int:
        return tiles(problem, self.first.BM, self.first.BN)


ENOUGH = 100
"""Tiles that keep a GPU's multiprocessors busy."""


def _by_tokens(most: int | None, config: W4A16Config) -> tuple[Row[W4A16Config], ...]:
    """Rows for up to `most` tokens, of so many parts of k that there is enough work."""
    limit = {} if most is None else {"m": most}
    split = [replace(config, SPLIT=parts) for parts in (1, 2, 4)]
    rows = [Row(each, most=limit, fills=ENOUGH) for each in split]
    return (*rows, Row(replace(config, SPLIT=8), most=limit))


DENSE = Table(
    rows={
        "h200": (
            *_by_tokens(16, W4A16Config(16, 256, 6)),
            *_by_tokens(32, W4A16Config(32, 256, 5)),
            *_by_tokens(64, W4A16Config(64, 256, 4)),
            *_by_tokens(None, W4A16Config(128, 256, 3)),
        ),
    },
    more=(W4A16Config(16, 128, 6, 1, BLOCKS=2), W4A16Config(160, 256, 3)),
)


def _routed(high: int, stages: int, run: int) -> MoeConfig:
    """Both products by `high` tokens per tile, no weight rounded, `run` tiles of the second one
    after another."""
    last = {16: 4, 32: 4, 48: 3, 64: 3, 80: 3}.get(high, 2)
    return MoeConfig(
        W4A16Config(high, 256, stages, LOADS=2, EXACT=True),
        W4A16Config(high, 128, last, 1, TEAMS=2, RUN=run, EXACT=True),
    )


ROUTED = Table(
    rows={
        "h200": (
            Row(_routed(48, 5, 14), most={"share": 36, "width": 512}),
            Row(_routed(80, 4, 14), most={"share": 144, "width": 512}),
            Row(_routed(112, 3, 14), most={"width": 512}),
            Row(_routed(16, 6, 4), most={"share": 8}),
            Row(_routed(32, 5, 4), most={"share": 16}),
            Row(_routed(48, 5, 4), most={"share": 36}),
            Row(_routed(80, 4, 2), most={"share": 144}),
            Row(_routed(112, 3, 4)),
        ),
    },
    more=(_routed(64, 4, 14), _routed(96, 3, 14)),
)
"""`share` is how many rows an expert gets on average."""


FEW = Table(
    rows={
        "h200": (
            Row(FewConfig(8, 64, 4, 4, 4, 4), most={"m": 8, "n": 8192, "k": 16384}),
            Row(FewConfig(8, 128, 1, 4, 4, 4), most={"m": 8, "k": 16384}),
            Row(FewConfig(8, 128, 4, 8, 4, 2), most={"m": 8}),
            Row(FewConfig(16, 128, 4, 8, 4, 2), most={"n": 8192}),
            Row(FewConfig(16, 256, 2, 4, 8, 2)),
        ),
    },
    more=(FewConfig(8, 128, 2, 8, 4, 3), FewConfig(16, 128, 1, 4, 4, 4)),
)
"""Dense products of up to 16 tokens."""

_FIRST = GatedConfig(8, 128, 2, 4, 4, 4)
_WIDE = GatedConfig(8, 256, 1, 2, 8, 2)
_SECOND = WeightedConfig(8, 128, 1, 4, 6)
_DEEP = WeightedConfig(8, 128, 2, 4, 4, 8)

STREAMED = Table(
    rows={
        "h200": (
            Row(
                StreamedConfig(GatedConfig(8, 128, 2, 4, 4, 3), WeightedConfig(8, 128, 2, 4, 5)),
                most={"pairs": 16, "width": 512},
            ),
            Row(
                StreamedConfig(GatedConfig(8, 128, 7, 2, 4, 2), _SECOND),
                most={"pairs": 32, "width": 512},
            ),
            Row(StreamedConfig(_WIDE, _SECOND), most={"pairs": 64, "width": 512}),
            Row(StreamedConfig(_FIRST, _SECOND), most={"pairs": 256, "width": 512}),
            Row(StreamedConfig(_WIDE, _SECOND), most={"width": 512}),
            Row(StreamedConfig(_WIDE, WeightedConfig(8, 128, 2, 4, 4)), most={"width": 4096}),
            Row(StreamedConfig(GatedConfig(8, 128, 2, 2, 4, 4), _DEEP), most={"share": 4}),
            Row(
                StreamedConfig(
                    GatedConfig(8, 128, 2, 2, 4, 4, True), WeightedConfig(8, 128, 2, 4, 4, 8, True)
                ),
                most={"share": 8},
            ),
            Row(
                StreamedConfig(
                    GatedConfig(16, 128, 2, 4, 4, 3, True),
                    WeightedConfig(16, 128, 2, 4, 3, 8, True),
                )
            ),
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
