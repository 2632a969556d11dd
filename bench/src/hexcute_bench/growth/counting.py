"""Work of a compilation, in calls of functions: the same number on every machine.

    work(stage) = calls of functions of ours and of the code generator while it runs

Times tell how long a program takes, counts whether it takes more than its share: they need no
quiet machine.
"""

from __future__ import annotations

import cProfile
import functools
import inspect
import pstats
import sys
from collections.abc import Callable, Iterator, Mapping
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
    # Functions of C are no work of ours, and following them takes longer than running them.
    profile = cProfile.Profile(builtins=False)
    profile.runcall(run)
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    return sum(
        calls
        for (file, _, _), (_, calls, *_rest) in stats.items()
        if any(f"/{name}/" in file for name in _COUNTED)
    )


def _forget() -> None:
    """Empties our caches: what other compilations left there is work too."""
    for name, module in list(sys.modules.items()):
        if name.startswith(_COUNTED):
            for cache in _caches(module):
                cache.cache_clear()


def _caches(module: Any) -> Iterator[Any]:
    """Of a module's functions, and of its classes' methods."""
    for value in list(vars(module).values()):
        if isinstance(value, functools._lru_cache_wrapper):
            yield value
        elif inspect.isclass(value) and value.__module__ == module.__name__:
            for method in vars(value).values():
                function = getattr(method, "__func__", method)
                if isinstance(function, functools._lru_cache_wrapper):
                    yield function
