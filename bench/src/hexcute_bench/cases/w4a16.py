"""c[m,n] = x[m,k] W, f16 rows and weights of four bits in groups of 128 along k, W =
(q - zero) * scale, checked against the float32 product."""

from __future__ import annotations

import functools
from typing import Any

from hexcute_bench.cases.compared import ComparedCase
from hexcute_bench.cases.moe import GROUP, Quantized, quantized
from hexcute_bench.cases.tensors import (
    F16_TOLERANCE,
    exact_products,
    poisoned,
    randn,
    rotated_sets,
)
from hexcute_bench.interface import Work
from hexcute_bench.shape import Shape


@functools.lru_cache(maxsize=1)
def _weights(sets: int, k: int, n: int, device: str) -> Quantized:
    """The same for all row counts of a run: peers take their time to pack them."""
    return quantized(sets, k, n, GROUP, device)


class W4A16Case(ComparedCase):
    """`x[i]` is [m,k], `c[i]` [m,n], and `w` a stack of weights [k,n], one for each set i."""

    def __init__(self, shape: Shape, sets: int | None = None, device: str = "cuda") -> None:
        import torch

        exact_products(torch)
        self.shape, self.tolerance = shape, F16_TOLERANCE
        self.m, self.n, self.k = shape["m"], shape["n"], shape["k"]
        # As many as one row's bytes need, so that all row counts have the same weights.
        one = w4a16_work(Shape.of(m=1, n=self.n, k=self.k)).bytes
        self.sets = rotated_sets(one) if sets is None else sets
        self.w = _weights(self.sets, self.k, self.n, device)
        half = torch.float16
        self.x = [randn((self.m, self.k), half, device) for _ in range(self.sets)]
        self.c = [poisoned((self.m, self.n), half, device) for _ in range(self.sets)]

    def output(self, index: int) -> Any:
        return self.c[index]

    def right(self, index: int) -> Any:
        return self.x[index].float() @ self.w.expert(index)


def w4a16_work(shape: Shape) -> Work:
    """2mnk operations; the weights once at half a byte with their scales and zero points, x and c
    at 2 bytes per element."""
    m, n, k = shape["m"], shape["n"], shape["k"]
    return Work(2.0 * m * n * k, n * k * (0.5 + 2.5 / GROUP) + 2.0 * m * (n + k))
