"""Seconds of each stage by the size of a program, each compiled in a process of its own.

    time(n) <= c * n * log2(2 n), for every kind of program

They are a processor's seconds, which others on the machine lengthen little. The processes are
forked from one that has loaded the compiler, so none finds what another worked out.
"""

from __future__ import annotations

import multiprocessing
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import hexcute_core
from hexcute_bench.growth.programs import KINDS, Kind, load
from hexcute_bench.interface import Settings
from hexcute_bench.rows import FAILED, OK
from hexcute_core.backend import emit
from hexcute_core.toolchain import compile_cubin

STAGES = ("frontend", "synthesis", "lowering", "backend", "toolchain")
SECONDS = 300
"""A compilation that takes longer fails."""


def keys(quick: bool) -> Sequence[str]:
    return [kind.name for kind in KINDS]


def measure(key: str, settings: Settings) -> Sequence[Mapping[str, Any]]:
    """A row a size, in order."""
    kind = next(k for k in KINDS if k.name == key)
    hexcute_core.preload()
    sizes = kind.sizes[:4] if settings.quick else kind.sizes
    return [_row(kind, size) for size in sizes]


def _row(kind: Kind, size: int) -> Mapping[str, Any]:
    row = {"key": kind.name, "group": kind.group, "n": size, "target": kind.target}
    found = _compiled(kind, size)
    if isinstance(found, str):
        return {**row, "status": FAILED, "note": found[:300]}
    return {**row, "status": OK, **found}


def _compiled(kind: Kind, size: int) -> dict[str, Any] | str:
    """Seconds by stage, or why there are none."""
    here, there = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_child, args=(there, kind, size))
    process.start()
    there.close()
    try:
        said: dict[str, Any] | str = here.recv() if here.poll(SECONDS) else f"over {SECONDS} s"
    except EOFError:
        said = "the process ended"
    process.kill()
    process.join()
    return said


def _child(out: Any, kind: Kind, size: int) -> None:
    warnings.simplefilter("ignore")
    try:
        compiled = load(kind, size).compile(kind.target)
        runs: dict[str, Callable[[], Any]] = {
            "frontend": lambda: compiled.tile,
            "synthesis": lambda: compiled.solution,
            "lowering": lambda: compiled.thread,
            "backend": lambda: emit(compiled.thread, kind.target),
        }
        found = {name: _timed(run) for name, run in runs.items()}
        source = found["backend"][1].text
        found["toolchain"] = _timed(lambda: compile_cubin(source, kind.target))
        seconds = {f"{stage}_s": found[stage][0] for stage in STAGES}
        exact = int(compiled.solution.exact)
        out.send({**seconds, "total_s": sum(seconds.values()), "exact": exact})
    except Exception as error:
        out.send(f"{type(error).__name__}: {error}")


def _timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of this process, and what came of it."""
    began = time.process_time()
    result = run()
    return time.process_time() - began, result
