"""What goes wrong on the user's side of the harness; each message names the fix."""

from __future__ import annotations

from typing import Any


class BenchError(Exception):
    """A wrong argument, a damaged result file, or a peer that cannot do what is asked."""


class PeerAbsent(BenchError):
    """A peer that is not installed here; the text says what is missing."""


class DeviceLost(BenchError):
    """A peer's launch broke the device for this process; `measured` is that peer's row."""

    def __init__(self, measured: Any) -> None:
        super().__init__(f"{measured.system} broke the device for this process")
        self.measured = measured
