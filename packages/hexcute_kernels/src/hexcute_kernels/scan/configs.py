"""Configurations of the selective scan, and which one a problem gets, as measured on an H200."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from hexcute_kernels.tables import Row, Table


class Channels(Protocol):
    """A problem of b sequences of d channels."""

    @property
    def b(self) -> int: ...
    @property
    def d(self) -> int: ...


@dataclass(frozen=True)
class ScanConfig:
    """BD channels a block, a thread each; chunks of BL steps in registers, stretches of BT steps of
    B and C in shared memory."""

    BD: int
    BL: int = 8
    BT: int = 64

    def blocks(self, problem: Channels) -> int:
        return -(-problem.d // self.BD) * problem.b


SCAN = Table(
    rows={
        "h200": (
            Row(ScanConfig(64, 16), most={"groups": 1}, fills=500),
            Row(ScanConfig(32)),
        ),
    },
    more=(ScanConfig(64), ScanConfig(128), ScanConfig(32, 8, 128)),
)
