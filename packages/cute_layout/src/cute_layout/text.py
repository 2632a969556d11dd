"""Reading layouts from text: ``((2,2),8):((1,16),2)`` is shape, colon, stride.

Numbers may be negative; ``8@1`` is a basis stride and ``1@0+1@1`` a sum of them. A word is handed
to the caller, who decides what a name stands for.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from cute_layout.basis import Basis
from cute_layout.errors import ParseError
from cute_layout.trees import DEPTH

__all__ = ["parse_trees"]

_TOKEN = re.compile(r"\s*(?:(-?\d+(?:@\d+)*)|(~?[A-Za-z_][A-Za-z_0-9']*)|([(),:+]))")


def _no_names(name: str) -> Any:
    raise ParseError(
        f"the name {name!r} is not a number; only PartialLayout.parse and symbols take names"
    )


def parse_trees(text: str, name: Callable[[str], Any] = _no_names) -> tuple[Any, Any]:
    """The shape and the stride in `text` (None where it has no colon).

    Raises:
        ParseError: with the text and the column at which it stops being a layout.
    """
    reader = _Reader(text, name)
    shape = reader.tree()
    stride = None
    if reader.peek() == ":":
        reader.take()
        stride = reader.tree()
    if reader.peek() is not None:
        raise reader.error("the end")
    return shape, stride


class _Reader:
    def __init__(self, text: str, name: Callable[[str], Any]) -> None:
        self.text = text
        self.name = name
        self.tokens: list[tuple[int, str]] = []
        self.next = 0
        self.depth = 0
        at = 0
        end = len(text.rstrip())
        while at < end:
            found = _TOKEN.match(text, at)
            if not found:
                raise ParseError(
                    f"cannot read {text!r} as a layout: unexpected {text[at : at + 8]!r} at {at}"
                )
            self.tokens.append(
                (found.start(found.lastindex or 0), found.group(found.lastindex or 0))
            )
            at = found.end()

    def peek(self) -> str | None:
        return self.tokens[self.next][1] if self.next < len(self.tokens) else None

    def take(self) -> str:
        token = self.peek()
        if token is None:
            raise self.error("a number or '('")
        self.next += 1
        return token

    def error(self, expected: str) -> ParseError:
        at = self.tokens[self.next][0] if self.next < len(self.tokens) else len(self.text)
        found = self.peek() or "the end"
        return ParseError(
            f"cannot read {self.text!r} as a layout: expected {expected} at {at}, found {found!r}"
        )

    def tree(self) -> Any:
        if self.peek() != "(":
            return self.leaf()
        self.take()
        self.depth += 1
        if self.depth > DEPTH:
            raise ParseError(f"a layout nested in more than {DEPTH} pairs of parentheses")
        children: list[Any] = []
        while self.peek() != ")":
            children.append(self.tree())
            if self.peek() == ",":
                self.take()
            elif self.peek() != ")":
                raise self.error("',' or ')'")
        self.take()
        self.depth -= 1
        return tuple(children)

    def leaf(self) -> Any:
        value = self.term()
        while self.peek() == "+":
            self.take()
            value = value + self.term()
        return value

    def term(self) -> Any:
        token = self.peek()
        if token is None or token in "(),:+":
            raise self.error("a number or '('")
        self.take()
        if token[0].isalpha() or token[0] in "_~":
            return self.name(token)
        number, *path = token.split("@")
        if not path:
            return int(number)
        return Basis([(tuple(int(p) for p in reversed(path)), int(number))])
