"""What is tuned, as the tuner sees it: a task, and four questions about each configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Task:
    """What results belong to: a kernel or operator by name, the GPU they were measured on, the
    problem (or those that share results with it) as text, and the version of all that was
    measured."""

    name: str
    gpu: str
    bucket: str
    version: str


class Bench(Protocol):
    """The object itself is pickled, and each process of the tuner has a copy. `clocks` and `build`
    are asked in several processes at once and need no GPU; `prepare` and `sample` in one that has
    the GPU to itself. Errors cost the configuration they are raised for, and `alive` says whether
    the process can go on after one.
    """

    @property
    def task(self) -> Task: ...

    def clocks(self, config: Any) -> float:
        """How long it should take, by the cost model, in any unit."""

    def build(self, config: Any) -> object:
        """Compiles it, into the cache."""

    def prepare(self, config: Any) -> object:
        """Loads it, checks that its results are right, and makes ready to time it."""

    def sample(self, config: Any) -> float:
        """Microseconds of a launch, once. It was prepared in this process."""

    def alive(self) -> bool:
        """Whether the GPU still answers this process."""
