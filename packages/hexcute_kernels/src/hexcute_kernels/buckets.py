"""Bucket = the problems that share what was measured of one of them.

    a number n       from more than half of its power of two on: 64 stands for 33 to 64
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


def bucket_of(problem: Problem) -> Bucket:
    """The bucket of a problem."""
    names = [field.name for field in fields(problem) if field.name not in problem.UNTUNED]
    values = {name: getattr(problem, name) for name in names}
    numbers = {name: value for name, value in values.items() if type(value) is int}
    words = {name: word_of(value) for name, value in values.items() if name not in numbers}
    most = {name: _power(number) for name, number in numbers.items()}
    return Bucket({name: high // 2 + (high > 0) for name, high in most.items()}, most, words)


def _power(number: int) -> int:
    """The least power of two that is no less; 0 of 0."""
    return 1 << (number - 1).bit_length() if number > 0 else 0
