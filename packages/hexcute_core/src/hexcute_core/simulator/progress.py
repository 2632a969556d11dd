"""A progress bar for long runs: shown on a terminal after two seconds, where tqdm is installed."""

from __future__ import annotations

from typing import Protocol

DELAY = 2.0


class Progress(Protocol):
    """What counts blocks."""

    def update(self, n: int) -> object:
        """`n` more blocks are done."""

    def close(self) -> object:
        """No more will come."""


class Silence:
    """No bar."""

    def update(self, n: int) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


def bar(name: str, blocks: int) -> Progress:
    """A bar over `blocks` blocks."""
    try:
        from tqdm import tqdm
    except ImportError:
        return Silence()
    shown: Progress = tqdm(
        total=blocks,
        desc=f"simulating {name}",
        unit="block",
        delay=DELAY,
        disable=None,
        leave=False,
    )
    return shown
