"""Configurations of attention, and which one a problem gets, as measured on an H200.

wgmma: 64 queries per block where longer tiles would leave multiprocessors idle; else 128, and 192
or 256 where there is much to do. Maxima are guessed where blocks have many keys: those of few have
no time to look again. Under a mask, blocks of all heads run longest first; of packed sequences all
rows of a head of one, which read the same keys. Three and four groups skip what a mask hides from
one of them. mma.sync: 128 queries where these are enough for two blocks per multiprocessor.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
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
    """BM queries and BN keys per tile, WARPS per block; queries HELD in registers, or read again
    from shared memory for every tile of keys."""

    BM: int
    BN: int
    WARPS: int
    HELD: bool = True

    def blocks(self, problem: Blocked) -> int:
        return blocks(problem, self.BM)


@dataclass(frozen=True)
class WgmmaConfig:
    """BM queries and BN keys per tile, GROUPS of warps that multiply, STAGES of keys and of values,
    ORDER of the blocks; maxima by a GUESS; EARLY, blocks come before the launch ahead has ended,
    and have L2 load what they need first AHEAD of that; groups SKIP keys that a mask hides from
    all their queries."""

    BM: int
    BN: int
    GROUPS: int
    STAGES: int = 2
    ORDER: str = "rows"
    GUESS: bool = False
    EARLY: bool = False
    AHEAD: bool = False
    SKIP: bool = False

    def blocks(self, problem: Blocked) -> int:
        return blocks(problem, self.BM)


_SMALL = (Row(MmaConfig(64, 64, 4), most={"width": 128}), Row(MmaConfig(64, 32, 4)))
MMA = Table(
    rows={
        "a100": (
            Row(MmaConfig(128, 64, 4), most={"width": 64}, fills=64),
            Row(MmaConfig(128, 32, 4, HELD=False), most={"width": 128}, fills=64),
            *_SMALL,
        ),
        "h200": (
            Row(MmaConfig(128, 128, 4, HELD=False), most={"width": 64}, fills=102),
            Row(MmaConfig(64, 128, 4), most={"width": 64}),
            Row(MmaConfig(128, 64, 4, HELD=False), most={"width": 128}, fills=204),
            *_SMALL,
        ),
    },
)


def _row(
    order: str, even: bool, width: int, fills: int, bm: int, bn: int, groups: int, stages: int = 2,
    guess: bool = False, early: bool = True, ahead: bool = False, keys: int = 0, skip: bool = False,
) -> Row[WgmmaConfig]:  # fmt: skip
    """A row for heads of at most this width and at least so many keys; an `even` one where every
    block sees all keys."""
    config = WgmmaConfig(bm, bn, groups, stages, order, guess, early, ahead, skip)
    most = {"width": width, **({"masked": 0} if even else {})}
    return Row(config, most=most, least={"sk": keys} if keys else {}, fills=fills)


_even = partial(_row, "rows", True)
# Blocks at the end of a sequence see more keys than those at its beginning.
_masked = partial(_row, "heads", False)


def _packed(
    width: int, fills: int, bm: int, bn: int, groups: int, stages: int = 2,
    many: bool = False, above: int = 0, even: bool = False,
) -> Row[WgmmaConfig]:  # fmt: skip
    """A row for packed sequences of heads wider than `above` and of at most this width: `many`
    blocks, whose rows of a head run together, or few; an `even` one where no mask is."""
    order, skip = "rows" if many else "heads", many and groups > 2
    config = WgmmaConfig(bm, bn, groups, stages, order, many, many, SKIP=skip)
    least = {"sequences": 0, **({"width": above + 1} if above else {})}
    equal = {"right": "None", "left": "None"} if even else {}
    return Row(config, most={"width": width}, least=least, equal=equal, fills=fills)


_EVEN = (
    _even(64, 102, 256, 64, 4, 4, guess=True),
    _even(64, 102, 128, 128, 2, 3, ahead=True),
    _even(64, 0, 64, 128, 1, ahead=True),
    _even(96, 100, 128, 128, 2, early=False),
    _even(96, 0, 64, 128, 1, early=False),
    _even(128, 1100, 192, 80, 3, 3, guess=True),
    _even(128, 204, 128, 128, 2, 3, guess=True, keys=2048),
    _even(128, 102, 128, 128, 2),
    _even(128, 0, 64, 128, 1),
    _even(192, 200, 128, 112, 2, early=False),
    _even(192, 100, 128, 96, 2, early=False),
    _even(192, 0, 64, 112, 1, early=False),
    _even(256, 1100, 128, 80, 2, guess=True),
    _even(256, 204, 128, 64, 2, guess=True),
    _even(256, 100, 128, 80, 2),
    _even(256, 0, 64, 80, 1),
)
_MASKED = (
    _masked(64, 204, 256, 64, 4, 4, guess=True, skip=True),
    _masked(64, 0, 64, 128, 1, ahead=True),
    _masked(96, 200, 128, 128, 2, early=False),
    _masked(96, 0, 64, 128, 1, early=False),
    _masked(128, 600, 192, 80, 3, 3, guess=True, skip=True),
    _masked(128, 204, 128, 128, 2, 3, guess=True, keys=2048),
    _masked(128, 204, 128, 128, 2, ahead=True),
    _masked(128, 102, 128, 128, 2, ahead=True),
    _masked(128, 0, 64, 64, 1, 3, ahead=True),
    _masked(192, 200, 128, 96, 2, early=False),
    _masked(192, 0, 64, 112, 1, early=False),
    _masked(256, 1100, 128, 80, 2, guess=True),
    _masked(256, 204, 128, 64, 2, guess=True),
    _masked(256, 0, 64, 80, 1),
)
_PACKED = (
    _packed(64, 1300, 256, 64, 4, 4, many=True),
    _packed(64, 200, 128, 128, 2, 3),
    _packed(64, 0, 64, 128, 1),
    _packed(128, 1300, 192, 80, 3, 3, many=True),
    _packed(128, 200, 128, 128, 2),
    _packed(128, 0, 64, 128, 1),
    _packed(256, 1100, 128, 80, 2, many=True, above=192, even=True),
    _packed(256, 100, 128, 64, 2, many=True, above=192),
    _packed(256, 0, 64, 64, 1, above=192),
)

WGMMA = Table(
    rows={"h200": (*_PACKED, *_EVEN, *_MASKED, Row(WgmmaConfig(64, 80, 1)))},
    more=(
        WgmmaConfig(192, 64, 3, 4, GUESS=True, EARLY=True),
        WgmmaConfig(128, 128, 2, 2, GUESS=True, EARLY=True),
        WgmmaConfig(128, 64, 2, 4, EARLY=True),
        WgmmaConfig(128, 80, 2, 3, GUESS=True),
        WgmmaConfig(64, 64, 1, 3, EARLY=True),
        WgmmaConfig(64, 64, 1, ORDER="heads"),
    ),
)
