"""What a GPU has and what it is called: features that variants need, names that tables go by."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from hexcute_core.arch import arch
from hexcute_core.errors import LaunchError
from hexcute_core.runtime import device_count, device_target

KIN = {
    "h100": ("h200", "gh200"),
    "h200": ("h100", "gh200"),
    "gh200": ("h200", "h100"),
    "h800": ("h100", "h200"),
    "h20": ("h200", "h100"),
    "a800": ("a100",),
}
"""For a GPU, those whose tables serve it where it has none of its own, the nearest first."""


TARGETS = {
    "a100": "sm_80", "a800": "sm_80", "a30": "sm_80", "a10": "sm_86", "a40": "sm_86",
    "a6000": "sm_86", "l4": "sm_89", "l40": "sm_89", "l40s": "sm_89", "h20": "sm_90",
    "h100": "sm_90", "h200": "sm_90", "h800": "sm_90", "gh200": "sm_90",
}  # fmt: skip
"""Targets of GPUs that are named where they are not, to compile for them."""
_MULTIPROCESSORS = {
    "a100": 108, "a800": 108, "a30": 56, "a10": 72, "a40": 84, "a6000": 84, "l4": 58, "l40": 142,
    "l40s": 142, "h20": 78,
}  # fmt: skip


@dataclass(frozen=True)
class Gpu:
    """A GPU by the short name of its model, as "h100", and the target that its code is for."""

    name: str
    target: str

    @property
    def multiprocessors(self) -> int:
        """How many it has, as far as is known of one that is not here."""
        return _MULTIPROCESSORS.get(self.name, 132)

    @property
    def features(self) -> frozenset[str]:
        """What variants may need of it."""
        return features(self.target)


@cache
def features(target: str) -> frozenset[str]:
    """What GPUs of a target have: "mma.sync" and "cp.async" all of them, "fp8" products sm_89 and
    later ones, "wgmma", "tma" and "clusters" Hopper."""
    return frozenset(arch(target).features)


@cache
def gpu_of(device: int) -> Gpu:
    """The GPU of this ordinal. Raises LaunchError for one that kernels are not compiled for."""
    import torch

    return Gpu(short_name(torch.cuda.get_device_name(device)), device_target(device))


def gpu_named(name: str) -> Gpu:
    """A GPU that need not be here, by its short name. Raises LaunchError for an unknown one."""
    target = TARGETS.get(name)
    if target is None:
        raise LaunchError(f"no GPU {name!r} is known", fix=f"use one of {', '.join(TARGETS)}")
    return Gpu(name, target)


def gpu_here() -> Gpu:
    """The first GPU of this machine. Raises LaunchError where there is none."""
    if device_count() == 0:
        fix = "use a machine with one, or name the GPU to compile for"
        raise LaunchError("there is no GPU here", fix=fix)
    return gpu_of(0)


def short_name(marketing: str) -> str:
    """The model in a GPU's full name: "h100" of "NVIDIA H100 80GB HBM3"; the whole name in lower
    case where no word of it looks like a model."""
    words = re.findall(r"[a-z0-9]+", marketing.lower())
    return next((word for word in words if re.fullmatch(r"[a-z]+\d+", word)), "".join(words))
