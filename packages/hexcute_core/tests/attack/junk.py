"""Values that fit nowhere: what a caller passes by mistake, or what a file or another library hands
on."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np

import hexcute_core as hx


class Hostile:
    """Answers every attribute with an object like itself, and no question."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Hostile()

    def __bool__(self) -> bool:
        raise RuntimeError("neither true nor false")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not to be compared")

    __hash__ = None  # type: ignore[assignment]


def _endless() -> list[Any]:
    inner: list[Any] = []
    inner.append(inner)
    return inner


def values(rng: random.Random) -> Any:
    """One of them."""
    return rng.choice(_VALUES)()


_VALUES = [
    lambda: None, lambda: True, lambda: False, lambda: -1, lambda: 0, lambda: 3, lambda: 1.5,
    lambda: float("nan"), lambda: float("inf"), lambda: 2**31, lambda: 2**63, lambda: 2**70,
    lambda: -(2**64), lambda: 10**400, lambda: "", lambda: "a", lambda: "²", lambda: "\0",
    lambda: "sm_90", lambda: "é" * 300, lambda: b"bytes", list, lambda: [1], lambda: (1,),
    lambda: (0, 0, 0), lambda: (1, 2, 3, 4), dict, lambda: {"a": 1}, lambda: {1: 2},
    lambda: {1, 2}, lambda: frozenset(), object, lambda: object, lambda: len, lambda: 1 + 2j,
    lambda: lambda *_: None, lambda: np.int64(3), lambda: np.float32(1.5), lambda: np.bool_(True),
    lambda: np.zeros(3), lambda: np.zeros(()), lambda: np.array([None]), lambda: np.array("text"),
    lambda: np.ma.masked, lambda: np.ma.zeros(4), lambda: np.zeros(2, [("a", "f4")]),
    lambda: slice(None), lambda: range(3), lambda: ..., lambda: NotImplemented, lambda: hx.f16,
    lambda: hx.f16[2, 3], lambda: hx.dim("q"), lambda: Path("x"), lambda: ValueError("x"), Hostile,
    _endless, lambda: (i for i in range(3)), lambda: memoryview(b"ab"), lambda: hx, lambda: int,
]  # fmt: skip
