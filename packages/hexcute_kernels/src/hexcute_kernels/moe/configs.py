"""Configurations of products with weights of four bits, and the one of a problem."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from hexcute_kernels.moe.cost import dense_us, expert_us, joined_us
from hexcute_kernels.moe.forms import HALF, PLAIN, Weights
from hexcute_kernels.moe.joined import MANY
from hexcute_kernels.parts.split import owners
from hexcute_kernels.tables import Row, Sized, Table, tiles

ROOM, RESERVED = 232448, 4096
"""Bytes of shared memory that a block may have, and those that tables and barriers take."""


def _slots(most: int, bytes_of: Callable[[int], int]) -> int:
    """As many slots as there is room for, two at least."""
    return next((slots for slots in range(most, 2, -1) if bytes_of(slots) <= ROOM), min(most, 2))


def _ring(rows: int, columns: int, slots: int, held: Weights) -> int:
    """Bytes of slots of so many bytes of rows and so many columns of weights, with their scales."""
    strips = 2 * held.parts * held.form.strips * -(-columns * slots // 1024) * 1024
    return slots * (columns * HALF + rows) + strips


@dataclass(frozen=True)
class W4A16Config:
    """BM tokens and BN columns of weights per tile, STAGES of a group of k, GROUPS of 128 threads
    that multiply one tile, of which TEAMS take turns, and LOADS that load; RUN tiles of the same
    tokens one after another, SPLIT parts of k summed apart; EXACT, whether no weight is rounded.
    KEPT, if it is how many groups of k there are, their tokens stay in shared memory for all RUN
    tiles. ORDERED, a first product's tokens are brought into the order of `sorting` before. TRITON
    is "dataflow" where weights pass through shared memory once more, "layout" where they lie there
    row after row: what either costs."""

    BM: int
    BN: int
    STAGES: int
    GROUPS: int = 2
    TEAMS: int = 1
    LOADS: int = 1
    RUN: int = 1
    SPLIT: int = 1
    EXACT: bool = False
    KEPT: int = 0
    ORDERED: bool = False
    TRITON: str = ""

    def blocks(self, problem: Sized) -> int:
        return tiles(problem, self.BM, self.BN) * self.SPLIT

    def within(self, held: Weights) -> W4A16Config:
        """The same with as many slots as there is room for beside the scales of such weights."""
        return replace(self, STAGES=_slots(self.STAGES, lambda slots: self._bytes(held, slots)))

    def _bytes(self, held: Weights, slots: int) -> int:
        """Of shared memory, each tensor's rounded up to 1024."""
        rows = 2 * self.BM * held.form.block
        ring = _ring(0 if self.KEPT else rows, self.BN, slots, held)
        result = self.BM * self.BN * (1 if self.SPLIT == 1 else 2)
        kept = rows * (self.KEPT + min(self.KEPT, 2))
        return self.TEAMS * (ring + result) + kept + RESERVED


@dataclass(frozen=True)
class JoinedConfig:
    """A dense product's tiles of BM tokens and BN columns, STAGES of a block of k and GROUPS of 128
    threads that multiply; SPLIT blocks of a cluster, a power of two, share a tile's blocks of k."""

    BM: int
    BN: int
    STAGES: int
    GROUPS: int
    SPLIT: int = 2

    def blocks(self, problem: Sized) -> int:
        return tiles(problem, self.BM, self.BN) * self.SPLIT

    def within(self, held: Weights) -> JoinedConfig:
        """The same with as many slots as there is room for beside the scales of such weights."""
        return replace(self, STAGES=_slots(self.STAGES, lambda slots: self._bytes(held, slots)))

    def _bytes(self, held: Weights, slots: int) -> int:
        """Of shared memory: slots, and sums of the whole tile or those that others send."""
        sent = self.BM // owners(self.BM, self.SPLIT) * (self.SPLIT - 1)
        sums = 4 * self.BN * (sent if self.BM >= MANY else self.BM)
        return _ring(2 * self.BM * held.form.block, self.BN, slots, held) + sums + RESERVED


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


def _dense(columns: int, high: tuple[int, ...], parts: tuple[int, ...]) -> list[W4A16Config]:
    """Tiles of so many columns and each of so many rows, of each number of parts of k."""
    groups = columns // 128
    tiles = [W4A16Config(rows, columns, 6, groups).within(PLAIN) for rows in high]
    return [replace(tile, SPLIT=split) for tile in tiles for split in parts]


DENSE = Table(
    more=(
        *_dense(256, (16, 32, 64, 128), (1, 2, 4, 8)),
        *_dense(256, (136, 144, 152), (1,)),
        *_dense(128, (16, 32, 64, 128), (1, 2, 4)),
    ),
    cost=lambda config, p, gpu: dense_us(p, config.BM, config.BN, config.SPLIT),
)
JOINED = Table(
    more=(
        JoinedConfig(32, 256, 6, 2),
        JoinedConfig(64, 256, 5, 2),
        JoinedConfig(128, 256, 3, 2),
        JoinedConfig(64, 128, 8, 1),
        JoinedConfig(128, 128, 4, 1),
    ),
    cost=lambda config, p, gpu: joined_us(p, config.BM, config.BN, config.SPLIT),
)
"""Dense products in one launch whose whole tiles leave about half of the multiprocessors idle."""


def _stages(high: int, wide: int) -> int:
    """Slots of shared memory that a tile of `high` tokens and `wide` columns of weights leaves."""
    return W4A16Config(high, wide, 6).within(PLAIN).STAGES


def _gathered(high: int) -> W4A16Config:
    """The first product whose tokens are gathered."""
    return W4A16Config(high, 256, _stages(high, 256), LOADS=2, EXACT=True)


def _ordered(high: int) -> W4A16Config:
    """The same of tokens that were gathered before, which pays where they are read many times."""
    return W4A16Config(high, 256, _stages(high, 256), EXACT=True, ORDERED=True)


def _by_four(high: int) -> W4A16Config:
    """Either product of few rows, whose weights four groups unpack: one alone leaves memory idle
    while it does."""
    return W4A16Config(high, 512, 6, 4, EXACT=True).within(PLAIN)


def _few(
    second: Callable[[int], W4A16Config], share: int, high: int, **most: int
) -> Row[MoeConfig]:
    """A row of both products for so few rows of an expert."""
    return Row(MoeConfig(_by_four(high), second(high)), most={**most, "share": share})


def _whole(high: int) -> W4A16Config:
    """The second product, of many blocks of k, by all warp groups together."""
    return W4A16Config(high, 256, _stages(high, 256), EXACT=True)


def _in_turns(high: int) -> W4A16Config:
    """The same of few blocks of k: one team stores while the other multiplies."""
    return W4A16Config(high, 128, 4, 1, TEAMS=2, RUN=4, EXACT=True).within(PLAIN)


def _kept(high: int) -> W4A16Config:
    """The same of two blocks of k, whose tokens stay for half of 7168 columns."""
    return W4A16Config(high, 128, 5, 1, TEAMS=2, RUN=28, EXACT=True, KEPT=2).within(PLAIN)


_HIGH = ((8, 16), (20, 32), (38, 48), (144, 80), (272, 96), (None, 112))
"""Rows of an expert on average, and those of its tiles where products are narrow."""


def _by_share(
    first: Callable[[int], W4A16Config],
    second: Callable[[int], W4A16Config],
    above: int = 0,
    most: Mapping[str, int] = MappingProxyType({}),
    least: Mapping[str, int] = MappingProxyType({}),
) -> tuple[Row[MoeConfig], ...]:
    """A row for each of `_HIGH` that has more rows than `above`."""
    return tuple(
        Row(
            MoeConfig(first(high), second(high)),
            most=dict(most) if share is None else {**most, "share": share},
            least=dict(least),
        )
        for share, high in _HIGH
        if share is None or share > above
    )


_MANY = (48, 64, 80, 96, 112, 128, 136, 144, 152)
_LARGE = {
    False: tuple(MoeConfig(_gathered(high), _whole(high)) for high in _MANY),
    True: tuple(MoeConfig(_ordered(high), _whole(high)) for high in _MANY),
}
"""Tiles of many rows of an expert, by whether it is wide: then its tokens are read many times."""
_BROAD = 1024


def _layer_us(config: MoeConfig, p: Any, gpu: str) -> float:
    return expert_us(p.share, config.first.BM) if config in _LARGE[p.width > _BROAD] else math.inf


ROUTED = Table(
    rows={
        "h200": (
            *_by_share(_gathered, _kept, 20, {"width": 256}, {"width": 256, "share": 21}),
            *_by_share(_gathered, _in_turns, most={"width": 512}),
            _few(_by_four, 8, 16, width=_BROAD),
            _few(_by_four, 20, 24, width=_BROAD),
            Row(MoeConfig(_gathered(48), _in_turns(48)), most={"width": _BROAD, "share": 38}),
            Row(MoeConfig(_gathered(80), _in_turns(80)), most={"width": _BROAD, "share": 64}),
            _few(_whole, 8, 16),
            _few(_whole, 20, 24),
            _few(_whole, 38, 40),
        ),
    },
    more=(*_LARGE[False], *_LARGE[True]),
    cost=_layer_us,
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
            # Scales and zeros of groups of 64 leave a multiprocessor room for one wide block.
            Row(StreamedConfig(_FIRST, _SECOND), most={"group": 64, "width": 512}),
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
