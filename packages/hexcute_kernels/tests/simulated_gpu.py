"""A GPU in software: operators take tensors in the host's memory, and every launch they make is
simulated on that memory."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import ml_dtypes
import numpy as np
import torch

from hexcute_kernels import FAMILIES, operator_named
from hexcute_kernels.gpus import Gpu

NUMPY = {
    torch.bfloat16: ml_dtypes.bfloat16,
    torch.float8_e4m3fn: ml_dtypes.float8_e4m3fn,
    torch.float16: np.float16,
    torch.float32: np.float32,
    torch.int32: np.int32,
    torch.uint16: np.uint16,
}


def array_at(address: int, like: torch.Tensor) -> Any:
    """The memory from `address` on, with the shape, strides and type of `like`."""
    size = like.element_size()
    reach = 1 + sum((n - 1) * s for n, s in zip(like.shape, like.stride()))
    if like.numel() == 0:
        return np.zeros(tuple(like.shape), NUMPY[like.dtype])
    held = (ctypes.c_byte * (reach * size)).from_address(address)
    strides = tuple(s * size for s in like.stride())
    return np.ndarray(tuple(like.shape), NUMPY[like.dtype], buffer=held, strides=strides)


@contextmanager
def simulated_gpu(name: str, target: str) -> Iterator[list[str]]:
    """Inside, operators run on a GPU of this model by simulation; gives the kernels launched."""
    launched: list[str] = []

    def fixed(kernel: Any, *args: Any, **constants: object) -> Any:
        def run(addresses: Sequence[int]) -> None:
            at = iter(addresses)
            given = [array_at(next(at), a) if isinstance(a, torch.Tensor) else a for a in args]
            kernel.simulate(*given, target=target, **constants)
            launched.append(kernel.__name__)

        return run

    patches = [
        patch("hexcute_kernels.operator.gpu_of", lambda device: Gpu(name, target)),
        patch("hexcute_kernels.operator.check_memory", lambda *of: None),
        patch("hexcute_core.driver.kernel.Kernel.fixed", fixed),
        # Calls that were prepared for another GPU are not known here.
        *(patch.object(operator_named(o), "_ready", {}) for o in FAMILIES),
    ]
    with ExitStack() as stack:
        for each in patches:
            stack.enter_context(each)
        yield launched
