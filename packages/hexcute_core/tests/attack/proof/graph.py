"""a -> b: whether one thing comes before another on every schedule, as paths of a graph.

A node is something that happens; it is made when all that comes before it has been made. An edge
either says that what came before is seen behind it (`sees`), or only that it is over (`after`): the
first implies the second.
"""

from __future__ import annotations

from collections.abc import Iterable


class Graph:
    """For each node the set of nodes before it, as the bits of a number."""

    def __init__(self) -> None:
        self._seen: list[int] = []
        self._over: list[int] = []

    def node(self, sees: Iterable[int] = (), after: Iterable[int] = ()) -> int:
        """A new node behind those that it sees and those that it is only after."""
        seen = over = 0
        for before in sees:
            seen |= self._seen[before] | 1 << before
            over |= self._over[before] | 1 << before
        for before in after:
            over |= self._over[before] | 1 << before
        self._seen.append(seen)
        self._over.append(over)
        return len(self._seen) - 1

    def sees(self, later: int, earlier: int) -> bool:
        """Whether `later` sees what `earlier` did."""
        return bool(self._seen[later] >> earlier & 1)

    def after(self, later: int, earlier: int) -> bool:
        """Whether `earlier` is over when `later` happens."""
        return bool(self._over[later] >> earlier & 1)
