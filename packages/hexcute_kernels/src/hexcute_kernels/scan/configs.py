"""Configurations of the selective scan, and which one a problem gets, as measured on an H200."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from hexcute_kernels.tables import Row, Table


class Channels(Protocol):
    """A problem of sequences of d channels in groups, with so many states each."""

    @property
    def sequences(self) -> int: ...
    @property
    def d(self) -> int: ...
    @property
    def groups(self) -> int: ...
    @property
    def states(self) -> int: ...


class Sequences(Protocol):
    """A problem of sequences of d channels, `length` steps."""

    @property
    def sequences(self) -> int: ...
    @property
    def d(self) -> int: ...
    @property
    def length(self) -> int: ...


class Heads(Protocol):
    """A problem of `batch` sequences of heads of this width."""

    @property
    def batch(self) -> int: ...
    @property
    def heads(self) -> int: ...
    @property
    def width(self) -> int: ...


@dataclass(frozen=True)
class ScanConfig:
    """BD channels per block, or as many more as make a warp, and tiles of BT steps; a thread walks
    OWN channels with up to EACH states of them, and reads dt for RUN steps at a time. WARPS are to
    fit a multiprocessor, which bounds the registers of a thread; 0 does not."""

    BD: int
    BT: int = 16
    EACH: int = 16
    OWN: int = 2
    RUN: int = 4
    WARPS: int = 0

    def blocks(self, problem: Channels) -> int:
        return -(-problem.d // problem.groups // self.BD) * problem.groups * problem.sequences


@dataclass(frozen=True)
class HelpedConfig:
    """Tiles of BT steps; 128 threads walk OWN channels each with up to EACH states of them, and
    read dt for RUN steps at a time. So many BLOCKS are to fit a multiprocessor."""

    BT: int
    EACH: int
    OWN: int
    RUN: int = 4
    BLOCKS: int = 1

    def blocks(self, problem: Channels) -> int:
        channels = 128 * min(self.EACH, problem.states) // problem.states * self.OWN
        return -(-problem.d // problem.groups // channels) * problem.groups * problem.sequences


@dataclass(frozen=True)
class UpdateConfig:
    """BD channels per block of THREADS threads."""

    BD: int
    THREADS: int = 128

    def blocks(self, problem: Channels) -> int:
        return -(-problem.d // problem.groups // self.BD) * problem.groups * problem.sequences


@dataclass(frozen=True)
class ChunkConfig:
    """BP rows of a head's states per block, 16 a warp; chunks of BT steps; products with PART
    states, or what divides all of them, at a time."""

    BP: int
    BT: int = 64
    PART: int = 64

    def blocks(self, problem: Heads) -> int:
        return -(-problem.width // self.BP) * problem.heads * problem.batch


@dataclass(frozen=True)
class ConvolutionConfig:
    """BD channels and BT steps per block of THREADS threads."""

    BD: int
    BT: int
    THREADS: int = 128

    def blocks(self, problem: Sequences) -> int:
        return -(-problem.d // self.BD) * -(-problem.length // self.BT) * problem.sequences


@dataclass(frozen=True)
class StepConfig:
    """BD channels per block, a thread each."""

    BD: int

    def blocks(self, problem: Sequences) -> int:
        return -(-problem.d // self.BD) * problem.sequences


SCAN = Table(
    rows={
        "h200": (
            Row(ScanConfig(32, 16, 16, 1, 4, 16), fills=4096),
            Row(ScanConfig(32, 16, 8), fills=768),
            Row(ScanConfig(16, 32, 4)),
        ),
    },
    more=(
        ScanConfig(64),
        ScanConfig(64, 16, 8),
        ScanConfig(16, 32, 2),
        ScanConfig(16, 16, 4, 1, 8),
    ),
)
HELPED = Table(
    rows={
        "h200": (
            Row(HelpedConfig(16, 8, 2, 8, 2), most={"states": 16}, fills=200),
            Row(HelpedConfig(32, 8, 1, 4, 2), fills=200),
            Row(HelpedConfig(32, 8, 1, 8), most={"states": 16}),
            Row(HelpedConfig(32, 4, 1, 8)),
        ),
    },
    more=(HelpedConfig(16, 16, 1, 8, 2), HelpedConfig(16, 8, 1, 8, 3), HelpedConfig(32, 4, 2, 8)),
)
UPDATE = Table(
    rows={"h200": (Row(UpdateConfig(32)),)},
    more=(UpdateConfig(16, 64), UpdateConfig(64), UpdateConfig(64, 64)),
)
# Not measured yet: chosen such that nothing spills, all fit the shared memory of any GPU, and two
# or three blocks that of an H200's multiprocessor.
CHUNKED = Table(
    rows={
        "h200": (
            Row(ChunkConfig(32), most={"width": 32, "states": 64}),
            Row(ChunkConfig(64), most={"states": 64}),
            Row(ChunkConfig(64, 32)),
        ),
    },
    more=(ChunkConfig(32, 32), ChunkConfig(64, 64, 32)),
)
CONVOLUTION = Table(
    rows={"h200": (Row(ConvolutionConfig(32, 56)),)}, more=(ConvolutionConfig(64, 56),)
)
CONVOLUTION_STEP = Table(rows={"h200": (Row(StepConfig(128)),)}, more=(StepConfig(64),))
