"""Configurations of attention, and which one a problem gets, as measured on an H200.

wgmma: 64 queries per block where longer tiles would leave multiprocessors idle; else 128, and 256
of narrow heads. Where there is much to do, exponentials take the maximum of the blocks before, and
groups run one machine code. Under a mask, blocks of all heads run longest first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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
    """BM queries and BN keys per tile, WARPS per block."""

    BM: int
    BN: int
    WARPS: int

    def blocks(self, problem: Blocked) -> int:
        return blocks(problem, self.BM)


@dataclass(frozen=True)
class WgmmaConfig:
    """BM queries and BN keys per tile, STAGES of keys and of values, GROUPS of warps that multiply,
    in turns or not (PINGPONG), ORDER of the blocks; LAZY maxima, and where results are rescaled, or
    maxima by a GUESS; STAYS, one block per multiprocessor takes what there is to do, the longest
    first, with so many stages of QUERIES; EARLY, blocks come before the launch ahead has ended;
    MERGED, one machine code for all groups."""

    BM: int
    BN: int
    GROUPS: int
    PINGPONG: bool
    STAGES: int = 2
    ORDER: str = "rows"
    LAZY: bool = True
    RESCALE: str = "next"
    GUESS: bool = False
    STAYS: bool = False
    QUERIES: int = 1
    EARLY: bool = False
    MERGED: bool = False

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


def _row(width: int, config: WgmmaConfig, fills: int = 0, **most: int) -> Row[WgmmaConfig]:
    """A row for heads of at most this width."""
    return Row(config, most={"width": width, **most}, fills=fills)


def _one(bn: int, order: str = "rows", lazy: bool = False, early: bool = True) -> WgmmaConfig:
    """One group that multiplies, for what fills the GPU only with its 64 queries per block."""
    return WgmmaConfig(64, bn, 1, False, ORDER=order, LAZY=lazy, RESCALE="after", EARLY=early)


def _guess(
    bm: int, bn: int, groups: int, stages: int, order: str = "rows", merged: bool = True
) -> WgmmaConfig:
    """Groups in turns whose exponentials take the maximum of the blocks before."""
    return WgmmaConfig(bm, bn, groups, True, stages, order, GUESS=True, EARLY=True, MERGED=merged)


_EVEN = (
    _row(64, _guess(256, 64, 4, 4, merged=False), 204, masked=0),
    _row(64, _guess(256, 64, 4, 4), 102, masked=0),
    _row(64, WgmmaConfig(128, 128, 2, True, 3, EARLY=True, MERGED=True), 102, masked=0),
    _row(64, _one(128), masked=0),
    _row(96, WgmmaConfig(128, 128, 2, True), 100, masked=0),
    _row(96, _one(128, early=False), masked=0),
    _row(128, _guess(192, 80, 3, 3), 1100, masked=0),
    _row(128, replace(_guess(128, 128, 2, 2), STAYS=True, QUERIES=2), 204, masked=0),
    _row(128, WgmmaConfig(128, 128, 2, True, EARLY=True), 102, masked=0),
    _row(128, _one(128), masked=0),
    _row(192, WgmmaConfig(128, 112, 2, True), 200, masked=0),
    _row(192, WgmmaConfig(128, 96, 2, True), 100, masked=0),
    _row(192, _one(112, early=False), masked=0),
    _row(256, _guess(128, 64, 2, 2), 100, masked=0),
    _row(256, _one(80), masked=0),
)
"""Where every block sees all keys."""
_MASKED = (
    _row(64, _guess(256, 64, 4, 4, "heads"), 204),
    _row(64, WgmmaConfig(128, 128, 2, True, 3, "heads", EARLY=True, MERGED=True), 204),
    _row(64, _one(128, "heads", lazy=True), 204),
    _row(64, WgmmaConfig(64, 128, 1, False, ORDER="heads", GUESS=True, EARLY=True)),
    _row(96, WgmmaConfig(128, 128, 2, True, ORDER="heads"), 200),
    _row(96, _one(128, "heads", lazy=True, early=False)),
    _row(128, _guess(192, 80, 3, 3, "heads"), 1100),
    _row(128, _guess(128, 128, 2, 2, "heads"), 204),
    _row(128, _one(128, "heads", lazy=True)),
    _row(192, WgmmaConfig(128, 96, 2, True, ORDER="heads"), 200),
    _row(192, _one(112, "heads", lazy=True, early=False)),
    _row(256, WgmmaConfig(128, 80, 2, True, ORDER="heads", EARLY=True, MERGED=True), 204),
    _row(256, _one(80, "heads", lazy=True)),
)
"""Where blocks at the end of a sequence see more keys than those at its beginning."""


def _packed(width: int, config: WgmmaConfig, fills: int = 0, above: int = 0) -> Row[WgmmaConfig]:
    """A row for packed sequences of heads wider than `above` and of at most this width."""
    wide = {"width": above + 1} if above else {}
    return Row(config, most={"width": width}, least={"sequences": 0, **wide}, fills=fills)


_PACKED = (
    _packed(64, WgmmaConfig(192, 128, 3, True, 3, "heads"), 1300),
    _packed(64, WgmmaConfig(128, 128, 2, True, 3, "heads"), 200),
    _packed(64, _one(128, "heads", lazy=True, early=False)),
    _packed(128, WgmmaConfig(128, 128, 2, True, ORDER="heads"), 200),
    _packed(128, _one(128, "heads", lazy=True, early=False)),
    # Numbers of rows take memory that wider tiles would leave.
    _packed(256, WgmmaConfig(128, 64, 2, False, ORDER="heads"), 100, above=192),
    _packed(256, _one(80, "heads", lazy=True, early=False), above=192),
)
"""Packed sequences."""

WGMMA = Table(
    rows={"h200": (*_PACKED, *_EVEN, *_MASKED, Row(WgmmaConfig(64, 80, 1, False)))},
    more=(
        _guess(192, 128, 3, 3),
        _guess(192, 64, 3, 4),
        _guess(128, 128, 2, 3),
        WgmmaConfig(128, 80, 2, False, RESCALE="after"),
        WgmmaConfig(128, 128, 2, False),
        WgmmaConfig(64, 64, 1, False, ORDER="heads"),
        WgmmaConfig(192, 128, 3, True, 3, STAYS=True),
    ),
)
