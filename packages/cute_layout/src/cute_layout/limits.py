"""What an operation asks of its arguments before it begins: a plain layout, offsets, a table that
fits into memory.
"""

from __future__ import annotations

from typing import Any

from cute_layout.errors import UnsupportedError
from cute_layout.layout import Layout

__all__ = ["MOST_VALUES", "need_offsets", "need_plain"]

MOST_VALUES = 1 << 22
"""The longest table of values that is made."""


def need_plain(layout: Any, what: str) -> None:
    """Raises UnsupportedError unless `layout` is a `Layout`."""
    if not isinstance(layout, Layout):
        raise UnsupportedError(f"{what} of {layout}: only a plain layout has one")


def need_offsets(layout: Any, what: str) -> None:
    """Raises UnsupportedError unless `layout` is a `Layout` that gives offsets."""
    need_plain(layout, what)
    if layout.is_coordinate:
        raise UnsupportedError(f"{what} of the coordinate layout {layout}; linearize it first")
