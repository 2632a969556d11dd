"""What was replaced in a model and why not the rest, as a value with a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SHOWN = 3
"""Names of a group that its line shows."""


@dataclass(frozen=True)
class Replaced:
    """The part `name` of a model, of class `kind`, is computed by the operators `by`."""

    name: str
    kind: str
    by: str


@dataclass(frozen=True)
class Left:
    """The part `name`, of class `kind`, is as it was, because `why`."""

    name: str
    kind: str
    why: str


@dataclass(frozen=True)
class Report:
    """What `use` did to a model of class `model`; its text has a line for what is alike."""

    model: str
    replaced: tuple[Replaced, ...]
    left: tuple[Left, ...]

    def __str__(self) -> str:
        lines = [f"hexcute in {self.model}: {len(self.replaced)} replaced, {len(self.left)} left"]
        for done in dict.fromkeys((r.kind, r.by) for r in self.replaced):
            names = [r.name for r in self.replaced if (r.kind, r.by) == done]
            lines.append(f"  {len(names)} {done[0]} by {done[1]}: {_some(names)}")
        for kept in dict.fromkeys((r.kind, r.why) for r in self.left):
            names = [r.name for r in self.left if (r.kind, r.why) == kept]
            lines.append(f"  {len(names)} {kept[0]} left, {kept[1]}: {_some(names)}")
        return "\n".join(lines)


def _some(names: Sequence[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")
