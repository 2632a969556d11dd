"""Configurations of the row operators, and which one a problem gets, as measured on an H200."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar, Union

from hexcute_kernels.tables import Row, Table


class Lines(Protocol):
    """A problem of `rows` rows of `columns` elements."""

    @property
    def rows(self) -> int: ...
    @property
    def columns(self) -> int: ...


@dataclass(frozen=True)
class RowConfig:
    """BM whole rows per block, in the registers of THREADS threads. Blocks may come EARLY, before
    the launch ahead has ended."""

    BM: int
    THREADS: int
    EARLY: bool = False

    def blocks(self, problem: Lines) -> int:
        return -(-problem.rows // self.BM)


@dataclass(frozen=True)
class NormConfig(RowConfig):
    """The same of a norm, whose weights are on their way BESIDE the rows, or come when their mean
    and their deviation are known, and registers are free."""

    BESIDE: bool = False


@dataclass(frozen=True)
class LongConfig:
    """BN elements of a row at a time, in the registers of THREADS threads; EARLY as for rows."""

    BN: int
    THREADS: int
    EARLY: bool = False

    def blocks(self, problem: Lines) -> int:
        return problem.rows


C = TypeVar("C", bound=Union[RowConfig, LongConfig])
R = TypeVar("R", bound=RowConfig)


def in_turn(table: Table[C]) -> Table[C]:
    """The same for GPUs whose launches cannot begin before those ahead have ended."""

    def late(config: C) -> C:
        return replace(config, EARLY=False)

    rows = {
        gpu: tuple(replace(row, config=late(row.config)) for row in chosen)
        for gpu, chosen in table.rows.items()
    }
    return Table(rows, more=tuple(late(config) for config in table.more))


def held(make: Callable[[int, int, bool], R], wide: int, more: tuple[R, ...]) -> Table[R]:
    """The table of an operator. `make(bm, threads, short)` gives a configuration, for rows of up to
    6144 elements or for longer ones; `wide` threads hold a row of 6145 to 8192. A thread of shorter
    ones has 12 to 24 elements: with 8 a multiprocessor full of threads asks memory for too little
    at a time, with 32 the registers are another block's."""
    sizes: tuple[tuple[int, int, int], ...] = (
        (1, 512, 8193), (1, wide, 6145), (1, 256, 3073), (1, 128, 1025), (2, 128, 769),
        (4, 128, 257),
    )  # fmt: skip
    rows: list[Row[R]] = [
        Row(make(bm, threads, least <= 3073), least={"columns": least})
        for bm, threads, least in sizes
    ]
    return Table({"h200": (*rows, Row(make(16, 128, True)))}, more)


_SIZES = ((1, 128), (1, 256), (1, 512), (1, 1024), (2, 64), (2, 128), (2, 256), (4, 256))
_ROWS = tuple(RowConfig(bm, t, early) for bm, t in _SIZES for early in (True, False))
_NORMS = tuple(NormConfig(bm, t, True, beside) for bm, t in _SIZES for beside in (True, False))

SOFTMAX = held(lambda bm, threads, short: RowConfig(bm, threads, True), 512, _ROWS)
RMS_NORM = held(lambda bm, threads, short: NormConfig(bm, threads, True, short), 512, _NORMS)
LAYER_NORM = held(lambda bm, threads, short: NormConfig(bm, threads, True), 256, _NORMS)
LONG = Table(
    rows={"h200": (Row(LongConfig(4096, 512, EARLY=True)),)},
    more=(LongConfig(4096, 256, EARLY=True), LongConfig(8192, 1024, EARLY=True)),
)
