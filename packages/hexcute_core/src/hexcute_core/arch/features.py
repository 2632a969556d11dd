"""The one table of what a target is called, which GPUs it is for, and which features these have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

Capability: TypeAlias = tuple[int, int]
Feature: TypeAlias = Literal[
    "mma.sync", "cp.async", "fp8", "vector atomics", "tma", "clusters", "setmaxnreg", "wgmma"
]
"""Conversions and products of 8-bit floats are "fp8"; sums of bf16 in memory, and of more than a
word at once, are "vector atomics"; mbarriers, fences of proxies, stmatrix and dependent launches
came with "tma"."""


@dataclass(frozen=True)
class Target:
    """GPUs of one compute capability; `code` is NVRTC's name for what is compiled for them."""

    name: str
    capability: Capability
    code: str


TARGETS: Mapping[str, Target] = {
    t.name: t
    for t in (
        Target("sm_80", (8, 0), "sm_80"),
        Target("sm_86", (8, 6), "sm_86"),
        Target("sm_89", (8, 9), "sm_89"),
        Target("sm_90", (9, 0), "sm_90a"),
    )
}
_LATER = (99, 0)
_HAVE: Mapping[Feature, tuple[Capability, Capability]] = {
    "mma.sync": ((8, 0), _LATER),
    "cp.async": ((8, 0), _LATER),
    "fp8": ((8, 9), _LATER),
    "vector atomics": ((9, 0), _LATER),
    "tma": ((9, 0), _LATER),
    "clusters": ((9, 0), _LATER),
    "setmaxnreg": ((9, 0), _LATER),
    "wgmma": ((9, 0), (10, 0)),
}
"""The capabilities that have a feature: from the first on, before the second."""


def features(capability: Capability) -> frozenset[Feature]:
    """What GPUs of a compute capability have."""
    return frozenset(f for f, (first, end) in _HAVE.items() if first <= capability < end)


def first_with(feature: Feature) -> str:
    """The name of the oldest target that has a feature."""
    return next(t.name for t in TARGETS.values() if feature in features(t.capability))


def capability_of(code: str) -> Capability:
    """The compute capability that code is compiled for, by a name as "sm_80" or "sm_90a"."""
    return divmod(int("".join(c for c in code if c.isdigit())), 10)
