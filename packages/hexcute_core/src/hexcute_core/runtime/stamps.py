"""StampBuffer: memory on a GPU that a launch writes its stamps to, and what was written there.

    bytes = 16 a row + 32 a track of the chosen blocks + 4 a block from the first to the last

`thread/stamps.py` says where what lies. Everything is allocated and cleared before the launch; a
track that is full takes no more.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hexcute_core.errors import LaunchError, MissingDependency, SourceSpan
from hexcute_core.runtime.launching import Grid
from hexcute_core.runtime.torch_link import INSTALL
from hexcute_core.thread.stamps import HEAD, NONE, TABLED, WORDS, rows, track_bytes, tracks

Runs: TypeAlias = Sequence[tuple[int | None, ...]]
MOST_BYTES = 2**30
"""A buffer is smaller than this."""


@dataclass(frozen=True)
class Written:
    """One track: nanoseconds and clocks (that wrap at 2^32) at `start` and `end`, the `stamps` with
    their clocks, how many rows were `lost`, and the multiprocessor."""

    block: Grid
    track: int
    start: tuple[int, int]
    end: tuple[int, int]
    stamps: tuple[tuple[int | None, int], ...]
    lost: int
    multiprocessor: int


class StampBuffer:
    """For `blocks` of a `grid` of blocks of `threads` threads, whose program has `runs` of stamps,
    with `room` rows a track; `given` are the parameters that tell the kernel so.

    Raises LaunchError where that is too much memory.
    """

    def __init__(
        self,
        device: int,
        grid: Grid,
        blocks: Sequence[Grid],
        threads: int,
        runs: Runs,
        room: int,
        span: SourceSpan | None = None,
    ) -> None:
        self._blocks, self._count, self._runs, self._span = blocks, tracks(threads), runs, span
        places = [(z * grid[1] + y) * grid[0] + x for x, y, z in blocks]
        first, behind = min(places, default=0), max(places, default=-1) + 1
        self._size = track_bytes(room) * self._count * len(blocks)
        # Blocks that follow one another need no table.
        listed = places != list(range(first, first + len(places)))
        size = self._size + (TABLED * (behind - first) if listed else 0)
        if size > MOST_BYTES or behind > NONE:
            raise LaunchError(
                f"{len(blocks)} of {prod(grid)} blocks with {room} stamps a track take {size} "
                f"bytes, at most {MOST_BYTES}",
                span,
                "name fewer blocks, or such as lie closer, or ask for fewer stamps",
            )
        torch = _torch()
        self._memory: Any = torch.zeros(size, dtype=torch.uint8, device=f"cuda:{device}")
        address = int(self._memory.data_ptr())
        if listed:
            numbers = torch.from_numpy(table(places).view(np.uint8))
            self._memory[self._size :].copy_(numbers)
        begins = address + self._size if listed else 0
        self.given = (address, begins, first | (behind - first) << 32, room)

    def read(self) -> list[Written]:
        """What the launch wrote, when it is over. Raises LaunchError where a track has no end."""
        raw = self._memory[: self._size].cpu().numpy()
        found = parse(raw, self._blocks, self._count, self._runs)
        if any(not w.end[0] for w in found):
            raise LaunchError(
                "a track has no end: its stamps went on for longer than they can be counted",
                self._span,
                "launch the kernel on less work",
            )
        return found


def table(places: Sequence[int]) -> NDArray[np.uint32]:
    """For each block from the first of `places` in the grid to the last its number among them, or
    NONE."""
    first = min(places)
    numbers = np.full(max(places) + 1 - first, NONE, dtype=np.uint32)
    numbers[np.array(places) - first] = np.arange(len(places))
    return numbers


def parse(
    raw: NDArray[np.uint8], blocks: Sequence[Grid], count: int, runs: Runs
) -> list[Written]:
    """What stands in the tracks of `blocks`, `count` of each."""
    places = [(block, track) for block in blocks for track in range(count)]
    parts = raw.reshape(len(places), len(raw) // max(len(places), 1))
    found = []
    for (block, track), part in zip(places, parts, strict=True):
        lines, head = part[:-HEAD].view(np.uint32).reshape(-1, WORDS), part[-HEAD:]
        end, left = int(head[:8].view(np.uint64)[0]), int(head[12:16].view(np.int32)[0])
        low, first, multiprocessor, _ = map(int, head[16:].view(np.uint32))
        last, stamps = int(head[8:12].view(np.uint32)[0]), tuple(_stamps(lines, runs))
        whole = (end - (end - low) % 2**32, first), (end, last), stamps, max(0, -left)
        found.append(Written(block, track, *whole, multiprocessor))
    return found


def _stamps(lines: NDArray[np.uint32], runs: Runs) -> Iterator[tuple[int | None, int]]:
    """What each stamp opens and when, from the rows of a track up to the first that is empty."""
    at = 0
    while at < len(lines) and lines[at, 0]:
        run = runs[int(lines[at, 0]) - 1]
        after = at + rows(len(run))
        yield from zip(run, map(int, lines[at:after].reshape(-1)[1:]))
        at = after


def _torch() -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise MissingDependency(
            f"a timeline on a GPU needs torch: {error}", fix=INSTALL
        ) from error
