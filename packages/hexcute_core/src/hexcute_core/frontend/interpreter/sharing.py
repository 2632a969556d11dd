"""Which register tensors may stand for the same Python object: pairs (a, b), kept up to date.

Inside run-time control flow a name keeps its own tensor, so `x = y` copies where Python shares,
and a name that a region may assign is given its own copy before. As long as Python's two names may
share one object, a change of it in place (`+=`, hx.copy) would have to reach both tensors: it is
refused. What a loop's body does to the pairs is replayed until they no longer grow.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations
from types import MethodType
from typing import TypeAlias, Union

from hexcute_core.errors import FrontendError, SourceSpan
from hexcute_core.frontend.functions.snapshot import attributes, has_state
from hexcute_core.frontend.interpreter.frame import Frame
from hexcute_core.frontend.language.builder import RegionKind
from hexcute_core.frontend.language.params import Param
from hexcute_core.frontend.language.pipelines import Ring
from hexcute_core.frontend.language.tiles import Tile
from hexcute_core.frontend.language.turns import Turns
from hexcute_core.scalar import ScalarBase
from hexcute_core.unions import assert_never

# Pipelines and turns know where in the program they are used, which is all of it.
_NO_TILES = (ScalarBase, int, float, str, Param, Ring, Turns)

Pairs: TypeAlias = dict[frozenset[str], str]


@dataclass(frozen=True)
class Relate:
    """From here on the two tensors may stand for one object, because of `name`."""

    pair: frozenset[str]
    name: str


@dataclass(frozen=True)
class Assigned:
    """The name that lives in `tensor` stands for another object from here on."""

    tensor: str


@dataclass(frozen=True)
class Write:
    """`tensor` is changed in place while the tensors `used` may still be read."""

    tensor: str
    used: frozenset[str]
    span: SourceSpan


@dataclass(frozen=True)
class Block:
    """What happens in a region; `repeats` where it may run more than once."""

    repeats: bool
    events: list[Event] = field(default_factory=list)


Event: TypeAlias = Union[Relate, Assigned, Write, Block]


class Sharing:
    """The pairs that may hold where the trace stands, each with the name that made it."""

    def __init__(self) -> None:
        self._pairs: Pairs = {}
        self._open = Block(repeats=False)

    def relate(self, first: str, second: str, name: str) -> None:
        """From here on `first` and `second` may stand for one object."""
        if first != second:
            self._happens(Relate(frozenset((first, second)), name))

    def assigned(self, tensor: str) -> None:
        """The name of `tensor` now stands for another object; what it related stays related."""
        self._happens(Assigned(tensor))

    def write(self, frame: Frame | None, tensor: str, span: SourceSpan) -> None:
        """`tensor` is changed in place: refused where another tensor in use may be the same object.

        Raises `FrontendError` at `span`.
        """
        self._happens(Write(tensor, _in_use(frame), span))

    def _happens(self, event: Event) -> None:
        self._open.events.append(event)
        self._pairs = _after(event, self._pairs)

    @contextmanager
    def region(self, kind: RegionKind) -> Iterator[None]:
        """A block that may not run at all; a loop's body may run again, from the pairs at its
        end."""
        before, outer = self._pairs, self._open
        self._open = block = Block(repeats=kind in ("loop", "elements"))
        try:
            yield
        finally:
            self._open = outer
        outer.events.append(block)
        self._pairs = _after(block, before)


def _after(event: Event, pairs: Pairs) -> Pairs:
    """The pairs after `event`; raises where it changes a tile that may be shared."""
    match event:
        case Relate(pair=pair, name=name):
            return {**pairs, pair: name}
        case Assigned(tensor=tensor):
            ended = {pair: name for pair, name in pairs.items() if tensor in pair}
            if not ended:
                return pairs
            kept = {pair: name for pair, name in pairs.items() if pair not in ended}
            for (p, name), (q, _) in combinations(ended.items(), 2):
                kept[(p | q) - {tensor}] = name
            return kept
        case Write(tensor=tensor, used=used, span=span):
            for other, name in _group(tensor, pairs):
                if other in used:
                    raise _refusal(name, span)
            return pairs
        case Block():
            while True:
                after = pairs
                for inner in event.events:
                    after = _after(inner, after)
                merged = {**after, **pairs}
                if not event.repeats or len(merged) == len(pairs):
                    return merged
                pairs = merged
        case _:
            assert_never(event)


def _group(tensor: str, pairs: Pairs) -> Iterator[tuple[str, str]]:
    """Every tensor that may be the object of `tensor`, with the name behind it."""
    seen, waiting = {tensor}, [tensor]
    while waiting:
        here = waiting.pop()
        for pair, name in pairs.items():
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


def _in_use(frame: Frame | None) -> frozenset[str]:
    """Tensors held by names that may still be read."""
    found: set[str] = set()
    while frame is not None:
        used = frame.used()
        for name, binding in frame.bindings.items():
            if used is None or name in used:
                found.update(tensors_in(binding.value))
        frame = frame.caller
    return frozenset(found)


def tensors_in(value: object) -> Iterator[str]:
    """Names of the tensors that `value` is or contains a part of, objects' attributes included."""
    if isinstance(value, Tile):
        yield value.tensor.name
        return
    seen: dict[int, object] = {}
    waiting = [value]
    while waiting:
        here = waiting.pop()
        if isinstance(here, Tile):
            yield here.tensor.name
        elif isinstance(here, _NO_TILES) or id(here) in seen:
            continue
        elif isinstance(here, (tuple, list)):
            seen[id(here)] = here
            waiting += here
        elif isinstance(here, dict):
            seen[id(here)] = here
            waiting += here.values()
        elif isinstance(here, functools.partial):
            waiting += [here.args, here.keywords]
        elif isinstance(here, MethodType):
            waiting.append(here.__self__)
        elif has_state(here):
            seen[id(here)] = here
            waiting += [held for _, held in attributes(here)]


def holds(value: object, tensor: str) -> bool:
    """Whether `value` is or contains a part of `tensor`."""
    return tensor in tensors_in(value)
