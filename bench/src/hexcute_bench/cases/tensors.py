"""What all cases share: random tensors, the rotation's length, and the measure of error.

    error = max over elements of |out - ref| / (|ref| + rms(ref))

One number that sees a single wrong element as well as a wrong tensor; rounding the right answer
to f16 stays under 2^-11, to bf16 under 2^-8.
"""

from __future__ import annotations

import itertools
import math
import os
from typing import Any

from hexcute_bench.timing import rotation, torch_with_gpu

# Room for the orders of summation and for split sums that pass through 16 bits.
F16_TOLERANCE = 2.0**-8
BF16_TOLERANCE = 2.0**-6
_CHUNK = 1 << 26
_seeds = itertools.count(int.from_bytes(os.urandom(4), "little"))


def rotated_sets(set_bytes: float) -> int:
    """Input sets so that the rotation does not fit in this device's L2 cache."""
    torch = torch_with_gpu()
    cache = torch.cuda.get_device_properties(0).L2_cache_size
    free, _ = torch.cuda.mem_get_info()
    return max(1, min(rotation(set_bytes, cache), int(free * 0.6 / max(set_bytes, 1))))


def free_bytes(device: Any) -> float:
    """What may still be allocated on a device; no limit is known of a CPU's memory."""
    import torch

    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else math.inf


def generator(device: str = "cuda") -> Any:
    """A random generator with a seed that no earlier case had."""
    import torch

    return torch.Generator(device=device).manual_seed(next(_seeds))


def randn(shape: tuple[int, ...], dtype: Any, device: str = "cuda") -> Any:
    """Standard normal numbers, drawn afresh at every call."""
    import torch

    return torch.randn(shape, dtype=dtype, device=device, generator=generator(device))


def poisoned(shape: tuple[int, ...], dtype: Any, device: str = "cuda") -> Any:
    """A tensor of NaN."""
    import torch

    return torch.full(shape, math.nan, dtype=dtype, device=device)


def relative_error(output: Any, reference: Any) -> float:
    """The module's error; infinity where shapes differ, NaN where the output holds any."""
    import torch

    if tuple(output.shape) != tuple(reference.shape):
        return math.inf
    scale = reference.double().square().mean().sqrt().float()
    flat, expected = output.reshape(-1), reference.reshape(-1)
    worst = torch.zeros((), device=reference.device)
    for start in range(0, flat.numel(), _CHUNK):
        part = flat[start : start + _CHUNK].float()
        right = expected[start : start + _CHUNK].float()
        # torch.maximum hands a NaN on.
        worst = torch.maximum(worst, ((part - right).abs() / (right.abs() + scale)).max())
    return float(worst)


def exact_products(torch: Any) -> None:
    """References must not run on TF32."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
