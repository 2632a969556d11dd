"""Configurations as data: which one a problem gets on which GPU, and which others are worth trying.

    choose(gpu, problem) = the first row of the GPU's table, or of its nearest kin's, that takes it
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Generic, Protocol, TypeVar

from hexcute_core.errors import LaunchError
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
    """`config` for problems whose numbers, by name, are at most `most`, and which it cuts into at
    least `fills` tiles."""

    config: C
    most: Mapping[str, int] = field(default_factory=dict)
    fills: int = 0

    def takes(self, problem: object) -> bool:
        """Whether the row is for such a problem."""
        small = all(getattr(problem, name) <= limit for name, limit in self.most.items())
        return small and (not self.fills or self.config.blocks(problem) >= self.fills)


@dataclass(frozen=True)
class Table(Generic[C]):
    """Rows by the GPU's short name, in the order they are tried; the last row of each takes
    everything. `more` are configurations that no row chooses, for a tuner to try."""

    rows: Mapping[str, tuple[Row[C], ...]]
    more: tuple[C, ...] = ()

    def __post_init__(self) -> None:
        for gpu, rows in self.rows.items():
            if not rows or rows[-1].most or rows[-1].fills:
                raise LaunchError(f"the last row of a table takes everything; {gpu}'s does not")

    @property
    def kind(self) -> type[C]:
        """The class of the table's configurations."""
        return type(next(iter(self)))

    def __iter__(self) -> Iterator[C]:
        """Every configuration once."""
        chosen = [row.config for rows in self.rows.values() for row in rows]
        return iter(dict.fromkeys([*chosen, *self.more]))

    def choose(self, gpu: str, problem: object) -> C:
        """The configuration of a problem on a GPU of this name."""
        names = [name for name in (gpu, *KIN.get(gpu, ())) if name in self.rows]
        rows = self.rows[names[0]] if names else next(iter(self.rows.values()))
        return next(row.config for row in rows if row.takes(problem))


def constants(config: object) -> dict[str, object]:
    """A configuration's fields as a kernel's compile-time constants."""
    return {f.name: getattr(config, f.name) for f in fields(config)}  # type: ignore[arg-type]
