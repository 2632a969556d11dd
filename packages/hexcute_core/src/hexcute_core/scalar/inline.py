"""Inline PTX as the name of a call: `ptx TEXT`. Where it is `ptx= TEXT`, the last argument is what
the instructions compute, for those who do not run them."""

from __future__ import annotations

PTX, MEANT = "ptx ", "ptx= "


def text_of(name: str) -> str | None:
    """The instructions that a call named so stands for; None for other calls."""
    for prefix in (PTX, MEANT):
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return None
