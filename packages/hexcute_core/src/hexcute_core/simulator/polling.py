"""poll: a loop that reads memory until something it waits for has changed.

An iteration that leaves the agent's own state as it was, with no memory changed since, cannot
end by itself: the agent then waits until somebody changes memory, and if nobody can, it is stuck.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hexcute_core.errors import SourceSpan
from hexcute_core.simulator.code import PAUSE, Wait

if TYPE_CHECKING:
    from hexcute_core.simulator.machine import Machine


class Poll:
    """The polling of one loop by one agent."""

    def __init__(self, m: Machine, site: int) -> None:
        self.span: SourceSpan | None = m.sites[site]
        self._m = m
        self._state = b""
        self._seen = -1

    def again(self) -> Wait:
        """What to wait for before the next iteration."""
        state, seen = _state(self._m), self._m.world.changes
        idle = state == self._state and seen == self._seen
        self._state, self._seen = state, seen
        return self if idle else PAUSE

    def ready(self) -> bool:
        """Whether memory has changed since the loop last looked."""
        return self._m.world.changes != self._seen

    def describe(self) -> str:
        """What the agent does."""
        return "spins in a loop on memory that nobody changes any more"


def poll(m: Machine, site: int) -> Poll:
    """The polling of the loop at `site`."""
    return Poll(m, site)


def _state(m: Machine) -> bytes:
    """The agent's variables and registers as bytes."""
    parts = [np.asarray(value).tobytes() for value in m.vars.values()]
    parts += [array.cells.tobytes() for array in m.registers.values()]
    return b"".join(parts)
