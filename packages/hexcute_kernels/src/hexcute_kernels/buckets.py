"""Bucket = the problems that share one measured configuration.

a number n       from more than half of its power of two on: 64 stands for 33 to 64
                 where it is `fine`, above 128 by eighths of that power: 4096 for 3585 to 4096
anything else    the same; types of one width are alike
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from hexcute_kernels.tables import Row, word_of
from hexcute_kernels.variant import Problem


@dataclass(frozen=True)
class Bucket:
    """Bounds of numbers, and words, by a problem's fields."""

    least: Mapping[str, int]
    most: Mapping[str, int]
    equal: Mapping[str, str]

    def row(self, config: Any) -> Row[Any]:
        """The row that gives these problems this configuration."""
        return Row(config, self.most, 0, self.least, self.equal)

    @property
    def text(self) -> str:
        """As a word a field."""
        numbers = [f"{name}={self.least[name]}..{self.most[name]}" for name in self.most]
        return " ".join([*numbers, *(f"{name}={word}" for name, word in self.equal.items())])


def bucket_of(problem: Problem, fine: bool = False) -> Bucket:
    """The bucket of a problem; a `fine` one is for where a cost model knows what is between."""
    names = [field.name for field in fields(problem) if field.name not in problem.UNTUNED]
    values = {name: getattr(problem, name) for name in names}
    numbers = {name: value for name, value in values.items() if type(value) is int}
    words = {name: word_of(value) for name, value in values.items() if name not in numbers}
    bounds = {name: _bounds(number, fine) for name, number in numbers.items()}
    least = {name: low for name, (low, _) in bounds.items()}
    return Bucket(least, {name: high for name, (_, high) in bounds.items()}, words)


FINE = 128
"""Above this a fine bucket's numbers differ by at most an eighth."""


def _bounds(number: int, fine: bool) -> tuple[int, int]:
    """The least and the largest number of a number's bucket."""
    power = 1 << (number - 1).bit_length() if number > 0 else 0
    if not fine or number <= FINE:
        return power // 2 + (power > 0), power
    step = power // 8
    most = -(-number // step) * step
    return most - step + 1, most
