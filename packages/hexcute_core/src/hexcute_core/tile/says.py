"""What a running kernel says of itself."""

from __future__ import annotations

from dataclasses import dataclass

from hexcute_core.errors import SourceSpan
from hexcute_core.scalar import Scalar


@dataclass(frozen=True)
class Say:
    """A single thread prints `text`, a format of `args`; or, with `holds`, ends the kernel in an
    error that says it where that is false. With `once`, one thread does it for its team."""

    text: str
    args: tuple[Scalar, ...]
    holds: Scalar | None
    once: bool
    span: SourceSpan
