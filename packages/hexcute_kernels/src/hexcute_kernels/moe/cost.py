"""How long products with weights of four bits take by their tiles, from sizes alone.

    dense    rounds of tiles * blocks of k * a block's time, and what adding up parts of k takes
    joined   the same of parts that are added up in the launch, of one round that is nearly full
    layer    tiles that an expert's rows fill, on average * a block's time

A block of k is 128 numbers. Its time depends on a tile's rows, and was measured on an H200: few
rows wait for their weights to be unpacked, many for the Tensor Core.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Protocol

MULTIPROCESSORS = 132
ROUNDED = {
    256: ((16, 0.72), (32, 0.82), (64, 1.0), (128, 1.45), (136, 1.54), (144, 1.63), (152, 1.69)),
    128: ((16, 0.44), (32, 0.48), (64, 0.59), (128, 0.88)),
}
"""By columns of a tile, its rows and the microseconds that a block of k takes, weights rounded."""
EXACT = ((16, 0.77), (112, 1.36), (128, 1.51), (136, 1.6), (144, 1.69), (152, 1.76))
"""The same of 256 columns where no weight is rounded."""
SUM_US, SUM_BYTES = 2.5, 3e6
"""What adding up parts of k takes at least, and how many bytes of them a microsecond moves."""
EXCHANGED = 8192.0
"""Numbers of a tile that blocks of a cluster, which share k, add up in a microsecond."""
NEARLY, DEEP = 5 / 6, 4096
"""What a product is measured for whose blocks share k: the part of all multiprocessors that it
keeps busy at least, and the least k."""
SPREAD = 1.2
"""Of an expert's rows about their average, against that of a router which has no favourites."""


class Product(Protocol):
    """m x n results, each a sum over k."""

    @property
    def m(self) -> int: ...
    @property
    def n(self) -> int: ...
    @property
    def k(self) -> int: ...


def between(points: Sequence[tuple[int, float]], at: int) -> float:
    """The value at a number between given ones, or that of the nearest."""
    for (low, first), (high, last) in pairwise(points):
        if at <= high:
            return first + (last - first) * max(at - low, 0) / (high - low)
    return points[-1][1]


def dense_us(p: Product, rows: int, columns: int, parts: int) -> float:
    """A product by tiles of rows x columns, of `parts` parts of k."""
    tiles = -(-p.m // rows) * -(-p.n // columns) * parts
    blocks = -(-p.k // (128 * parts))
    rounds = -(-tiles // MULTIPROCESSORS)
    summed = SUM_US + 8 * p.m * p.n * parts / SUM_BYTES if parts > 1 else 0.0
    return rounds * blocks * between(ROUNDED[columns], rows) + summed


def joined_us(p: Product, rows: int, columns: int, parts: int) -> float:
    """The same in one launch of a single round, by clusters of `parts` blocks; infinite where it
    was not measured, so that it is not chosen there."""
    tiles = -(-p.m // rows) * -(-p.n // columns) * parts
    if not NEARLY * MULTIPROCESSORS <= tiles <= MULTIPROCESSORS or p.k < DEEP:
        return math.inf
    blocks = -(-p.k // (128 * parts))
    return blocks * between(ROUNDED[columns], rows) + rows * columns / EXCHANGED


def tiles_of(share: int, rows: int) -> float:
    """How many tiles of so many rows an expert of `share` rows on average fills, on average: the
    number of tiles before whose end its last row may lie."""
    spread = SPREAD * math.sqrt(2 * share)
    return sum(_above((j * rows + 0.5 - share) / spread) for j in _until(share, rows))


def _above(x: float) -> float:
    return 0.5 * math.erfc(x)


def _until(share: int, rows: int) -> Iterable[int]:
    """Tiles that so many rows may reach."""
    return range(int(share + 8 * math.sqrt(share) + 8) // rows + 1)


def expert_us(share: int, rows: int) -> float:
    """A block of k of 256 columns, for all tiles of an expert."""
    return tiles_of(share, rows) * between(EXACT, rows)
