"""Edits of what a kernel depends on: none is answered with what was compiled before it."""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from staleness import EDITS, ELSEWHERE, Edit
from test_stale import KERNEL

from attack.verdict import Verdict
from hexcute_core.driver.cache import Cache


def _loaded(edit: Edit, text: str, folder: Path) -> tuple[ModuleType, ModuleType]:
    """The kernel's module beside a `cfg` of this text, as a new process would import them."""
    folder.mkdir()
    (folder / "cfg.py").write_text(text)
    (folder / "kern.py").write_text(KERNEL.format(extra=edit.extra, expr=edit.expr))
    sys.path.insert(0, str(folder))
    for name in ("cfg", "kern"):
        sys.modules.pop(name, None)
    importlib.invalidate_caches()
    return importlib.import_module("kern"), importlib.import_module("cfg")


def _built(kern: ModuleType, cfg: ModuleType, edit: Edit, cache: Cache) -> Any:
    kern.k.cache = cache
    constant = eval(edit.const, {"kern": kern, "cfg": cfg})
    compiled = kern.k.compile("sm_80", C=constant)
    return compiled.from_cache, compiled.source()


def _trial(edit: Edit, folder: Path) -> tuple[str, bool]:
    cache, path = Cache(folder / "cache"), list(sys.path)
    try:
        before = _built(*_loaded(edit, edit.before, folder / "a"), edit, cache)
        after = _built(*_loaded(edit, edit.after, folder / "b"), edit, cache)
        again = _built(*_loaded(edit, edit.before, folder / "c"), edit, cache)
    finally:
        sys.path[:] = path
        for name in ("cfg", "kern"):
            sys.modules.pop(name, None)
    if after[0] or after[1] == before[1]:
        return "stale", False
    # The number of the text before is 2, that of the text after 3.
    return ("compiled anew", True) if again == (True, before[1]) else ("lost", False)


def attack(count: int) -> Iterator[Verdict]:
    """So many edits, each from the text before to the text after, and back."""
    for edit in [*EDITS, *ELSEWHERE][:count]:
        with tempfile.TemporaryDirectory() as place:
            try:
                end, good = _trial(edit, Path(place))
            except Exception as error:
                end, good = f"raises {type(error).__name__}", False
        yield Verdict("stale", "edits", end, good, edit.name)
