"""`working`: on a terminal, what takes longer than a second says what it is, how far it has come
and for how long."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

AFTER = 1.0
"""Seconds until there is something to say, and between saying it again."""
_CLEAR = "\r\x1b[K"


class Line:
    """What is said of one piece of work: `what`, and how many of `total` are done, if that is
    known."""

    def __init__(self, what: str, total: int, unit: str) -> None:
        self._what, self._total, self._unit, self._done = what, total, unit, 0
        self._started = time.monotonic()

    def update(self, n: int) -> None:
        """`n` more are done."""
        self._done += n

    def __str__(self) -> str:
        part = f", {self._done} of {self._total} {self._unit}s" if self._total else ""
        return f"{self._what[:80]}{part}, {time.monotonic() - self._started:.0f} s"


_working: list[Line] = []
"""Of pieces of work within one another the last is spoken of."""


@contextmanager
def working(
    what: str, total: int = 0, unit: str = "block", stream: TextIO | None = None
) -> Iterator[Line]:
    """While the block runs, what is known of it stands on the last line of stderr, if that is a
    terminal; nothing of it is left behind."""
    shown, line = sys.stderr if stream is None else stream, Line(what, total, unit)
    if not shown.isatty():
        yield line
        return
    done, said = threading.Event(), threading.Event()

    def tell() -> None:
        while not done.wait(AFTER):
            if _working[-1] is line:
                shown.write(f"{_CLEAR}{line}")
                shown.flush()
                said.set()

    teller = threading.Thread(target=tell, daemon=True)
    _working.append(line)
    teller.start()
    try:
        yield line
    finally:
        done.set()
        teller.join()
        _working.remove(line)
        if said.is_set():
            shown.write(_CLEAR)
            shown.flush()
