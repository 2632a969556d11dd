"""Texts kept beside the tests. `python -m pytest --update-goldens` writes those that changed."""

from __future__ import annotations

import os
from pathlib import Path

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
