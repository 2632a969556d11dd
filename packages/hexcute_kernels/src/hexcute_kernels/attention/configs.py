"""Configurations of attention, and which one a problem gets, as measured on an H200.

wgmma: 64 queries a block where longer tiles would leave multiprocessors idle; else as many keys
as registers hold beside the result, which falls with the heads' width. Under a mask, blocks of all
heads run longest first; where their keys and values exceed L2, in sections that fit.
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
    in turns or not (PINGPONG), ORDER of the blocks."""

    BM: int
    BN: int
    GROUPS: int
    PINGPONG: bool
    STAGES: int = 2
    ORDER: str = "rows"

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


def _rows(order: str, **most: int) -> tuple[Row[WgmmaConfig], ...]:
    """The rows of one order of blocks: by the wider of the heads' widths."""

    def row(width: int, config: tuple[int, int, int, bool], fills: int = 0) -> Row[WgmmaConfig]:
        limits = {"width": width, **most}
        return Row(WgmmaConfig(*config, ORDER=order), most=limits, fills=fills)

    return (
        row(64, (192, 128, 3, True), fills=132),
        row(64, (64, 128, 1, False)),
        row(96, (128, 128, 2, True), fills=100),
        row(96, (64, 128, 1, False)),
        row(128, (128, 176, 2, True), fills=1024),
        row(128, (128, 128, 2, True), fills=100),
        row(128, (64, 128, 1, False)),
        row(192, (128, 112, 2, True), fills=100),
        row(192, (64, 112, 1, False)),
        row(256, (128, 80, 2, False), fills=100),
        row(256, (64, 80, 1, False)),
    )


WGMMA = Table(
    rows={
        "h200": (
            *_rows("rows", masked=0),
            *_rows("heads", keys_bytes=32 << 20),
            *_rows("sections"),
            Row(WgmmaConfig(64, 64, 1, False)),
        ),
    },
    more=(
        WgmmaConfig(192, 128, 3, False),
        WgmmaConfig(128, 192, 2, True),
        WgmmaConfig(128, 160, 2, True),
        WgmmaConfig(128, 176, 2, False),
        WgmmaConfig(128, 128, 2, False),
        WgmmaConfig(64, 64, 1, False, ORDER="heads"),
    ),
)
