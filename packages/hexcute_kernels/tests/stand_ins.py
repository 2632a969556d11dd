"""A GPU that is not there: tensors in the host's memory that say they are on it, and launches that
are noted instead of made, where kernels are prepared or where the driver is called."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import torch

from hexcute_core.runtime.torch_link import TorchLink
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


@dataclass
class NotingDriver:
    """A driver that loads and launches nothing: `loaded` are names and machine code, `launched` the
    functions, which are numbers from 1 on."""

    of: tuple[int, int] = (9, 0)
    loaded: list[tuple[str, bytes]] = field(default_factory=list)
    launched: list[int] = field(default_factory=list)

    def device_count(self) -> int:
        return 1

    def capability(self, device: int) -> tuple[int, int]:
        return self.of

    def multiprocessors(self, device: int) -> int:
        return 132

    def shared_limit(self, device: int) -> int:
        return 232_448

    def primary_context(self, device: int) -> int:
        return 1

    def current_context(self) -> int:
        return 1

    def set_context(self, context: int) -> None:
        assert context == 1

    def load(self, image: bytes, name: str) -> int:
        self.loaded.append((name, image))
        return len(self.loaded)

    def allow_shared(self, function: int, size: int) -> None:
        assert function == len(self.loaded)

    def words(self, status: int) -> tuple[str, str | None]:
        return f"status {status}", None

    def tensor_map(self, *of: Any) -> bytes:
        return bytes(128)

    def launch(self, config: int, function: int, params: int, end: None) -> int:
        self.launched.append(function)
        return 0


@contextmanager
def driver(name: str, capability: tuple[int, int]) -> Iterator[NotingDriver]:
    """Inside, GPU 0 is of this model and compute capability; all but the driver is as ever."""
    noting, link = NotingDriver(capability), TorchLink(lambda: 0, lambda device: 7)
    target = "sm_{}{}".format(*capability)
    with (
        patch("hexcute_kernels.operator.gpu_of", lambda device: Gpu(name, target)),
        patch("hexcute_core.runtime.loaded.cuda_driver", lambda: noting),
        patch("hexcute_core.runtime.devices.cuda_driver", lambda: noting),
        patch("hexcute_core.runtime.loaded.torch_link", lambda: link),
    ):
        yield noting
