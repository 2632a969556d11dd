"""What a GPU has and what it is called: features that variants need, names that tables go by."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from hexcute_core.arch import arch
from hexcute_core.runtime import device_target

KIN = {
    "h100": ("h200", "gh200"),
    "h200": ("h100", "gh200"),
    "gh200": ("h200", "h100"),
    "h800": ("h100", "h200"),
    "h20": ("h200", "h100"),
    "a800": ("a100",),
}
"""For a GPU, those whose tables serve it where it has none of its own, the nearest first."""


@dataclass(frozen=True)
class Gpu:
    """A GPU by the short name of its model, as "h100", and the target that its code is for."""

    name: str
    target: str

    @property
    def features(self) -> frozenset[str]:
        """What variants may need of it."""
        return features(self.target)


@cache
def features(target: str) -> frozenset[str]:
    """What GPUs of a target have: "mma.sync" and "cp.async" all of them, "fp8" products sm_89 and
    later ones, "wgmma", "tma" and "clusters" Hopper."""
    table = arch(target)
    found = {"mma.sync", "cp.async"}
    if table.capability >= (8, 9):
        found.add("fp8")
    if table.wgmmas:
        found.add("wgmma")
    if table.bulk is not None:
        found |= {"tma", "clusters"}
    return frozenset(found)


@cache
def gpu_of(device: int) -> Gpu:
    """The GPU of this ordinal. Raises LaunchError for one that kernels are not compiled for."""
    import torch

    return Gpu(short_name(torch.cuda.get_device_name(device)), device_target(device))


def short_name(marketing: str) -> str:
    """The model in a GPU's full name: "h100" of "NVIDIA H100 80GB HBM3"; the whole name in lower
    case where no word of it looks like a model."""
    words = re.findall(r"[a-z0-9]+", marketing.lower())
    return next((word for word in words if re.fullmatch(r"[a-z]+\d+", word)), "".join(words))
