"""tuner: a space of compile-time constants -> the fastest of them on this GPU.

    rank by the cost model -> compile the best few -> time them in turns -> keep what was found

`tune(bench, space)` does it. What is tuned is a `Bench`: `KernelBench` for a kernel of one's own.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from hexcute_core.errors import TunerError

if TYPE_CHECKING:
    from hexcute_core.tuner.bench import Bench, Task
    from hexcute_core.tuner.kernel_bench import KernelBench
    from hexcute_core.tuner.progress import Progress
    from hexcute_core.tuner.report import Outcome, Report
    from hexcute_core.tuner.space import Space
    from hexcute_core.tuner.tuning import tune
    from hexcute_core.tuner.workers import Pool

# A process of the tuner loads what its bench needs, and no more.
_HOMES = {
    "Bench": "bench", "KernelBench": "kernel_bench", "Outcome": "report", "Pool": "workers",
    "Progress": "progress", "Report": "report", "Space": "space", "Task": "bench", "tune": "tuning",
}  # fmt: skip
__all__ = [
    "Bench", "KernelBench", "Outcome", "Pool", "Progress", "Report", "Space", "Task", "TunerError",
    "tune",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name in _HOMES:
        found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = found
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
