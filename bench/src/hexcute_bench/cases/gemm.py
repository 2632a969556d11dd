"""C[m,n] = A[m,k] B[n,k]^T on 16-bit inputs, checked against the float32 product."""

from __future__ import annotations

from typing import Any

from hexcute_bench.cases.compared import ComparedCase
from hexcute_bench.cases.tensors import (
    BF16_TOLERANCE,
    F16_TOLERANCE,
    exact_products,
    poisoned,
    randn,
    rotated_sets,
)
from hexcute_bench.interface import Work
from hexcute_bench.shape import Shape


class GemmCase(ComparedCase):
    """`a[i]` is [m,k], `b[i]` [n,k], `c[i]` [m,n], all row-major, for each set i."""

    def __init__(
        self, shape: Shape, sets: int | None = None, device: str = "cuda", dtype: str = "float16"
    ) -> None:
        import torch

        exact_products(torch)
        self.shape = shape
        self.m, self.n, self.k = shape["m"], shape["n"], shape["k"]
        kind = getattr(torch, dtype)
        self.tolerance = F16_TOLERANCE if dtype == "float16" else BF16_TOLERANCE
        self.sets = rotated_sets(gemm_work(shape).bytes) if sets is None else sets
        self.a = [randn((self.m, self.k), kind, device) for _ in range(self.sets)]
        self.b = [randn((self.n, self.k), kind, device) for _ in range(self.sets)]
        self.c = [poisoned((self.m, self.n), kind, device) for _ in range(self.sets)]

    def output(self, index: int) -> Any:
        return self.c[index]

    def right(self, index: int) -> Any:
        return self.a[index].float() @ self.b[index].float().t()


def gemm_work(shape: Shape) -> Work:
    """2mnk operations; A, B and C moved once at 2 bytes per element."""
    m, n, k = shape["m"], shape["n"], shape["k"]
    return Work(2.0 * m * n * k, 2.0 * (m * k + n * k + m * n))
