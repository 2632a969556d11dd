"""FP8 quantization of activations: q e4m3 and a float32 scale for every row and 128 columns.

What is compared is q times its scale, with x: a right one is half a step of e4m3 away at most.
"""

from __future__ import annotations

from typing import Any

from hexcute_bench.cases.fp8 import BLOCK
from hexcute_bench.cases.tensors import poisoned, randn, relative_error, rotated_sets
from hexcute_bench.interface import Work
from hexcute_bench.shape import Shape


class Fp8QuantizeCase:
    """For each set i: `x[i]` bf16 [m,k], `q[i]` e4m3 [m,k], `s[i]` float32 [m,k/128], its columns
    contiguous."""

    def __init__(self, shape: Shape, sets: int | None = None, device: str = "cuda") -> None:
        import torch

        self.shape, self.tolerance = shape, 2.0**-4
        m, k = shape["m"], shape["k"]
        self.sets = rotated_sets(fp8_quantize_work(shape).bytes) if sets is None else sets
        count = range(self.sets)
        self.x = [randn((m, k), torch.bfloat16, device) for _ in count]
        self.q = [poisoned((m, k), torch.bfloat16, device).to(torch.float8_e4m3fn) for _ in count]
        self.s = [poisoned((k // BLOCK, m), torch.float32, device).t() for _ in count]

    def poison(self, index: int) -> None:
        self.q[index].fill_(float("nan"))
        self.s[index].fill_(float("nan"))

    def output(self, index: int) -> Any:
        return self.product(self.q[index], self.s[index])

    @staticmethod
    def product(q: Any, s: Any) -> Any:
        """What numbers and scales stand for."""
        return q.float() * s.repeat_interleave(BLOCK, 1)

    def error(self, output: Any, index: int) -> float:
        return relative_error(output, self.x[index].float())


def fp8_quantize_work(shape: Shape) -> Work:
    """About four operations an element; x at two bytes, q at one, scales at four."""
    elements = float(shape["m"] * shape["k"])
    return Work(4.0 * elements, 3.0 * elements + 4.0 * elements / BLOCK)
