"""Configurations of the row operators, and which one a problem gets, as measured on an H200."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from hexcute_kernels.tables import Row, Table


class Lines(Protocol):
    """A problem of `rows` rows of `columns` elements."""

    @property
    def rows(self) -> int: ...
    @property
    def columns(self) -> int: ...


@dataclass(frozen=True)
class RowConfig:
    """BM whole rows per block, in the registers of THREADS threads."""

    BM: int
    THREADS: int

    def blocks(self, problem: Lines) -> int:
        return -(-problem.rows // self.BM)


@dataclass(frozen=True)
class LongConfig:
    """BN elements of a row at a time, in the registers of THREADS threads."""

    BN: int
    THREADS: int

    def blocks(self, problem: Lines) -> int:
        return problem.rows


HELD = Table(
    rows={
        "h200": (
            Row(RowConfig(1, 512), least={"columns": 8193}),
            Row(RowConfig(1, 256), least={"columns": 4097}),
            Row(RowConfig(1, 128), least={"columns": 1025}),
            Row(RowConfig(4, 128), least={"columns": 257}),
            Row(RowConfig(16, 128)),
        ),
    },
)
LONG = Table(
    rows={"h200": (Row(LongConfig(4096, 512)),)},
    more=(LongConfig(4096, 256), LongConfig(8192, 1024)),
)
