"""Configurations of decoding, and into how many splits they cut the keys of a problem.

    splits = the blocks that fill a GPU / those of one split, of at least a tile of keys each
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from hexcute_kernels.attention.splits import CHUNK
from hexcute_kernels.tables import Row, Table

MOST = 256
"""Splits at most: they are all read again, one after the other."""
LITTLE = 8
"""Tiles of keys that one block may read alone, however long other sequences are."""

WIDE_PARTS, FEW_ROWS = 4, 512
"""Blocks for each of at most so many rows of wide results."""


class Cached(Protocol):
    """A problem of b sequences of `columns` tiles of queries' heads each, against sk keys, of which
    a tile sees `seen`; `ragged`, sequences have lengths of their own."""

    @property
    def b(self) -> int: ...
    @property
    def sk(self) -> int: ...
    @property
    def seen(self) -> int: ...
    @property
    def columns(self) -> int: ...
    @property
    def ragged(self) -> bool: ...


@dataclass(frozen=True)
class DecodeConfig:
    """BN keys per tile, STAGES of them in shared memory; COUNT lengths at a time."""

    BN: int
    STAGES: int
    COUNT: int


@dataclass(frozen=True)
class SplitConfig:
    """BN keys per tile, STAGES of them in shared memory; BLOCKS that fill a GPU. EARLY, the launch
    behind may begin at once, where launches may: its blocks stand ready, and where they have room
    beside these they come to lie unevenly, which long sequences feel. PAIRED, two blocks that read
    the same latent keys bring them together, where there are such. AHEAD, a block asks L2 for its
    first keys before the launch ahead has ended, where it knows without memory which they are."""

    BN: int
    STAGES: int
    BLOCKS: int
    EARLY: bool = False
    PAIRED: bool = False
    AHEAD: bool = False

    def blocks(self, problem: Cached) -> int:
        return problem.columns * self.places(problem)

    def alone(self, problem: Cached) -> bool:
        """Whether no sequence is split."""
        if problem.ragged and problem.b > 1 and self._tiles(problem) > LITTLE:
            return False
        return self._wanted(problem) <= problem.b

    def places(self, problem: Cached) -> int:
        """The blocks of a column: of sequences of lengths of their own as many as are wanted and
        one more each, else splits of each."""
        wanted = self._wanted(problem)
        if self.alone(problem):
            return problem.b
        return wanted + problem.b if problem.ragged else wanted

    def kernel(self, problem: Cached) -> DecodeConfig:
        """What of it are the kernel's constants."""
        return DecodeConfig(self.BN, self.STAGES, min(max(_power(problem.b), 32), CHUNK))

    def _wanted(self, problem: Cached) -> int:
        """Blocks that share the keys of one column of all sequences, where it is to be split."""
        tiles, b = self._tiles(problem), max(problem.b, 1)
        wanted = self.BLOCKS // max(problem.columns, 1)
        if problem.ragged:
            return max(1, min(wanted, MOST * b, tiles * b))
        share = -(-tiles // max(1, min(wanted // b, MOST)))
        return b * max(1, -(-tiles // max(1, share)))

    def _tiles(self, problem: Cached) -> int:
        return -(-problem.seen // self.BN)


def _power(number: int) -> int:
    """The least power of two that is no less."""
    return 1 << max(number - 1, 0).bit_length()


@dataclass(frozen=True)
class CombineConfig:
    """CHUNK splits at a time, by WARPS warps; PARTS blocks share the columns of a row."""

    CHUNK: int
    WARPS: int
    PARTS: int


def combining(splits: int, width: int, rows: int, uncut: bool = False) -> CombineConfig:
    """How results of so many splits, columns and rows are combined: all splits at a time, where a
    block's registers have room. Few wide rows are shared, as they alone would not fill a GPU.
    `uncut`: most sequences are, and leave blocks nothing to do, which are small."""
    if uncut:
        return CombineConfig(8, 1, 1)
    parts = WIDE_PARTS if width > 256 and rows <= FEW_ROWS else 1
    width //= parts
    chunk = min(max(_power(splits), 4), 64 if width <= 256 else 16)
    return CombineConfig(chunk, 1 if chunk <= 8 and width <= 256 else 4, parts)


class Appended(Protocol):
    """b sequences of sq tokens of h heads of queries and hk of keys and of values."""

    @property
    def b(self) -> int: ...
    @property
    def sq(self) -> int: ...
    @property
    def h(self) -> int: ...
    @property
    def hk(self) -> int: ...


@dataclass(frozen=True)
class AppendConfig:
    """HEADS heads of a token by WARPS warps."""

    HEADS: int
    WARPS: int

    def blocks(self, problem: Appended) -> int:
        parts = -(-problem.h // self.HEADS) + 2 * -(-problem.hk // self.HEADS)
        return problem.b * problem.sq * parts


APPEND = Table(
    rows={"h200": (Row(AppendConfig(8, 4)),)},
    more=(AppendConfig(4, 2), AppendConfig(8, 2), AppendConfig(16, 4)),
)

LATENT = Table(
    rows={
        "h200": (
            Row(SplitConfig(32, 2, 264), most={"high": 16}, least={"b": 8}),
            Row(SplitConfig(32, 3, 66), most={"high": 16, "sk": 8192}),
            Row(SplitConfig(32, 3, 132)),
        ),
    },
    more=(
        SplitConfig(32, 2, 132),
        SplitConfig(32, 3, 264),
        SplitConfig(32, 2, 528),
    ),
)

MANY_LATENT = Table(
    rows={
        "h200": (
            Row(SplitConfig(64, 2, 66), most={"b": 2, "sk": 8192}),
            Row(SplitConfig(64, 2, 132, True)),
        ),
    },
    more=(
        SplitConfig(64, 2, 132),
        SplitConfig(64, 2, 132, True, True),
        SplitConfig(64, 2, 264, True),
    ),
)

SPLIT = Table(
    rows={
        "a100": (
            Row(SplitConfig(64, 3, 324), most={"d": 64}),
            Row(SplitConfig(32, 3, 324), most={"d": 128}),
            Row(SplitConfig(16, 3, 324)),
        ),
        "h200": (
            Row(
                SplitConfig(32, 3, 396),
                most={"d": 128, "b": 4},
                least={"b": 2},
                equal={"ragged": "True"},
            ),
            Row(
                SplitConfig(32, 3, 1056),
                most={"d": 128, "b": 64, "columns": 8},
                least={"b": 8},
                equal={"ragged": "True"},
            ),
            Row(
                SplitConfig(32, 2, 3168),
                most={"d": 128, "b": 64},
                least={"b": 16, "columns": 32},
                equal={"ragged": "True"},
            ),
            Row(
                SplitConfig(32, 2, 4224),
                most={"d": 128},
                least={"b": 65},
                equal={"ragged": "True"},
            ),
            Row(SplitConfig(32, 2, 2112), {"d": 128}, least={"b": 2}, equal={"ragged": "True"}),
            Row(
                SplitConfig(64, 3, 264, AHEAD=True),
                most={"d": 64, "sk": 16384, "tiles": 40},
                least={"tiles": 20},
                equal={"ragged": "False"},
            ),
            Row(
                SplitConfig(64, 3, 264, AHEAD=True),
                most={"d": 64, "sk": 16384, "tiles": 19},
                least={"tiles": 12, "sk": 4096},
                equal={"ragged": "False"},
            ),
            Row(
                SplitConfig(32, 3, 528, AHEAD=True),
                most={"d": 64, "sk": 4095, "tiles": 19},
                least={"tiles": 12},
                equal={"ragged": "False"},
            ),
            Row(
                SplitConfig(64, 3, 264),
                most={"d": 64, "tiles": 40},
                least={"tiles": 12, "sk": 65536},
                equal={"ragged": "False"},
            ),
            Row(SplitConfig(32, 3, 528), most={"d": 64}),
            Row(SplitConfig(32, 3, 528), most={"d": 128}, least={"tiles": 100}),
            Row(
                SplitConfig(32, 3, 264, AHEAD=True),
                most={"d": 128, "sk": 4096, "tiles": 40},
                least={"tiles": 24},
                equal={"ragged": "False"},
            ),
            Row(
                SplitConfig(32, 3, 528, True, AHEAD=True),
                most={"d": 128, "sk": 4096, "tiles": 23},
                least={"tiles": 12, "sk": 2048},
                equal={"ragged": "False"},
            ),
            Row(
                SplitConfig(32, 3, 528, True),
                most={"d": 128, "sk": 4096, "tiles": 23},
                least={"tiles": 12},
                equal={"ragged": "False"},
            ),
            Row(
                SplitConfig(32, 3, 528),
                most={"d": 128, "tiles": 24, "sk": 65535},
                least={"tiles": 12},
            ),
            Row(SplitConfig(32, 3, 264, AHEAD=True), most={"d": 128}),
            Row(SplitConfig(16, 3, 528)),
        ),
    },
    more=(
        SplitConfig(32, 6, 264),
        SplitConfig(32, 6, 264, True),
        SplitConfig(32, 3, 324),
        SplitConfig(16, 6, 528),
        SplitConfig(64, 2, 396),
        SplitConfig(64, 2, 792),
        SplitConfig(32, 2, 792),
        SplitConfig(32, 2, 528),
        SplitConfig(32, 4, 396),
        SplitConfig(32, 4, 264),
        SplitConfig(64, 3, 528),
        SplitConfig(16, 4, 792),
        SplitConfig(16, 5, 528),
    ),
)
