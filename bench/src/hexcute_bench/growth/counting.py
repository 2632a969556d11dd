"""Work of a compilation, in calls of functions: the same number on every machine.

    work(stage) = calls of functions of ours and of the code generator while it runs

Times tell how long a program takes, counts whether it takes more than its share: they need no
quiet machine.
"""

from __future__ import annotations

import cProfile
import functools
import gc
import pstats
from collections.abc import Callable, Mapping
from typing import Any

from hexcute_bench.growth.programs import Kind, load
from hexcute_core.backend import emit

_COUNTED = ("hexcute_core", "cute_layout", "hidet")


def work(kind: Kind, size: int) -> Mapping[str, int]:
    """Calls by stage, from the frontend to the C++ source, for `size` of `kind`."""
    compiled = load(kind, size).compile(kind.target)
    stages: dict[str, Callable[[], Any]] = {
        "frontend": lambda: compiled.tile,
        "synthesis": lambda: compiled.solution,
        "lowering": lambda: compiled.thread,
        "backend": lambda: emit(compiled.thread, kind.target),
    }
    _forget()
    return {name: _calls(run) for name, run in stages.items()}


def _calls(run: Callable[[], Any]) -> int:
    profile = cProfile.Profile()
    profile.runcall(run)
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    return sum(
        calls
        for (file, _, _), (_, calls, *_rest) in stats.items()
        if any(f"/{name}/" in file for name in _COUNTED)
    )


def _forget() -> None:
    """Empties our caches: what other compilations left there is work too."""
    for found in gc.get_objects():
        cache = isinstance(found, functools._lru_cache_wrapper)
        if cache and found.__module__.startswith(_COUNTED):
            found.cache_clear()
