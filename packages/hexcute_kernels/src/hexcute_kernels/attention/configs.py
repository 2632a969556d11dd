"""Configurations of attention, and which one a problem gets, as measured on an H200.

wgmma: 64 queries a block where longer tiles would leave multiprocessors idle; else as many keys
as registers hold beside the result, which falls with the heads' width. Under a mask, blocks of all
heads run longest first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from hexcute_kernels.tables import Row, Table


class Blocked(Protocol):
    """A problem of b x h rows of sq queries."""

    @property
    def b(self) -> int: ...
    @property
    def h(self) -> int: ...
    @property
    def sq(self) -> int: ...


def blocks(problem: Blocked, bm: int) -> int:
    """How many blocks of bm queries there are."""
    return -(-problem.sq // bm) * problem.b * problem.h


@dataclass(frozen=True)
class MmaConfig:
    """BM queries and BN keys a tile, WARPS a block."""

    BM: int
    BN: int
    WARPS: int

    def blocks(self, problem: Blocked) -> int:
        return blocks(problem, self.BM)


@dataclass(frozen=True)
class WgmmaConfig:
    """BM queries and BN keys a tile, STAGES of keys and of values, GROUPS of warps that multiply,
    in turns or not (PINGPONG), ORDER of the blocks; LAZY maxima, and where results are rescaled."""

    BM: int
    BN: int
    GROUPS: int
    PINGPONG: bool
    STAGES: int = 2
    ORDER: str = "rows"
    LAZY: bool = True
    RESCALE: str = "after"

    def blocks(self, problem: Blocked) -> int:
        return blocks(problem, self.BM)


MMA = Table(
    rows={
        "a100": (
            Row(MmaConfig(128, 64, 4), most={"width": 64}, fills=64),
            Row(MmaConfig(128, 32, 4), most={"width": 128}, fills=64),
            Row(MmaConfig(64, 64, 4), most={"width": 128}),
            Row(MmaConfig(64, 32, 4)),
        ),
    },
)


def _row(
    width: int, config: tuple[int, int, int, bool, str], fills: int = 0, **most: int
) -> Row[WgmmaConfig]:
    """A row for heads of at most this width: BM, BN, GROUPS, PINGPONG and ORDER."""
    bm, bn, groups, pingpong, order = config
    # A wide result takes its decay under the next product, which is long; narrow keys and values
    # leave room for a third stage.
    rescale = "after" if width <= 128 else "next"
    stages = 3 if width <= 64 and groups > 1 else 2
    tile = WgmmaConfig(bm, bn, groups, pingpong, stages, order, RESCALE=rescale)
    return Row(tile, most={"width": width, **most}, fills=fills)


_EVEN = (
    _row(64, (192, 128, 3, False, "rows"), 1300, masked=0),
    _row(64, (128, 176, 2, True, "rows"), 100, masked=0),
    _row(64, (64, 128, 1, False, "rows"), masked=0),
    _row(96, (128, 160, 2, True, "rows"), 256, masked=0),
    _row(96, (128, 128, 2, True, "rows"), 100, masked=0),
    _row(96, (64, 128, 1, False, "rows"), masked=0),
    _row(128, (128, 176, 2, True, "rows"), 1024, masked=0),
    _row(128, (128, 128, 2, True, "rows"), 100, masked=0),
    _row(128, (64, 128, 1, False, "rows"), masked=0),
    _row(192, (128, 112, 2, True, "rows"), 200, masked=0),
    _row(192, (128, 96, 2, True, "rows"), 100, masked=0),
    _row(192, (64, 112, 1, False, "rows"), masked=0),
    _row(256, (128, 80, 2, False, "sections"), 200, masked=0),
    _row(256, (128, 80, 2, False, "rows"), 100, masked=0),
    _row(256, (64, 80, 1, False, "rows"), masked=0),
)
"""Where every block sees all keys."""
_MASKED = (
    _row(64, (192, 128, 3, True, "heads"), 330),
    _row(64, (128, 128, 2, True, "heads"), 200),
    _row(64, (64, 128, 1, False, "heads")),
    _row(96, (128, 128, 2, True, "heads"), 200),
    _row(96, (64, 128, 1, False, "rows")),
    _row(128, (128, 176, 2, True, "rows"), 1500),
    _row(128, (128, 128, 2, True, "heads"), 200),
    _row(128, (64, 128, 1, False, "heads"), 200),
    _row(128, (64, 128, 1, False, "rows")),
    _row(192, (128, 112, 2, False, "sections"), 1500),
    _row(192, (128, 96, 2, True, "heads"), 200),
    _row(192, (64, 112, 1, False, "rows")),
    _row(256, (128, 80, 2, False, "sections"), 1500),
    _row(256, (128, 80, 2, False, "heads"), 200),
    _row(256, (128, 80, 2, False, "rows"), 100),
    _row(256, (64, 80, 1, False, "rows")),
)
"""Where blocks at the end of a sequence see more keys than those at its beginning."""

WGMMA = Table(
    rows={"h200": (*_EVEN, *_MASKED, Row(WgmmaConfig(64, 80, 1, False)))},
    more=(
        WgmmaConfig(192, 128, 3, True),
        WgmmaConfig(128, 128, 2, False),
        WgmmaConfig(64, 64, 1, False, ORDER="heads"),
    ),
)
