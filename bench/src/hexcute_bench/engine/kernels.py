"""What a replayed graph spends its time on, kernel by kernel, by torch's profiler."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

HOUR_NS = 3_600_000_000_000
_NAME = re.compile(r"(?:void )?(?:\w+::)*(\w+)")


@dataclass(frozen=True)
class Kernel:
    """Launches of one name in a run, and the microseconds of all of them."""

    name: str
    launches: int
    us: float


@dataclass(frozen=True)
class Launch:
    """A kernel of a run: its name, when it began on the clock that all processes of a host share,
    from the full hour, and how long it took, in microseconds."""

    name: str
    start_us: float
    us: float


def short(name: str) -> str:
    """A kernel's name without its namespaces and templates."""
    found = _NAME.match(name)
    return found[1] if found else name


def launches(run: Callable[[], Any]) -> list[Launch]:
    """The kernels of one run, as they began: of two equal ones behind each other the second, since
    ranks begin to profile at different times and meet in the first."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    run()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(2):
            run()
            torch.cuda.synchronize()
    # The profiler counts from where it began, each process's its own.
    begun = seen.profiler.kineto_results.trace_start_ns() % HOUR_NS * 1e-3
    found = [
        Launch(short(event.name), begun + event.time_range.start, event.time_range.elapsed_us())
        for event in seen.events()
        if event.device_type == torch.autograd.DeviceType.CUDA
    ]
    return second(found)


def second(found: Sequence[Launch]) -> list[Launch]:
    """Of the launches of two equal runs those of the second, as they began."""
    return sorted(found, key=lambda launch: launch.start_us)[len(found) // 2 :]


def kernels(run: Callable[[], Any]) -> list[Kernel]:
    """The kernels of one run by their names, the longest first."""
    times: dict[str, list[float]] = {}
    for launch in launches(run):
        times.setdefault(launch.name, []).append(launch.us)
    found = [Kernel(name, len(us), sum(us)) for name, us in times.items()]
    return sorted(found, key=lambda kernel: -kernel.us)


def told(found: Sequence[Kernel], most: int = 16) -> str:
    """The longest ones as text: name, launches and microseconds of each."""
    return "; ".join(f"{k.name} x{k.launches} {k.us:.0f}" for k in found[:most])
