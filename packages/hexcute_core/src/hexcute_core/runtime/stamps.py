"""StampBuffer: memory on a GPU that a launch writes its stamps to, and what was written there.

    bytes = 16 per block of the grid + what the chosen blocks have room for

`thread/stamps.py` says where what lies. Everything is allocated and cleared before the launch; a
track that is full takes no more.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hexcute_core.errors import LaunchError, MissingDependency, SourceSpan
from hexcute_core.runtime.launching import Grid
from hexcute_core.runtime.torch_link import INSTALL
from hexcute_core.thread.stamps import ENTRY, HEAD, NONE, STAMP, part_bytes, tracks

MOST_BYTES = 2**30
"""A buffer is smaller than this."""


@dataclass(frozen=True)
class Written:
    """One track: nanoseconds and clocks (that wrap at 2^32) at `start` and `end`, the `stamps` with
    their clocks, how many `came`, and the multiprocessor."""

    block: Grid
    track: int
    start: tuple[int, int]
    end: tuple[int, int]
    stamps: tuple[tuple[int | None, int], ...]
    came: int
    multiprocessor: int


class StampBuffer:
    """For `blocks` of a `grid` of blocks of `threads` threads, with `room` stamps a track.

    Raises LaunchError where that is too much memory.
    """

    def __init__(
        self,
        device: int,
        grid: Grid,
        blocks: Sequence[Grid],
        threads: int,
        room: int,
        span: SourceSpan | None = None,
    ) -> None:
        self._blocks, self._threads, self._room = blocks, threads, room
        self._table = ENTRY * prod(grid)
        size = self._table + part_bytes(threads, room) * len(blocks)
        if size > MOST_BYTES:
            raise LaunchError(
                f"{len(blocks)} of {prod(grid)} blocks with {room} stamps a track take {size} "
                f"bytes, at most {MOST_BYTES}",
                span,
                "name fewer blocks, or ask for fewer stamps",
            )
        torch = _torch()
        self._memory: Any = torch.zeros(size, dtype=torch.uint8, device=f"cuda:{device}")
        self.address = int(self._memory.data_ptr())
        entries = table(grid, blocks, threads, room, self.address)
        self._memory[: self._table].copy_(torch.from_numpy(entries))

    def read(self) -> list[Written]:
        """What the launch wrote, when it is over."""
        raw = self._memory[self._table :].cpu().numpy()
        return parse(raw, self._blocks, self._threads, self._room)


def table(
    grid: Grid, blocks: Sequence[Grid], threads: int, room: int, address: int
) -> NDArray[np.uint8]:
    """The bytes of the table that lies at `address`, the parts of `blocks` behind it in order."""
    entries = np.zeros((prod(grid), ENTRY // 8), dtype=np.uint64)
    first, part = address + ENTRY * prod(grid), part_bytes(threads, room)
    for i, (x, y, z) in enumerate(blocks):
        entries[(z * grid[1] + y) * grid[0] + x] = first + i * part, room
    return entries.view(np.uint8).reshape(-1)


def parse(
    raw: NDArray[np.uint8], blocks: Sequence[Grid], threads: int, room: int
) -> list[Written]:
    """What stands in the parts of `blocks`; those of blocks that did not end are left out."""
    found = []
    parts = raw.reshape(len(blocks) * tracks(threads), HEAD + room * STAMP)
    for i, part in enumerate(parts):
        ns_start, ns_end = map(int, part[:16].view(np.uint64))
        start, end, came, multiprocessor = map(int, part[16:HEAD].view(np.uint32))
        kept = part[HEAD : HEAD + STAMP * min(came, room)].view(np.uint32)
        stamps = tuple((None if n == NONE else n, c) for n, c in kept.reshape(-1, 2).tolist())
        block, track = divmod(i, tracks(threads))
        ends = (ns_start, start), (ns_end, end)
        found.append(Written(blocks[block], track, *ends, stamps, came, multiprocessor))
    return [w for w in found if w.end[0]]


def _torch() -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise MissingDependency(
            f"a timeline on a GPU needs torch: {error}", fix=INSTALL
        ) from error
