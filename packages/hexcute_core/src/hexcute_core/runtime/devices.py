"""The GPUs of this machine, and which target's code each runs."""

from __future__ import annotations

from hexcute_core.arch.features import TARGETS
from hexcute_core.errors import LaunchError, MissingDependency
from hexcute_core.runtime.cuda_driver import Driver, cuda_driver

_TARGETS = {target.capability: target.name for target in TARGETS.values()}


def device_count(driver: Driver | None = None) -> int:
    """How many GPUs this process sees: 0 where there is no driver. Does not import torch."""
    try:
        return (driver or cuda_driver()).device_count()
    except MissingDependency:
        return 0


def device_target(device: int = 0, driver: Driver | None = None) -> str:
    """The target to compile for, to run on a GPU. Raises `LaunchError` for unsupported ones."""
    major, minor = (driver or cuda_driver()).capability(device)
    target = _TARGETS.get((major, minor))
    if target is None:
        raise LaunchError(
            f"GPU {device} has compute capability {major}.{minor}; "
            f"expected one of {', '.join(f'{a}.{b}' for a, b in _TARGETS)}"
        )
    return target


def multiprocessors(device: int = 0, driver: Driver | None = None) -> int:
    """How many blocks of a persistent kernel run side by side on a GPU."""
    return (driver or cuda_driver()).multiprocessors(device)


def runs_on(arch: str, capability: tuple[int, int]) -> bool:
    """Whether machine code for `arch` runs on a GPU: same major, no later minor; `a` is exact."""
    digits = arch.removeprefix("sm_").rstrip("a")
    major, minor = int(digits[:-1]), int(digits[-1])
    if arch.endswith("a"):
        return capability == (major, minor)
    return capability[0] == major and capability[1] >= minor


def runnable(capability: tuple[int, int]) -> str | None:
    """The latest target whose code a GPU of this compute capability runs; None where there is
    none."""
    found = (t.name for t in TARGETS.values() if runs_on(t.code, capability))
    return max(found, default=None)
