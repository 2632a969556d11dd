"""Space = named choices, without the combinations that a constraint refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from hexcute_core.errors import TunerError

Constraint = Callable[[Mapping[str, Any]], bool]
"""Whether a configuration is worth looking at."""


@dataclass(frozen=True)
class Space:
    """Compile-time constants by name, each with the values to try; iterating gives each combination
    that all constraints accept, as a dictionary.

        Space({"BM": (64, 128), "STAGES": (2, 3, 4)}, (lambda c: c["BM"] * c["STAGES"] <= 256,))

    Raises TunerError where a name has no values, or one twice.
    """

    constants: Mapping[str, Sequence[Any]]
    constraints: tuple[Constraint, ...] = ()

    def __post_init__(self) -> None:
        for name, values in self.constants.items():
            if isinstance(values, str) or not values:
                raise TunerError(
                    f"the space has no values for {name!r}", fix=f"write {{{name!r}: (64, 128)}}"
                )
            if len({repr(value) for value in values}) != len(values):
                raise TunerError(f"the space has a value twice for {name!r}: {list(values)}")

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for values in product(*self.constants.values()):
            config = dict(zip(self.constants, values))
            if all(accepts(config) for accepts in self.constraints):
                yield config


def text_of(config: object) -> str:
    """A configuration as text, by which it is known: `BM=64 STAGES=3` of a dictionary."""
    if isinstance(config, Mapping):
        return " ".join(f"{name}={value!r}" for name, value in config.items())
    return repr(config)
