"""`python -m hexcute_core.tuner.worker IN OUT`: the process behind a `Worker`.

It reads an object, then calls of its methods, and writes what they give or raise; another object
takes the place of the one before. Where the object
has a method `alive`, it is asked after every error, and where it says no the process ends: a CUDA
context in which a kernel has faulted is of no more use.
"""

from __future__ import annotations

import ctypes
import gc
import pickle
import signal
import sys
from contextlib import suppress
from multiprocessing.connection import Connection

from hexcute_core.errors import HexcuteError

_PARENT_DEATH_SIGNAL = 1
MOST = 300
"""Letters of a reason."""


def _end_with_parent() -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def _words(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    if isinstance(error, HexcuteError):
        return " ".join(lines)[:MOST]
    # What CUDA says after its first line is advice for all its errors alike.
    return f"{type(error).__name__}: {lines[0]}"


def main(source: int, sink: int) -> None:
    """Serves until the parent closes the connection."""
    _end_with_parent()
    asked, told = Connection(source, writable=False), Connection(sink, readable=False)
    work: object = None
    while True:
        try:
            method, args = asked.recv()
        except EOFError:
            return
        if method == "work":
            # What the one before holds of the GPU is free for this one.
            work = None
            gc.collect()
            try:
                work = pickle.loads(args)
            except Exception as error:
                told.send(("died", _words(error)))
                return
            told.send(("done", None))
            continue
        try:
            told.send(("done", getattr(work, method)(*args)))
        except Exception as error:
            alive = getattr(work, "alive", None)
            if alive is not None and not alive():
                told.send(("died", _words(error)))
                return
            told.send(("refused", _words(error)))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
