"""A step of the scan for decoding: h = exp(dt A) h + dt x B, y = (C h + D x) silu(z), h in place.

dt = softplus(delta + bias). The reference is in float64, of both the result and the states.
"""

from __future__ import annotations

import math
from typing import Any

from hexcute_bench.cases.scan import STATES, TOLERANCE, WIDTH
from hexcute_bench.cases.tensors import generator, poisoned, randn, relative_error, rotated_sets
from hexcute_bench.interface import Work
from hexcute_bench.shape import Shape


class StateUpdateCase:
    """For each set i: `state` [batch,width,states] of `bits` bits, which a run changes; `x`, `dt`,
    `z`, `out` f16 [batch,width], `b`, `c` f16 [batch,states]; and float32 `a` [width,states], `d`
    and `bias` [width]."""

    def __init__(
        self, shape: Shape, sets: int | None = None, device: str = "cuda", width: int = WIDTH
    ) -> None:
        import torch

        self.shape, self.width = shape, width
        self.batch, self.tolerance = shape["batch"], TOLERANCE
        self.sets = rotated_sets(update_work(shape).bytes) if sets is None else sets
        count, many, half = range(self.sets), (self.batch, width), torch.float16
        kept = torch.float32 if shape["bits"] == 32 else half
        self._start = [randn((*many, STATES), kept, device) for _ in count]
        self.state = [start.clone() for start in self._start]
        self.x, self.dt, self.z = ([randn(many, half, device) for _ in count] for _ in range(3))
        self.b, self.c = (
            [randn((self.batch, STATES), half, device) for _ in count] for _ in range(2)
        )
        draw = torch.rand((width, STATES), device=device, generator=generator(device))
        self.a = -(draw * 4.0 + 0.5)
        self.d = randn((width,), torch.float32, device)
        self.bias = randn((width,), torch.float32, device) * 0.1 - 2.0
        self.out = [poisoned(many, half, device) for _ in count]

    def poison(self, index: int) -> None:
        self.out[index].fill_(float("nan"))
        self.state[index].copy_(self._start[index])

    def output(self, index: int) -> Any:
        return self.out[index]

    def error(self, output: Any, index: int) -> float:
        """The larger of the result's and the states' error; the states are right but for their
        rounding, and so is the result but for its own."""
        import torch

        x, z = self.x[index].double(), self.z[index].double()
        dt = torch.nn.functional.softplus(self.dt[index].double() + self.bias.double())
        come = (dt * x)[..., None] * self.b[index].double()[:, None]
        state = self._start[index].double() * torch.exp(dt[..., None] * self.a.double()) + come
        y = (state * self.c[index].double()[:, None]).sum(2) + self.d.double() * x
        errors = (
            relative_error(output, y * torch.nn.functional.silu(z)),
            relative_error(self.state[index], state),
        )
        return math.nan if any(map(math.isnan, errors)) else max(errors)


def update_work(shape: Shape) -> Work:
    """Six operations per channel and state beside the exponential; states read and written, and
    what else there is moved once."""
    channels = float(shape["batch"] * WIDTH)
    moved = channels * (2 * STATES * shape["bits"] / 8 + 4 * 2) + WIDTH * (4 * STATES + 8)
    return Work(6.0 * channels * STATES, moved + shape["batch"] * 2 * STATES * 2)
