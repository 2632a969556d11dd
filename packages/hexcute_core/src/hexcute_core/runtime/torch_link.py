"""What a launch asks of torch: the current device, and a device's current stream."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from hexcute_core.errors import MissingDependency
from hexcute_core.pip import installing

INSTALL = (
    f"{installing('torch')}; without it, kernel.simulate(...) takes numpy arrays and needs no GPU"
)


@dataclass(frozen=True)
class TorchLink:
    """Two calls, both of tens of nanoseconds: they go around torch's Python wrappers."""

    current_device: Callable[[], int]
    current_stream: Callable[[int], int]


@lru_cache(maxsize=1)
def torch_link() -> TorchLink:
    """Torch's own, imported at the first call. Raises `MissingDependency`."""
    try:
        bindings = importlib.import_module("torch")._C
        return TorchLink(bindings._cuda_getDevice, bindings._cuda_getCurrentRawStream)
    except (ImportError, AttributeError) as error:
        raise MissingDependency(
            f"launching needs torch built for CUDA: {error}", fix=INSTALL
        ) from error
