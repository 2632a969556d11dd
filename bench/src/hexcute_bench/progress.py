"""Progress on the terminal: tqdm's bar on a terminal where tqdm is installed, otherwise lines."""

from __future__ import annotations

import importlib.util
import sys
import time
from types import TracebackType
from typing import Any


class Progress:
    """A bar over `total` steps; `say` prints a line without breaking the bar."""

    def __init__(self, title: str, total: int, quiet: bool = False) -> None:
        self._title, self._total, self._done, self._quiet = title, total, 0, quiet
        self._start = time.monotonic()
        self._bar: Any = None
        if not quiet and sys.stderr.isatty() and importlib.util.find_spec("tqdm") is not None:
            from tqdm import tqdm

            self._bar = tqdm(total=total, desc=title, leave=True)

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def step(self, text: str = "") -> None:
        self._done += 1
        if self._bar is not None:
            self._bar.update(1)
        passed = time.monotonic() - self._start
        self.say(f"[{self._title} {self._done}/{self._total} {passed:.0f}s] {text}")

    def say(self, text: str) -> None:
        if self._quiet:
            return
        if self._bar is not None:
            self._bar.write(text)
        else:
            print(text, flush=True)
