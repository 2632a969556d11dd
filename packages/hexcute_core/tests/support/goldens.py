"""Texts kept beside the tests. `python -m pytest --update-goldens` writes those that changed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "goldens"


def same(name: str, text: str, update: bool) -> None:
    """Asserts that `text` is the golden called `name`; with `update`, makes it so."""
    path = FOLDER / name
    if update:
        FOLDER.mkdir(exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
        return
    assert path.exists(), f"no golden {name}; write it with --update-goldens"
    kept = path.read_text(encoding="utf-8")
    assert text == kept, f"{name} changed{os.linesep}run with --update-goldens if it should have"


def within(fn: Callable[..., Any], text: str) -> str:
    """`text` with places in the file of `fn` as lines below its `def`, as `softmax+3`. The columns
    of these lines are one space apart: their widths came from the places."""
    code = fn.__code__
    place = re.compile(rf"\b{re.escape(Path(code.co_filename).name)}:(\d+)")

    def below(match: re.Match[str]) -> str:
        return f"{fn.__name__}+{int(match[1]) - code.co_firstlineno}"

    lines = ((line, place.sub(below, line)) for line in text.split("\n"))
    return "\n".join(new if new == old else re.sub(r"(?<=\S) {2,}", " ", new) for old, new in lines)
