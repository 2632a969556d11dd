"""Machine = lanes x (variables, registers) + shared arena + global buffers, under one lane mask.

A machine runs a batch of blocks at once: lane `b * threads + t` is thread t of the batch's block
b. `mask` holds the lanes that execute (None means all); control flow narrows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from hexcute_core.errors import SimulationError, SourceSpan
from hexcute_core.simulator.buffers import GlobalBuffer
from hexcute_core.simulator.counting import Tally
from hexcute_core.simulator.registers import RegisterArray
from hexcute_core.simulator.shared import SharedArena
from hexcute_core.simulator.values import Array, Value

if TYPE_CHECKING:
    from hexcute_core.simulator.asynchronous import PendingCopy

Block = tuple[int, int, int]


class Machine:
    """The state of a batch of blocks; the compiled statements change it."""

    def __init__(
        self,
        blocks: Sequence[Block],
        grid: Block,
        threads: int,
        shared_bytes: int,
        granule: int,
        buffers: Mapping[str, GlobalBuffer],
        scalars: Mapping[str, Value],
        sites: Sequence[SourceSpan | None],
        tally: Tally,
    ) -> None:
        self.blocks = tuple(blocks)
        self.threads = threads
        self.lanes = len(blocks) * threads
        self.all_lanes = np.arange(self.lanes)
        self.block_of = self.all_lanes // threads
        self.warps_a_block = -(-threads // 32)
        self.warp_of = self.block_of * self.warps_a_block + self.all_lanes % threads // 32
        self.warps = len(blocks) * self.warps_a_block
        self.mask: Array | None = None
        self.site = 0
        self.sites = sites
        self.tally = tally
        self.buffers = buffers
        self.registers: dict[str, RegisterArray] = {}
        self.shared = SharedArena(shared_bytes, len(blocks), granule)
        self.epoch = np.zeros(self.lanes, dtype=np.int64)
        self.committed = np.zeros(self.lanes, dtype=np.int64)
        self.pending: list[PendingCopy] = []
        self.vars: dict[str, Value] = dict(scalars) | self._builtins(grid)

    def _builtins(self, grid: Block) -> dict[str, Value]:
        values: dict[str, Value] = {
            "threadIdx.x": (self.all_lanes % self.threads).astype(np.int32),
            "threadIdx.y": 0,
            "threadIdx.z": 0,
            "blockDim.x": self.threads,
            "blockDim.y": 1,
            "blockDim.z": 1,
        }
        for axis, name in enumerate("xyz"):
            values[f"gridDim.{name}"] = grid[axis]
            places = np.array([block[axis] for block in self.blocks], dtype=np.int32)
            same = bool((places == places[0]).all())
            values[f"blockIdx.{name}"] = (
                int(places[0]) if same else places.repeat(self.threads).astype(np.int32)
            )
        return values

    @property
    def span(self) -> SourceSpan | None:
        """Where the running statement was written."""
        return self.sites[self.site]

    def active(self) -> Array:
        """Indices of the lanes that execute."""
        return self.all_lanes if self.mask is None else np.flatnonzero(self.mask)

    def warp_mask(self, what: str) -> Array | None:
        """The mask a warp [warps], for an instruction that whole warps must execute together."""
        if self.threads % 32:
            self.fail(f"{what} needs whole warps, and the block has {self.threads} threads")
        if self.mask is None:
            return None
        rows = self.mask.reshape(self.warps, 32)
        some: Array = np.logical_or.reduce(rows, axis=1)
        torn = some & ~rows.all(axis=1)
        if torn.any():
            lane = int(np.flatnonzero(torn)[0]) * 32
            self.fail(f"{what} inside divergent control flow: only part of a warp reaches it", lane)
        return some

    def count(self, name: str) -> None:
        """Counts one instruction `name` for each warp with an executing lane."""
        warps = self.warps
        if self.mask is not None:
            warps = len(np.unique(self.warp_of[self.mask]))
        self.tally.instructions[name] += warps

    def where(self, lane: int) -> str:
        """`block (x, y, z) thread t` of a lane."""
        block = self.blocks[lane // self.threads]
        return f"block {block} thread {lane % self.threads}"

    def fail(self, message: str, lane: int | None = None, fix: str | None = None) -> NoReturn:
        """Reports the running statement."""
        if lane is not None:
            message = f"{message} [{self.where(lane)}]"
        raise SimulationError(message, self.span, fix)
