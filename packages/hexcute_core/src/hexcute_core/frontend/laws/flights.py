"""What one path of a program has behind it: slots held, and asynchronous gemms in flight.

States are finitely many, so that the paths of a loop come to an end: what is known of a place in
shared memory by variables of a loop is known for `FAR` of its iterations and forgotten after, as if
the gemm read the whole tensor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hexcute_core.scalar import Scalar
from hexcute_core.scalar.visit import free_vars, substitute
from hexcute_core.tile import TileRef

FAR = 8
"""Iterations after which nothing is known of where a gemm's operands lie."""


@dataclass(frozen=True)
class Flight:
    """A gemm that may be unfinished. `slots` are those it reads, by pipeline and how many waits
    ago (None: unknown); `shared` its operands there, None where variables of the place changed;
    `moves` how often the variables that the places are told by became those of the next
    iteration."""

    gemm: int
    age: int
    slots: tuple[tuple[str, int | None], ...]
    shared: tuple[tuple[str, TileRef | None], ...]
    moves: int = 0


@dataclass(frozen=True)
class State:
    """`held`: pipelines with the number of their slots that the path holds."""

    held: tuple[tuple[str, int], ...] = ()
    flights: frozenset[Flight] = frozenset()

    def holds(self, pipeline: str) -> int:
        """How many slots of `pipeline` the path holds."""
        return dict(self.held).get(pipeline, 0)

    def holding(self, pipeline: str, count: int) -> State:
        """The state that holds `count` slots of `pipeline` instead."""
        counts = {**dict(self.held), pipeline: count}
        return replace(self, held=tuple(sorted((p, n) for p, n in counts.items() if n)))


def moved_on(state: State, back: Mapping[str, Scalar], changed: frozenset[str]) -> State:
    """`state` when variables take new values: by how much is known of `back`, not of `changed`."""
    gone = back.keys() | changed

    def now(ref: TileRef | None, far: bool) -> TileRef | None:
        if ref is None or not any(free_vars(s) & gone for s in ref.starts):
            return ref
        if far or any(free_vars(s) & changed for s in ref.starts):
            return None
        return replace(ref, starts=tuple(substitute(s, back) for s in ref.starts))

    def moved(flight: Flight) -> Flight:
        shared = tuple((name, now(ref, flight.moves >= FAR)) for name, ref in flight.shared)
        if shared == flight.shared:
            return flight
        placed = any(ref is not None for _, ref in shared)
        return replace(flight, shared=shared, moves=flight.moves + 1 if placed else 0)

    return replace(state, flights=frozenset(map(moved, state.flights)))
