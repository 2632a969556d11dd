"""What a replayed graph spends its time on, kernel by kernel, by torch's profiler."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

_NAME = re.compile(r"(?:void )?(?:\w+::)*(\w+)")


@dataclass(frozen=True)
class Kernel:
    """Launches of one name in a run, and the microseconds of all of them."""

    name: str
    launches: int
    us: float


def short(name: str) -> str:
    """A kernel's name without its namespaces and templates."""
    found = _NAME.match(name)
    return found[1] if found else name


def kernels(run: Callable[[], Any]) -> list[Kernel]:
    """The kernels of one run, the longest first."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    run()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        run()
        torch.cuda.synchronize()
    launches, spent = Counter[str](), Counter[str]()
    for event in seen.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            name = short(event.name)
            launches[name] += 1
            spent[name] += event.time_range.elapsed_us()
    return [Kernel(name, launches[name], us) for name, us in spent.most_common()]


def told(found: Sequence[Kernel], most: int = 16) -> str:
    """The longest ones as text: name, launches and microseconds of each."""
    return "; ".join(f"{k.name} x{k.launches} {k.us:.0f}" for k in found[:most])
