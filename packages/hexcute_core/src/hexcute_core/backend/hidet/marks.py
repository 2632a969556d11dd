"""marked text = CUDA text with a line `//@ k` in front of what was made for the k-th of some spans.

A statement that is printed over several lines has its mark on all of them that no statement inside
it has. Read back, each line of the text has its span, and the text is what it is without marks.
"""

from __future__ import annotations

from typing import Any

from hidet.ir import stmt as hs

from hexcute_core.errors import SourceSpan

_MARK = "//@ "


class Mark(hs.Stmt):  # type: ignore[misc]
    """Printed as a line of its own, the text of which is `text`."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.text = f"{_MARK}{number}"


class Marks:
    """The spans of one text, each with its number."""

    def __init__(self) -> None:
        self._numbers: dict[SourceSpan, int] = {}

    def of(self, span: SourceSpan | None) -> list[Any]:
        """The mark to print in front of what stands at `span`."""
        return [] if span is None else [Mark(self._numbers.setdefault(span, len(self._numbers)))]

    def read(self, marked: str) -> tuple[str, tuple[SourceSpan | None, ...]]:
        """(the text without marks, the span of each of its lines)"""
        spans = list(self._numbers)
        lines: list[str] = []
        found: list[SourceSpan | None] = []
        # What is further out than its mark belongs to the mark before.
        open_: list[tuple[int, SourceSpan]] = []
        for line in marked.splitlines():
            bare = line.lstrip(" ")
            depth = len(line) - len(bare)
            while open_ and open_[-1][0] > depth:
                open_.pop()
            if bare.startswith(_MARK):
                while open_ and open_[-1][0] == depth:
                    open_.pop()
                open_.append((depth, spans[int(bare.removeprefix(_MARK))]))
                continue
            lines.append(line)
            found.append(open_[-1][1] if open_ and bare else None)
        return "\n".join(lines) + "\n", tuple(found)
