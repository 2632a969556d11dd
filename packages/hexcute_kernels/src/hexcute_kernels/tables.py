"""Configurations as data: which one a problem gets on which GPU, and which others the tuner tries.

    choose(gpu, problem) = the first row of the GPU's own, or of its nearest kin's, that takes it

Rows that the tuner wrote come before those that people did, of the same GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Generic, Protocol, TypeVar

from hexcute_core.dtypes import DType
from hexcute_core.errors import LaunchError
from hexcute_core.tuner.space import Space
from hexcute_kernels.gpus import KIN


class Config(Protocol):
    """A frozen dataclass whose fields are a kernel's compile-time constants."""

    def blocks(self, problem: Any) -> int:
        """Into how many tiles the configuration cuts the problem."""


class Sized(Protocol):
    """A problem whose results are `batch` matrices (None: one) of m x n elements."""

    @property
    def m(self) -> int: ...
    @property
    def n(self) -> int: ...
    @property
    def batch(self) -> int | None: ...


def tiles(problem: Sized, bm: int, bn: int) -> int:
    """How many tiles of bm x bn cover the results."""
    matrices = 1 if problem.batch is None else problem.batch
    return matrices * -(-problem.m // bm) * -(-problem.n // bn)


C = TypeVar("C", bound=Config)


@dataclass(frozen=True)
class Row(Generic[C]):
    """`config` for problems whose numbers, by name, are at most `most` and at least `least`, whose
    words are `equal`, and which it cuts into at least `fills` tiles, and `room` at most, if any."""

    config: C
    most: Mapping[str, int] = field(default_factory=dict)
    fills: int = 0
    least: Mapping[str, int] = field(default_factory=dict)
    equal: Mapping[str, str] = field(default_factory=dict)
    room: int = 0

    def takes(self, problem: object) -> bool:
        """Whether the row is for such a problem."""
        numbers = {name: getattr(problem, name) for name in (*self.most, *self.least)}
        return (
            None not in numbers.values()
            and all(numbers[name] <= limit for name, limit in self.most.items())
            and all(numbers[name] >= limit for name, limit in self.least.items())
            and all(word_of(getattr(problem, name)) == word for name, word in self.equal.items())
            and (not self.fills or self.config.blocks(problem) >= self.fills)
            and (not self.room or self.config.blocks(problem) <= self.room)
        )


def word_of(value: object) -> str:
    """What a row compares of a problem's field that is no number: types of one width are alike."""
    return f"{value.bits} bits" if isinstance(value, DType) else repr(value)


@dataclass(frozen=True)
class Table(Generic[C]):
    """Rows by the GPU's short name, in the order they are tried; the last row of each takes
    everything. `more` are configurations that no row chooses, for a tuner to try; `space` are
    fields of many more, which it ranks first. With a `cost`, the time that a configuration is
    expected to take for a problem on a GPU of this name, the least one of all is chosen where no
    row takes the problem."""

    rows: Mapping[str, tuple[Row[C], ...]] = field(default_factory=dict)
    more: tuple[C, ...] = ()
    space: Space | None = None
    cost: Callable[[C, Any, str], float] | None = None

    def __post_init__(self) -> None:
        for gpu, rows in self.rows.items():
            if self.cost is None and (not rows or rows[-1].most or rows[-1].fills):
                raise LaunchError(f"the last row of a table takes everything; {gpu}'s does not")

    @property
    def kind(self) -> type[C]:
        """The class of the table's configurations."""
        return type(next(iter(self)))

    def __iter__(self) -> Iterator[C]:
        """Every configuration once."""
        chosen = [row.config for rows in self.rows.values() for row in rows]
        return iter(dict.fromkeys([*chosen, *self.more]))

    @property
    def whole_space(self) -> tuple[C, ...]:
        """Every configuration once, those of `space` too."""
        spaced = [self.kind(**fields) for fields in self.space or ()]
        return tuple(dict.fromkeys([*self, *spaced]))

    def expected(self, problem: object, gpu: str) -> float:
        """The time that the chosen configuration is expected to take, by `cost`."""
        assert self.cost is not None
        return self.cost(self.choose(gpu, problem), problem, gpu)

    def choose(
        self, gpu: str, problem: object, tuned: Callable[[str], Sequence[Row[C]]] = lambda gpu: ()
    ) -> C:
        """The configuration of a problem on a GPU of this name; `tuned` gives rows that were
        measured on one, which need not take everything."""
        for name in (gpu, *KIN.get(gpu, ())):
            for row in (*tuned(name), *self.rows.get(name, ())):
                if row.takes(problem):
                    return row.config
        if (cost := self.cost) is not None:
            return min(self, key=lambda config: cost(config, problem, gpu))
        rows = next(iter(self.rows.values()))
        return next(row.config for row in rows if row.takes(problem))


def constants(config: object) -> dict[str, object]:
    """A configuration's fields as a kernel's compile-time constants."""
    return {f.name: getattr(config, f.name) for f in fields(config)}  # type: ignore[arg-type]
