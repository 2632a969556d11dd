"""Blockwise scaled FP8 GEMM: C = (SA * A) (SW * W)^T, checked against the float32 product.

Activations have a scale for every row and 128 columns, weights one for every 128 x 128 block.
"""

from __future__ import annotations

from typing import Any

from hexcute_bench.cases.compared import ComparedCase
from hexcute_bench.cases.tensors import (
    exact_products,
    generator,
    poisoned,
    randn,
    rotated_sets,
)
from hexcute_bench.interface import Work
from hexcute_bench.shape import Shape

BLOCK = 128
# bf16 rounds to 2^-9; the Tensor Cores keep fewer bits of FP8 sums than float32 has.
TOLERANCE = 2.0**-7


class Fp8Case(ComparedCase):
    """For each set i: `a[i]` e4m3 [m,k], `w[i]` e4m3 [n,k], `c[i]` bf16 [m,n], and float32
    scales `sa[i]` [m,k/128] (row-major) and `sw[i]` [n/128,k/128]."""

    def __init__(self, shape: Shape, sets: int | None = None, device: str = "cuda") -> None:
        import torch

        exact_products(torch)
        self.shape = shape
        self.m, self.n, self.k = shape["m"], shape["n"], shape["k"]
        self.tolerance = TOLERANCE
        self.sets = rotated_sets(fp8_work(shape).bytes) if sets is None else sets
        count = range(self.sets)
        groups = self.k // BLOCK
        eight = torch.float8_e4m3fn

        def scales(rows: int) -> Any:
            drawn = torch.rand((rows, groups), device=device, generator=generator(device))
            return drawn * 0.02 + 0.01

        self.a = [randn((self.m, self.k), torch.float16, device).to(eight) for _ in count]
        self.w = [randn((self.n, self.k), torch.float16, device).to(eight) for _ in count]
        self.sa = [scales(self.m) for _ in count]
        self.sw = [scales(self.n // BLOCK) for _ in count]
        self.c = [poisoned((self.m, self.n), torch.bfloat16, device) for _ in count]

    def output(self, index: int) -> Any:
        return self.c[index]

    def right(self, index: int) -> Any:
        wide = self.sa[index].repeat_interleave(BLOCK, 1)
        square = self.sw[index].repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)
        left = self.a[index].float() * wide
        return left @ (self.w[index].float() * square).t()


def fp8_work(shape: Shape) -> Work:
    """2mnk operations; A and W at a byte, C at two, scales at four bytes per element."""
    m, n, k = shape["m"], shape["n"], shape["k"]
    scales = 4.0 * (m * k / BLOCK + n * k / BLOCK**2)
    return Work(2.0 * m * n * k, m * k + n * k + 2.0 * m * n + scales)
