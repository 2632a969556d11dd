"""Machine = lanes x (variables, registers) + shared arena + global buffers.

A machine runs a batch of blocks at once; the compiled statements change it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hexcute_core.errors import SourceSpan
from hexcute_core.simulator.buffers import GlobalBuffer
from hexcute_core.simulator.counting import Tally
from hexcute_core.simulator.lanes import Block, LaneState, builtins
from hexcute_core.simulator.registers import RegisterArray, read_element
from hexcute_core.simulator.shared import SharedArena
from hexcute_core.simulator.values import Array, Value

if TYPE_CHECKING:
    from hexcute_core.simulator.asynchronous import PendingCopy


class Machine(LaneState):
    """The state of a batch of blocks of a thread program."""

    def __init__(
        self,
        blocks: Sequence[Block],
        grid: Block,
        threads: int,
        shared: SharedArena,
        buffers: Mapping[str, GlobalBuffer],
        scalars: Mapping[str, Value],
        sites: Sequence[SourceSpan | None],
        tally: Tally,
    ) -> None:
        super().__init__({**scalars, **builtins(blocks, grid, threads)}, threads, blocks)
        self.site = 0
        self.sites = sites
        self.tally = tally
        self.buffers = buffers
        self.shared = shared
        self.registers: dict[str, RegisterArray] = {}
        self.epoch = np.zeros(self.lanes, dtype=np.int64)
        self.committed = np.zeros(self.lanes, dtype=np.int64)
        self.pending: list[PendingCopy] = []

    @property
    def span(self) -> SourceSpan | None:
        """Where the running statement was written."""
        return self.sites[self.site]

    def element(self, array: str, indices: tuple[Value, ...]) -> Value:
        """Register `array[index]` of every lane."""
        if len(indices) != 1:
            self.fail(f"{array} has {len(indices)} indices, registers take one")
        return read_element(self, array, indices[0])

    def count(self, name: str) -> None:
        """Counts one instruction `name` for each warp with an executing lane."""
        warps = self.warps
        if self.mask is not None:
            warps = len(np.unique(self.warp_of[self.mask]))
        self.tally.instructions[name] += warps

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
