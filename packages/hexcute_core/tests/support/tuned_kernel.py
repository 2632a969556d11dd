"""A kernel to tune, with what makes and checks its arguments; imported by the tuner's processes."""

from __future__ import annotations

from typing import Any

import hexcute_core as hx
from hexcute_core import f32

n = hx.dim("n")
N = 100_003


@hx.kernel
def scaled(x: f32[n], y: f32[n], s: f32, *, BN: int = 256, RUNS: int = 1):
    hx.attrs.cuda.grid_dim = hx.cdiv(n, BN * RUNS)
    hx.attrs.cuda.block_dim = 64
    for i in range(RUNS):
        at = (hx.blockIdx.x * RUNS + i) * BN
        r = hx.register_tensor(f32, (BN,))
        hx.copy(hx.global_view(x[at:], ((BN,), (1,))), r)
        hx.copy(r * s, hx.global_view(y[at:], ((BN,), (1,))))


def arguments(index: int, device: str) -> tuple[Any, ...]:
    import torch

    if device == "meta":
        x = torch.empty(N, device=device)
    else:
        x = torch.arange(N, device=device).float() + index
    return x, torch.empty_like(x), 2.0


def check(x: Any, y: Any, s: float) -> bool:
    return bool((y == x * s).all())


def never(x: Any, y: Any, s: float) -> bool:
    return False


def a_list(index: int, device: str) -> list[Any]:
    return []
