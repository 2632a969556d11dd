"""Cases with one output a set, compared with a reference that is made once for each set."""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from typing import Any

from hexcute_bench.cases.tensors import relative_error


class ComparedCase(ABC):
    """A case gives its output and what is right. Where `by_rows`, each row is held against its own
    size, not the whole tensor's: an average over few numbers is larger than one over many."""

    by_rows = False

    @abstractmethod
    def output(self, index: int) -> Any:
        """The tensor that a launch on set i writes."""

    @abstractmethod
    def right(self, index: int) -> Any:
        """What it should be, in float32."""

    def poison(self, index: int) -> None:
        self.output(index).fill_(float("nan"))

    @functools.cached_property
    def _references(self) -> dict[int, Any]:
        return {}

    def error(self, output: Any, index: int) -> float:
        if index not in self._references:
            self._references[index] = self.right(index)
        right = self._references[index]
        if not self.by_rows:
            return relative_error(output, right)
        if tuple(output.shape) != tuple(right.shape):
            return math.inf
        size = right.square().mean(-1, keepdim=True).sqrt()
        return relative_error(output.float() / size, right / size)
