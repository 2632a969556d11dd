"""Replay: microseconds of a launch, by replays of a CUDA graph with the GPU's clock left alone.

    time = (end event - start event) / launches in the graph

A graph goes round the sets of inputs, so that no launch finds its own in a cache that they do not
fit together. Before each sample the GPU rests, for under steady load it lowers its clock.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from typing import Any

from hexcute_core.errors import MissingDependency
from hexcute_core.pip import installing

GRAPH_US = 1000.0
"""Work in a graph, about."""
REST_SECONDS = 0.01
_MOST = 512


def _torch() -> Any:
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise MissingDependency(f"timing needs torch: {error}", fix=installing("torch")) from error
    if not torch.cuda.is_available():
        raise MissingDependency("timing needs a GPU, torch sees none here")
    return torch


def gpu_name() -> str:
    """The full name of the current GPU. Raises MissingDependency where there is none."""
    return str(_torch().cuda.get_device_name())


def gpu_alive() -> bool:
    """Whether the GPU still answers this process, as far as it uses one; a kernel that faulted ends
    that."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return True
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return False
    return True


class Replay:
    """Launches `run(i)`, i going round `sets`, captured once."""

    def __init__(self, run: Callable[[int], object], sets: int) -> None:
        self._torch = torch = _torch()
        self._ends = tuple(torch.cuda.Event(enable_timing=True) for _ in range(2))
        for index in range(sets):
            run(index)
        one = self._between(lambda: [run(index) for index in range(sets)]) / sets
        # The host's part is in this guess; it makes a graph shorter, not wrong.
        turns = max(1, min(round(GRAPH_US / max(one, 1.0) / sets), _MOST // sets))
        self._launches = turns * sets
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for index in range(self._launches):
                run(index % sets)
        self._graph = graph
        self._between(graph.replay)

    def _between(self, work: Callable[[], object]) -> float:
        """Microseconds of the GPU's."""
        self._torch.cuda.synchronize()
        first, last = self._ends
        first.record()
        work()
        last.record()
        last.synchronize()
        return float(first.elapsed_time(last)) * 1e3

    def sample(self) -> float:
        """Microseconds a launch, once."""
        time.sleep(REST_SECONDS)
        return self._between(self._graph.replay) / self._launches
