"""LaneState = variables on a batch of lanes under one mask: what scalar code needs to run.

`mask` holds the lanes that execute (None means all); control flow narrows it. The lanes are the
threads `part` of each of `blocks`, block after block; lane i is thread `thread_of[i]` of block
`block_of[i]`, and `who[i]` is its number in the whole launch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

import numpy as np

from hexcute_core.errors import SimulationError, SourceSpan
from hexcute_core.simulator.lanes.values import Array, Value

Block = tuple[int, int, int]
WARP = 32


def padded(threads: int) -> int:
    """Threads of a block counted in whole warps."""
    return -(-threads // WARP) * WARP


class LaneState:
    """Variables of every lane; subclasses say what an array element and a count are.

    `first` is the number in the launch of the first block; `part` must start at a whole warp.
    """

    def __init__(
        self,
        values: Mapping[str, Value],
        threads: int,
        blocks: Sequence[Block],
        part: range | None = None,
        first: int = 0,
    ) -> None:
        chosen = range(threads) if part is None else part
        width = len(chosen)
        self.vars: dict[str, Value] = dict(values)
        self.blocks = tuple(blocks)
        self.threads = threads
        self.lanes = len(blocks) * width
        self.all_lanes = np.arange(self.lanes)
        self.block_of = self.all_lanes // width
        self.thread_of = self.all_lanes % width + chosen.start
        self.who = (self.block_of + first) * padded(threads) + self.thread_of
        warps_a_block = -(-width // WARP)
        self.warp_of = self.block_of * warps_a_block + self.all_lanes % width // WARP
        self.warps = len(blocks) * warps_a_block
        self.mask: Array | None = None

    @property
    def span(self) -> SourceSpan | None:
        """Where the running statement was written."""
        return None

    def element(self, array: str, indices: tuple[Value, ...]) -> Value:
        """Element `indices` of `array` on every lane."""
        self.fail(f"{array} has no elements here")

    def count(self, name: str) -> None:
        """One instruction `name` ran."""

    def count_special(self, name: str, amount: int) -> None:
        """`amount` operations of the special-function unit ran on every executing lane."""

    def active(self) -> Array:
        """Indices of the lanes that execute."""
        return self.all_lanes if self.mask is None else np.flatnonzero(self.mask)

    def where(self, lane: int) -> str:
        """`block (x, y, z) thread t` of a lane."""
        return f"block {self.blocks[int(self.block_of[lane])]} thread {int(self.thread_of[lane])}"

    def fail(self, message: str, lane: int | None = None, fix: str | None = None) -> NoReturn:
        """Reports the running statement, which cannot go on."""
        if lane is not None:
            message = f"{message} [{self.where(lane)}]"
        raise SimulationError(message, self.span, fix)


def builtins(blocks: Sequence[Block], grid: Block, threads: int, part: range) -> dict[str, Value]:
    """threadIdx, blockIdx, blockDim and gridDim of threads `part` of a batch of blocks."""
    values: dict[str, Value] = {
        "threadIdx.x": np.tile(np.arange(part.start, part.stop, dtype=np.int32), len(blocks)),
        "threadIdx.y": 0,
        "threadIdx.z": 0,
        "blockDim.x": threads,
        "blockDim.y": 1,
        "blockDim.z": 1,
    }
    for axis, name in enumerate("xyz"):
        values[f"gridDim.{name}"] = grid[axis]
        places = np.array([block[axis] for block in blocks], dtype=np.int32)
        same = bool((places == places[0]).all())
        values[f"blockIdx.{name}"] = int(places[0]) if same else places.repeat(len(part))
    return values
