"""A line on stderr that says how far a run has come, where stderr is a terminal."""

from __future__ import annotations

import sys
from typing import TextIO

WIDTH = 24
_CLEAR = "\r\x1b[K"


class Progress:
    """`step` counts what was done of `phase`; nothing is written to what is no terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._shown = self._stream.isatty()
        self._phase, self._done, self._total = "", 0, 0

    def phase(self, name: str, total: int, done: int = 0) -> None:
        """Begins a phase of so many steps, of which some are done already."""
        self._phase, self._total, self._done = name, total, done
        self._show("")

    def step(self, what: str) -> None:
        """One more is done."""
        self._done += 1
        self._show(what)

    def _show(self, what: str) -> None:
        if not self._shown or not self._total:
            return
        filled = WIDTH * min(self._done, self._total) // self._total
        bar = "#" * filled + "." * (WIDTH - filled)
        line = f"{self._phase:8} [{bar}] {self._done}/{self._total} {what}"
        self._stream.write(f"{_CLEAR}{line[:118]}")
        self._stream.flush()

    def close(self) -> None:
        """Takes the line away."""
        if self._shown:
            self._stream.write(_CLEAR)
            self._stream.flush()
