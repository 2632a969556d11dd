"""Pace = the time at which a warp is where it is, in clocks of a meter."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Pace:
    """When a warp is where it is: `now`; when what it `loads` is there, and what it starts now is
    `done`; until when it is its `turn` to compute; when what it started and has not yet committed
    is done, and each of the groups that it has committed, by engine."""

    now: float = 0.0
    loads: float = 0.0
    done: float = 0.0
    turn: float = 0.0
    open: dict[str, float] = field(default_factory=dict)
    groups: dict[str, list[float]] = field(default_factory=dict)

    def begin(self, engine: str, done: float) -> None:
        """Something is under way."""
        self.open[engine] = max(self.open.get(engine, 0.0), done)

    def commit(self, engine: str) -> None:
        """What is under way is a group."""
        self.groups.setdefault(engine, []).append(self.open.pop(engine, self.now))

    def await_groups(self, engine: str, pending: int) -> None:
        """All but the latest groups are done."""
        groups = self.groups.get(engine, [])
        self.now = max([self.now, *groups[: max(0, len(groups) - pending)]])
