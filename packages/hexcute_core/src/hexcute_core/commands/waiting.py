"""`waiting`: on a terminal, what takes longer than a second says what it is and for how long."""

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


@contextmanager
def waiting(what: str, stream: TextIO | None = None) -> Iterator[None]:
    """While the block runs, `what` and its seconds stand on the last line of stderr, if that is a
    terminal; nothing of it is left behind."""
    shown = sys.stderr if stream is None else stream
    if not shown.isatty():
        yield
        return
    done, started = threading.Event(), time.monotonic()

    def tell() -> None:
        while not done.wait(AFTER):
            shown.write(f"{_CLEAR}{what[:100]} {time.monotonic() - started:.0f} s")
            shown.flush()

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()
        if time.monotonic() - started > AFTER:
            shown.write(_CLEAR)
            shown.flush()
