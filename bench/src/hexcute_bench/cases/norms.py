"""Softmax, RMSNorm and LayerNorm of f16 rows, checked against float32.

A shape's first size is named after the operator of ours, and says how many rows there are.
"""

from __future__ import annotations

from typing import Any

from hexcute_bench.cases.compared import ComparedCase
from hexcute_bench.cases.tensors import (
    F16_TOLERANCE,
    poisoned,
    randn,
    rotated_sets,
)
from hexcute_bench.interface import Work
from hexcute_bench.shape import Shape

EPS = 1e-5


class NormsCase(ComparedCase):
    """The operator `called`; for each set i rows `x[i]` and `out[i]` f16 [rows,columns]; `given`
    are its other tensors, f16 [columns]: none, a weight, or a weight and a bias."""

    def __init__(self, shape: Shape, sets: int | None = None, device: str = "cuda") -> None:
        import torch

        self.shape, self.tolerance = shape, F16_TOLERANCE
        self.called, rows = shape.items[0]
        self.columns = shape["columns"]
        self.sets = rotated_sets(norms_work(shape).bytes) if sets is None else sets
        size, half = (rows, self.columns), torch.float16
        count = {"softmax": 0, "rms_norm": 1, "layer_norm": 2}[self.called]
        self.x = [randn(size, half, device) for _ in range(self.sets)]
        self.given = tuple(randn((self.columns,), half, device) for _ in range(count))
        self.out = [poisoned(size, half, device) for _ in range(self.sets)]

    def reference(self, x: Any, *given: Any) -> Any:
        """What torch makes of rows."""
        import torch

        functional, last = torch.nn.functional, (self.columns,)
        if self.called == "softmax":
            return functional.softmax(x, -1)
        if self.called == "rms_norm":
            return functional.rms_norm(x, last, *given, eps=EPS)
        return functional.layer_norm(x, last, *given, eps=EPS)

    def output(self, index: int) -> Any:
        return self.out[index]

    def right(self, index: int) -> Any:
        wide = (t.float() for t in (self.x[index], *self.given))
        return self.reference(*wide)


def norms_work(shape: Shape) -> Work:
    """About eight operations per element; rows read and written once, at two bytes."""
    elements = float(shape.items[0][1] * shape["columns"])
    return Work(8.0 * elements, 4.0 * elements)
