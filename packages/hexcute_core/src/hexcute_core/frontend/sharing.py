"""Which register tensors stand for one Python object, perhaps: pairs (a, b), kept up to date.

Inside run-time control flow a name keeps its own tensor, so `x = y` copies where Python shares,
and a name that a region may assign is given its own copy before. As long as Python's two names may
share one object, a change of it in place (`+=`, hx.copy) would have to reach both tensors: it is
refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations

from hexcute_core.errors import FrontendError, SourceSpan
from hexcute_core.frontend.builder import Builder, Region
from hexcute_core.frontend.frame import Frame
from hexcute_core.frontend.tiles import Tile


class Sharing:
    """The pairs that may hold where the trace stands, each with the name that made it."""

    def __init__(self) -> None:
        self._pairs: dict[frozenset[str], str] = {}
        self._written: list[tuple[str, SourceSpan]] = []

    def relate(self, first: str, second: str, name: str) -> None:
        """From here on `first` and `second` may stand for one object."""
        if first != second:
            self._pairs[frozenset((first, second))] = name

    def assigned(self, tensor: str) -> None:
        """The name of `tensor` now stands for another object; what it related stays related."""
        ended = {pair: name for pair, name in self._pairs.items() if tensor in pair}
        self._pairs = {p: n for p, n in self._pairs.items() if p not in ended}
        others = sorted(((set(pair) - {tensor}).pop(), name) for pair, name in ended.items())
        for (first, name), (second, _) in combinations(others, 2):
            self.relate(first, second, name)

    def write(self, builder: Builder, frame: Frame | None, tensor: str) -> None:
        """`tensor` is changed in place: refused where another tensor in use may be the same object.

        Raises `FrontendError` at the place being traced.
        """
        self._written.append((tensor, builder.span))
        for other, name in self._group(tensor):
            if _in_use(frame, other, None):
                raise _refusal(name, builder.span)

    @contextmanager
    def region(self, frame: Frame, region: Region) -> Iterator[None]:
        """A block that may run never, or, for a loop, again with the pairs it ended with."""
        before, start = dict(self._pairs), len(self._written)
        yield
        if region.kind != "branch":
            for tensor, span in self._written[start:]:
                for other, name in self._group(tensor):
                    if _in_use(frame, other, region) and _in_use(frame, tensor, region):
                        raise _refusal(name, span)
        self._pairs = before | self._pairs

    def _group(self, tensor: str) -> Iterator[tuple[str, str]]:
        """Every tensor that may be the object of `tensor`, with the name behind it."""
        seen, waiting = {tensor}, [tensor]
        while waiting:
            here = waiting.pop()
            for pair, name in self._pairs.items():
                for other in pair - seen if here in pair else ():
                    seen.add(other)
                    waiting.append(other)
                    yield other, name


def _refusal(name: str, span: SourceSpan) -> FrontendError:
    return FrontendError(
        f"a tile is changed in place that `{name}` and another name may share: `{name}` is "
        "assigned in run-time control flow, and Python would change both or one",
        span=span,
        fix=f"give `{name}` a tile of its own first, as in `{name} = x * 1`",
    )


def holds(value: object, tensor: str) -> bool:
    """Whether `value` is or contains a part of `tensor`."""
    match value:
        case Tile():
            return value.tensor.name == tensor
        case tuple() | list():
            return any(holds(item, tensor) for item in value)
        case dict():
            return any(holds(item, tensor) for item in value.values())
        case _:
            return False


def _in_use(frame: Frame | None, tensor: str, outside: Region | None) -> bool:
    """Whether a name that may still be read holds `tensor`; names of region `outside` do not count,
    for its next iteration assigns them before reading them."""
    while frame is not None:
        used = frame.used()
        for name, binding in frame.bindings.items():
            read = used is None or name in used
            if read and binding.region is not outside and holds(binding.value, tensor):
                return True
        frame = frame.caller
    return False
