"""A shape is an ordered list of named sizes: `m=32 n=6144 k=4096`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from hexcute_bench.errors import BenchError

_PART = re.compile(r"(\w+)=(-?\d+)")
_TERM = re.compile(r"\s*(\w+)\s*(<=|>=|==|!=|=|<|>)\s*(-?\d+)\s*")
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}


@dataclass(frozen=True)
class Shape:
    """Named sizes in elements; prints as `m=32 n=64` and is read back from that."""

    items: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, sizes: Mapping[str, int] | None = None, **named: int) -> Shape:
        return cls(tuple({**(sizes or {}), **named}.items()))

    @classmethod
    def parse(cls, text: str) -> Shape:
        found = _PART.findall(text)
        if not found or " ".join("=".join(part) for part in found) != text:
            raise BenchError(f"not a shape: {text!r}; expected text like 'm=32 n=6144 k=4096'")
        return cls(tuple((name, int(size)) for name, size in found))

    def __getitem__(self, name: str) -> int:
        for key, size in self.items:
            if key == name:
                return size
        names = ", ".join(key for key, _ in self.items)
        raise BenchError(f"the shape has no size {name!r}; it has {names}")

    def __str__(self) -> str:
        return " ".join(f"{name}={size}" for name, size in self.items)

    def sizes(self) -> dict[str, int]:
        return dict(self.items)


def shape_filter(text: str) -> Callable[[Shape], bool]:
    """A condition like `m>=2048,n==4096`; all of its terms must hold."""
    terms = []
    for part in text.split(","):
        found = _TERM.fullmatch(part)
        if found is None:
            raise BenchError(f"cannot read the shape filter {part!r}; write terms like 'm>=2048'")
        terms.append((found[1], _COMPARE[found[2]], int(found[3])))
    return lambda shape: all(compare(shape[name], size) for name, compare, size in terms)


def select(shapes: Iterable[Shape], filters: Iterable[str]) -> tuple[Shape, ...]:
    """The shapes that pass any of the filters; all of them where there is no filter."""
    conditions = [shape_filter(text) for text in filters]
    return tuple(
        shape for shape in shapes if not conditions or any(keep(shape) for keep in conditions)
    )
