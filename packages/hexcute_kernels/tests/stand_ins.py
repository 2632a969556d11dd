"""A GPU that is not there: tensors in the host's memory that say they are on it, and launches that
are noted instead of made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch

from hexcute_kernels.gpus import Gpu


class OnGpu(torch.Tensor):
    """A tensor that reports GPU 0 as its place."""

    @property
    def device(self) -> torch.device:
        return torch.device("cuda", 0)

    def get_device(self) -> int:
        return 0


def on_gpu(tensor: torch.Tensor) -> torch.Tensor:
    """The same elements, on the GPU that is not there."""
    return tensor.as_subclass(OnGpu)


@dataclass(frozen=True)
class Noted:
    """A launch that was noted: the kernel, its constants, the arguments it was prepared for, and
    the addresses it was called with."""

    kernel: Any
    constants: dict[str, object]
    prepared: tuple[Any, ...]
    addresses: list[int]


@contextmanager
def gpu(name: str, target: str) -> Iterator[list[Noted]]:
    """Inside, GPU 0 is of this model, and launches are noted."""
    launches: list[Noted] = []

    def fixed(kernel: Any, *args: Any, **constants: object) -> Any:
        return lambda at: launches.append(Noted(kernel, constants, args, list(at)))

    with (
        patch("hexcute_kernels.operator.gpu_of", lambda device: Gpu(name, target)),
        patch("hexcute_core.driver.kernel.Kernel.fixed", fixed),
    ):
        yield launches
