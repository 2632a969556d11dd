"""Device time of a launch: the median of CUDA-graph replays, peers taking turns.

    time = median over rounds of (end event - start event) / launches in the graph

A graph cycles through the rotated input sets, so that no launch finds its inputs in the L2
cache where they would fit there.
"""

from __future__ import annotations

import contextlib
import gc
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from hexcute_bench.errors import BenchError
from hexcute_bench.interface import Run, Settings

# Once one set is this many times the cache, its head has left when its tail is read.
CACHE_TIMES = 4
MOST_SETS = 256
# A launch this long hides the host's part of the next; a graph would hold its memory twice.
LONG_US = 8000.0
MOST_LAUNCHES = 1024


def rotation(set_bytes: float, cache_bytes: float) -> int:
    """Input sets needed for the rotation to hold `CACHE_TIMES` caches."""
    return max(1, min(MOST_SETS, math.ceil(CACHE_TIMES * cache_bytes / max(set_bytes, 1))))


@dataclass(frozen=True)
class Timing:
    """Microseconds a launch: median, and the 10th and 90th percentile of the rounds."""

    median: float
    low: float
    high: float
    rounds: int
    launches: int
    method: str

    @classmethod
    def of(cls, samples: Sequence[float], launches: int, method: str) -> Timing:
        ordered = sorted(samples)
        last = len(ordered) - 1
        return cls(
            statistics.median(ordered), ordered[round(last * 0.1)], ordered[round(last * 0.9)],
            len(ordered), launches, method,
        )  # fmt: skip


class Replay(Protocol):
    """Something that can be timed again and again: `sample` gives microseconds per launch."""

    launches: int
    method: str

    def sample(self) -> float: ...


class Clock(Protocol):
    """Makes replays of a run; the device's, or a test's."""

    def replay(self, run: Run, sets: int, target_us: float) -> Replay: ...

    def alive(self) -> bool:
        """Whether the device still answers this process."""


def interleave(replays: Sequence[Replay], rounds: int, pause_s: float = 0.0) -> list[Timing]:
    """Times all replays in turns, each after a pause, so that drift of clocks and heat meets all
    of them alike."""
    samples: list[list[float]] = [[] for _ in replays]
    for replay in replays:
        replay.sample()
    for turn in range(rounds):
        # Every other round runs backwards: no replay always follows the same one.
        order = range(len(replays)) if turn % 2 == 0 else reversed(range(len(replays)))
        for index in order:
            time.sleep(pause_s)
            samples[index].append(replays[index].sample())
    return [
        Timing.of(taken, replay.launches, replay.method) for taken, replay in zip(samples, replays)
    ]


def launches_for(one_us: float, sets: int, target_us: float) -> int:
    """Launches in a replay: whole rotations, about `target_us` of work, at least one."""
    turns = max(1, round(target_us / max(one_us, 0.1) / sets))
    return max(1, min(turns * sets, max(sets, MOST_LAUNCHES // sets * sets)))


def torch_with_gpu() -> Any:
    """torch, where it sees a GPU; otherwise a `BenchError` that says what is missing."""
    try:
        import torch
    except ImportError:
        raise BenchError("torch is not installed; the suites that time kernels need it") from None
    if not torch.cuda.is_available():
        raise BenchError("torch sees no GPU here; run this suite on a machine with one")
    return torch


class CudaClock:
    """Times on the current CUDA device through torch."""

    def __init__(self, settings: Settings) -> None:
        self._torch: Any = torch_with_gpu()
        self._host = settings.protocol == "host"
        # One stream for all captures: cuBLAS keeps a workspace for every stream it meets.
        self._stream = self._torch.cuda.Stream()

    def replay(self, run: Run, sets: int, target_us: float) -> Replay:
        """Raises what the capture raises, except that a peer that cannot be captured is timed
        by events around plain launches, which its row then says."""
        if self._host:
            return _HostReplay(self._torch, run, sets)
        one_us = self._estimate(run, sets)
        launches = launches_for(one_us, sets, target_us)
        if one_us > LONG_US:
            return _EventReplay(self._torch, run, sets, launches)
        try:
            first = _GraphReplay(self._torch, self._stream, run, sets, launches)
            # The estimate had the host in it. A graph of too few launches is timed with the start
            # of the graph in it, most for those that the host launches slowest.
            wanted = launches_for(first.sample(), sets, target_us)
            if wanted < 1.5 * launches:
                return first
            return _GraphReplay(self._torch, self._stream, run, sets, wanted)
        except Exception as error:
            if "captur" not in str(error).lower():
                raise
            self._torch.cuda.synchronize()
            return _EventReplay(self._torch, run, sets, launches)

    def alive(self) -> bool:
        try:
            self._torch.cuda.synchronize()
        except RuntimeError:
            return False
        return True

    def _estimate(self, run: Run, sets: int) -> float:
        """A first guess of one launch's microseconds, the host's part included."""
        torch = self._torch
        run(0)
        torch.cuda.synchronize()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        count = min(sets, 4)
        start.record()
        for index in range(count):
            run(index)
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e3 / count


class _Events:
    """Microseconds a launch of `work`, between two events."""

    def __init__(self, torch: Any, launches: int, work: Callable[[], None], method: str) -> None:
        self._start, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.launches, self._work, self.method = launches, work, method

    def sample(self) -> float:
        self._start.record()
        self._work()
        self._end.record()
        self._end.synchronize()
        return float(self._start.elapsed_time(self._end)) * 1e3 / self.launches


class _GraphReplay(_Events):
    def __init__(self, torch: Any, stream: Any, run: Run, sets: int, launches: int) -> None:
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        # torch's own context manager empties the allocator's cache at every capture, which costs
        # more than the measurement. Nothing may be collected while a stream captures.
        collecting = gc.isenabled()
        gc.disable()
        try:
            with torch.cuda.stream(stream):
                self._capture(graph, run, sets, launches)
        finally:
            if collecting:
                gc.enable()
        torch.cuda.synchronize()
        super().__init__(torch, launches, graph.replay, "graph")
        self._graph = graph

    @staticmethod
    def _capture(graph: Any, run: Run, sets: int, launches: int) -> None:
        graph.capture_begin()
        try:
            for index in range(launches):
                run(index % sets)
        except BaseException:
            # What stopped the capture is the error to tell; ending it may fail on top.
            with contextlib.suppress(RuntimeError):
                graph.capture_end()
            raise
        graph.capture_end()


class _EventReplay(_Events):
    def __init__(self, torch: Any, run: Run, sets: int, launches: int) -> None:
        def work() -> None:
            for index in range(launches):
                run(index % sets)

        super().__init__(torch, launches, work, "events")


class _HostReplay:
    """The paper's protocol: a launch and the wait for it, by the host's clock."""

    method = "host"
    launches = 1

    def __init__(self, torch: Any, run: Run, sets: int) -> None:
        self._torch, self._run, self._sets, self._next = torch, run, sets, 0

    def sample(self) -> float:
        self._next = (self._next + 1) % self._sets
        self._torch.cuda.synchronize()
        start = time.perf_counter()
        self._run(self._next)
        self._torch.cuda.synchronize()
        return (time.perf_counter() - start) * 1e6
