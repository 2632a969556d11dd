"""Which configurations of the GEMMs are tried, and which of them were the fastest.

Rows are as measured: mma.sync has them for all, wgmma for large products and for thin ones with
long sums. For what no row takes, the cost model chooses among all configurations.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from hexcute_core.tuner.space import Space
from hexcute_kernels.gemm.configs import (
    DotsConfig,
    MmaConfig,
    StagedConfig,
    Thin,
    ThinConfig,
    WgmmaConfig,
    ring,
)
from hexcute_kernels.gemm.cost import Sizes, microseconds
from hexcute_kernels.gemm.parameters import ROOM
from hexcute_kernels.tables import Row, Table, tiles

SM80_BYTES, SM90_BYTES = 163 * 1024, ROOM
"""Shared memory that a block may have, without what barriers take."""


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
        (lambda c: _each(c, 32 * c["WARPS"]) <= 128, lambda c: ring(c) <= SM80_BYTES),
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
    for schedule in ("apart", "persistent"):
        for bm, bn, parts in (
            (128, 256, 2), (128, 256, 1), (256, 128, 2), (128, 224, 1), (128, 208, 1),
            (128, 192, 1),
        ):  # fmt: skip
            stages = _stages(bm, bn, 64, bm * bn * 2 // parts)
            one = WgmmaConfig(bm, bn, 64, stages, 2, 16, 1, 1, parts, schedule, EARLY=True)
            yield from (one, replace(one, CLUSTER_N=2)) if bm == 256 else (one,)
        yield WgmmaConfig(128, 256, 64, 4, 2, 16, 1, 1, 2, schedule, EARLY=True, SWAP=True)
    yield replace(LARGE, SWAP=True)
    for swap in (False, True):
        yield replace(WIDE, SWAP=swap)
        yield WgmmaConfig(192, 192, 64, 4, 3, 8, 1, 2, 3, "persistent", True, swap)
    yield WgmmaConfig(128, 256, 64, 4, 2, 8, 2, 1, 2, "apart", EARLY=True)
    for parts in (4, 8):
        yield WgmmaConfig(128, 256, 64, 4, 2, 16, 1, 1, parts, "behind", EARLY=True)


def _a_block_a_tile() -> Iterator[WgmmaConfig]:
    wide = (32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 256)
    for bm, consumers, widths in (
        (128, 2, wide), (64, 1, (32, 48, 64, 80, 96, 112, 128, 192, 224, 256)),
        (192, 3, (64, 96, 128, 160, 192)), (256, 2, (64, 96, 128)),
    ):  # fmt: skip
        for bn in widths:
            yield WgmmaConfig(bm, bn, 64, _stages(bm, bn, 64, 0, most=8), consumers)


def _sharing() -> Iterator[WgmmaConfig]:
    """A block a tile, two of which share their rows of the shorter side."""
    for bm, consumers, widths in (
        (128, 2, (64, 72, 80, 96, 112)), (192, 3, (56, 64, 72, 80, 96, 112, 128)),
    ):  # fmt: skip
        for bn in widths:
            stages = _stages(bm, bn, 64, 0, most=8)
            yield WgmmaConfig(bm, bn, 64, stages, consumers, CLUSTER_N=2, EARLY=True, SWAP=True)
    for swap in (False, True):
        yield WgmmaConfig(256, 160, 64, 4, 2, CLUSTER_M=2, EARLY=True, SWAP=swap)


def _thin_configs() -> Iterator[ThinConfig]:
    """Tiles of few columns, two blocks per multiprocessor or one; then tiles for results that are
    few in both directions."""
    for bn in (8, 16, 32, 64, 128):
        for bm, bk in ((128, 64), (64, 128), (64, 64)):
            consumers = 2 if bm == 128 and bn >= 32 else 1
            for part in (2, 1):
                for splits in (1, 2, 4, 8):
                    one = ThinConfig(bm, bn, bk, 0, consumers, splits)
                    stages = _stages(bm, bn, bk, one.beside, SM90_BYTES // part)
                    if stages >= 3 and (bn <= 32 or splits <= 4):
                        yield replace(one, STAGES=stages)
    broad = [(128, bn) for bn in (72, 80, 96, 112, 160, 192)]
    for bm, bn in ((256, 64), *broad, *((64, bn) for bn in (72, 80, 96, 112))):
        for splits in (1, 2, 3, 4, 8):
            one = ThinConfig(bm, bn, 64, 0, min(2, bm // 64), splits)
            stages = _stages(bm, bn, 64, one.beside)
            # Of three blocks each adds up a third of the columns, in whole eights.
            if stages >= 3 and (splits != 3 or bn % 24 == 0):
                yield replace(one, STAGES=stages)
    for bm, widths in ((64, (96, 128, 160, 224)), (128, (64, 96, 128, 160, 224))):
        for bn in widths:
            one = ThinConfig(bm, bn, 64, 0, bm // 64, 2, FLAT=True)
            yield replace(one, STAGES=_stages(bm, bn, 64, one.beside))


def _staged_configs() -> Iterator[StagedConfig]:
    """Small tiles for few results, large ones for many; deep ones for sums that are long."""
    for bm, bn, bk, warps in (
        (16, 8, 128, 4), (16, 8, 128, 8), (16, 16, 128, 4), (16, 32, 32, 4), (16, 32, 128, 8),
        (16, 64, 64, 4), (16, 64, 64, 8), (16, 128, 64, 4), (32, 8, 128, 8), (32, 32, 32, 4),
        (32, 32, 64, 8), (32, 64, 32, 4), (32, 64, 64, 8), (64, 8, 64, 4), (64, 8, 64, 8),
        (64, 8, 128, 8), (64, 16, 64, 8), (64, 32, 64, 8), (64, 64, 32, 4), (64, 64, 64, 8),
        (64, 64, 64, 16), (128, 64, 32, 8), (128, 64, 64, 16), (128, 128, 32, 8),
        (128, 128, 32, 16), (64, 64, 16, 4), (64, 128, 16, 4),
    ):  # fmt: skip
        for splits in (1, 2, 4, 8):
            if bm // splits >= 8:
                yield StagedConfig(bm, bn, bk, warps, splits)


def _dots_configs() -> Iterator[DotsConfig]:
    """As many sums per thread as there are registers for; of eight rows the compiler loads one
    after the other."""
    for rows, few, depth in (
        (4, 1, 1024), (4, 2, 1024), (4, 4, 512), (4, 4, 1024), (2, 8, 512), (2, 8, 1024),
    ):  # fmt: skip
        for splits in (1, 2, 4, 8):
            if splits <= rows:
                yield DotsConfig(rows, few, depth, splits)


def _also_early(*configs: Iterable[Any]) -> tuple[Any, ...]:
    """Each configuration once, and with blocks that come early."""
    each = dict.fromkeys(config for some in configs for config in some)
    return tuple(replace(config, EARLY=early) for config in each for early in (False, True))


LARGE = WgmmaConfig(128, 256, 64, 3, 2, 16, SCHEDULE="persistent", EARLY=True)
WIDE = WgmmaConfig(256, 192, 64, 3, 2, 8, 1, 2, 2, "persistent", EARLY=True)
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
    at least: as measured. Where K is split, all of them have a multiprocessor to themselves."""

    def room(config: ThinConfig) -> int:
        return 132 if config.SPLITS > 1 and thin > 32 else 0

    return tuple(Row(c, {"thin": thin}, fills, HEAVY, room=room(c)) for fills, c in rows)


def _few_rows(m: int, *widths: tuple[int, int]) -> Iterator[Row[WgmmaConfig]]:
    """Rows for results of `m` rows and more than half as many: the widest tiles of which there are
    enough and not too many, with their stages."""
    for width, stages in widths:
        config = WgmmaConfig(m, width, 64, stages, m // 64, EARLY=True)
        yield Row(config, {"m": m}, 113, {"m": m // 2 + 1, **HEAVY}, room=132)


def _halves(*widths: tuple[int, int]) -> Iterator[Row[WgmmaConfig]]:
    """Rows for results of 65 to 128 rows: a block for each half of them and the widest tiles of
    which there are enough, with their stages. Two blocks share b's rows, each of which L2 would
    else be asked for twice; a's are asked for by all blocks at once."""
    for width, stages in widths:
        config = WgmmaConfig(64, width, 64, stages, 1, CLUSTER_M=2, EARLY=True)
        yield Row(config, {"m": 128}, 113, {"m": 65, **HEAVY}, room=132)


WGMMA: Table[WgmmaConfig] = Table(
    rows={
        "h200": (
            *_few_rows(64, (224, 5), (112, 9), (80, 12), (64, 13), (48, 14)),
            *_few_rows(128, (224, 4), (192, 4)),
            *_halves((224, 6), (160, 8), (128, 9), (96, 11), (80, 12), (64, 12)),
            Row(
                replace(WIDE, BN=176),
                {"m": 4096, "n": 14336, "k": 4096},
                0,
                {"m": 3585, "n": 12289, "k": 3585},
                {"whole": "True", "bias": "True", "activation": "'gelu'"},
            ),
            Row(LARGE, {}, 250, {"m": 129, "n": 193}, {"whole": "True"}),
        ),
    },
    more=(
        *_staying(),
        *_also_early(_a_block_a_tile()),
        *_sharing(),
        WgmmaConfig(64, 48, 128, 8, 1, EARLY=True),
    ),
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
STAGED: Table[StagedConfig] = Table(
    rows={
        "h200": (
            # Many short rows by a few: tiles along them, however many blocks that makes.
            Row(StagedConfig(16, 64, 64, 4), {"m": 16, "k": 256}, 0, {"n": 2048}),
            # One step of k: the time is that of writing the results.
            Row(StagedConfig(64, 128, 16, 4, EARLY=True), {"k": 16}, 1000),
            Row(StagedConfig(64, 64, 16, 4, EARLY=True), {"k": 16}, 16, {"m": 33, "n": 33}),
        ),
    },
    more=_also_early(_staged_configs()),
    cost=_cost,
)
DOTS: Table[DotsConfig] = Table(more=_also_early(_dots_configs()), cost=_dots_cost)
