"""Grouped blockwise FP8 GEMM: C[rows of e] = (SA * A)[rows of e] (SW[e] * W[e])^T for experts e.

Experts have 0.7 to 1.3 times `rows` rows, in whole 128: that is the layout of the peers.
"""

from __future__ import annotations

import random
from typing import Any

from hexcute_bench.cases.compared import ComparedCase
from hexcute_bench.cases.fp8 import BLOCK, TOLERANCE
from hexcute_bench.cases.tensors import (
    exact_products,
    generator,
    poisoned,
    rotated_sets,
)
from hexcute_bench.interface import Work
from hexcute_bench.shape import Shape


def group_sizes(shape: Shape) -> list[int]:
    """The rows of each expert, always the same of a shape."""
    draw = random.Random(0)
    drawn = (shape["rows"] * draw.uniform(0.7, 1.3) for _ in range(shape["experts"]))
    return [max(1, round(rows / BLOCK)) * BLOCK for rows in drawn]


class Fp8GroupedCase(ComparedCase):
    """For each set i: `a[i]` e4m3 [m,k], `w[i]` e4m3 [experts,n,k], `c[i]` bf16 [m,n], float32
    scales `sa[i]` [m,k/128] (row-major) and `sw[i]` [experts,n/128,k/128]; `offsets` [experts+1]
    int32, where experts begin."""

    def __init__(self, shape: Shape, sets: int | None = None, device: str = "cuda") -> None:
        import torch

        exact_products(torch)
        self.shape, self.sizes = shape, group_sizes(shape)
        self.experts, self.n, self.k = shape["experts"], shape["n"], shape["k"]
        self.tolerance = TOLERANCE
        self.sets = rotated_sets(fp8_grouped_work(shape).bytes) if sets is None else sets
        m, groups, count = sum(self.sizes), self.k // BLOCK, range(self.sets)

        def numbers(*shape: int) -> Any:
            """Every pattern below 2: drawn as bytes, for stacks are too large to be drawn wider."""
            drawn = torch.randint(
                256, shape, dtype=torch.uint8, device=device, generator=generator(device)
            )
            return drawn.bitwise_and_(0xBF).view(torch.float8_e4m3fn)

        def scales(*shape: int) -> Any:
            return torch.rand(shape, device=device, generator=generator(device)) * 0.02 + 0.01

        self.a = [numbers(m, self.k) for _ in count]
        self.w = [numbers(self.experts, self.n, self.k) for _ in count]
        self.sa = [scales(m, groups) for _ in count]
        self.sw = [scales(self.experts, self.n // BLOCK, groups) for _ in count]
        self.c = [poisoned((m, self.n), torch.bfloat16, device) for _ in count]
        ends = torch.tensor([0, *self.sizes], device=device).cumsum(0)
        self.offsets = ends.to(torch.int32)

    def output(self, index: int) -> Any:
        return self.c[index]

    def right(self, index: int) -> Any:
        import torch

        parts = []
        for e, rows in enumerate(self.a[index].split(self.sizes)):
            begin = sum(self.sizes[:e])
            wide = self.sa[index][begin : begin + len(rows)].repeat_interleave(BLOCK, 1)
            square = self.sw[index][e].repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)
            parts.append((rows.float() * wide) @ (self.w[index][e].float() * square).t())
        return torch.cat(parts)


def fp8_grouped_work(shape: Shape) -> Work:
    """2mnk operations; A and W at a byte, C at two, scales at four bytes per element."""
    m, n, k = sum(group_sizes(shape)), shape["n"], shape["k"]
    weights = float(shape["experts"] * n * k)
    scales = 4.0 * (m * k / BLOCK + weights / BLOCK**2)
    return Work(2.0 * m * n * k, m * k + weights + 2.0 * m * n + scales)
