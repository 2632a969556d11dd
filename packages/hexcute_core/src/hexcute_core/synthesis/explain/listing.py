"""Listing = a text that a kernel became, and for each line of it the line of the kernel it is of.

A page shows texts whole, and of a line of the kernel what became of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import Any


@dataclass(frozen=True)
class Listing:
    """`where` says of each line of `text` the line of the kernel (`file.py:7`), "" where none
    stands for it, and is empty where that is not known. `note` says why something is missing."""

    name: str
    text: str
    where: tuple[str, ...] = ()
    note: str = ""


def whole(listings: Sequence[Listing]) -> Iterator[str]:
    """The texts as HTML, each folded."""
    for number, listing in enumerate(listings):
        note = f'<p class="soft">{escape(listing.name)}: {escape(listing.note)}</p>'
        if listing.note:
            yield note
        if listing.text:
            lines = listing.text.count("\n")
            yield f"<details><summary>{escape(listing.name)}, {lines} lines</summary>"
            yield f'<pre data-listing="{number}">{escape(listing.text)}</pre></details>'


def linked(listings: Sequence[Listing]) -> list[dict[str, Any]]:
    """What the page's program needs: of each listing its runs of lines, (line of the kernel, how
    many). It reads the texts from the page."""
    return [
        {"name": listing.name, "runs": list(_runs(listing.where))} for listing in listings
    ]


def _runs(where: Iterable[str]) -> Iterator[tuple[str, int]]:
    for place, run in groupby(where):
        yield place, len(list(run))
