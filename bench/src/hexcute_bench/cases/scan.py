"""Selective scan, h_t = exp(dt_t A) h_(t-1) + dt_t u_t B_t, y_t = (C_t h_t + D u_t) silu(z_t).

dt = softplus(delta + bias). The reference steps through time in float64, a chunk at a time,
because a whole output of it would not fit beside the inputs of the largest shapes. It is kept, in
float32, for the next system where memory allows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from hexcute_bench.cases.tensors import (
    F16_TOLERANCE,
    free_bytes,
    generator,
    poisoned,
    randn,
    relative_error,
    rotated_sets,
)
from hexcute_bench.interface import Work
from hexcute_bench.shape import Shape

WIDTH, STATES = 8192, 16
# Products with z are rounded twice where y passes through 16 bits before its gate.
TOLERANCE = 2 * F16_TOLERANCE
# Numbers of a chunk's states.
_CHUNK = 1 << 27


class ScanCase:
    """For each set i: `u`, `delta`, `z`, `out` f16 [batch,width,length]; `b`, `c` f16
    [batch,1,states,length]; and float32 `a` [width,states], `d` and `bias` [width]."""

    def __init__(
        self, shape: Shape, sets: int | None = None, device: str = "cuda", width: int = WIDTH
    ) -> None:
        import torch

        self.shape = shape
        self.batch, self.length, self.width = shape["batch"], shape["length"], width
        self.tolerance = TOLERANCE
        size = 2.0 * 4 * self.batch * width * self.length
        self.sets = rotated_sets(size) if sets is None else sets
        count = range(self.sets)
        large = (self.batch, width, self.length)
        states = (self.batch, 1, STATES, self.length)
        half = torch.float16
        self.u = [randn(large, half, device) for _ in count]
        self.delta = [randn(large, half, device).mul_(0.5) for _ in count]
        self.z = [randn(large, half, device) for _ in count]
        self.b = [randn(states, half, device) for _ in count]
        self.c = [randn(states, half, device) for _ in count]
        draw = torch.rand((width, STATES), device=device, generator=generator(device))
        self.a = -(draw * 4.0 + 0.5)
        self.d = randn((width,), torch.float32, device)
        self.bias = randn((width,), torch.float32, device) * 0.1 - 2.0
        self.out = [poisoned(large, half, device) for _ in count]
        self._kept: dict[int, list[tuple[int, Any]]] = {}
        self.restored: list[Callable[[int], None]] = []
        """What a peer that writes over its inputs does before a run that is checked."""

    def poison(self, index: int) -> None:
        self.out[index].fill_(float("nan"))
        for restore in self.restored:
            restore(index)

    def output(self, index: int) -> Any:
        return self.out[index]

    def error(self, output: Any, index: int) -> float:
        if tuple(output.shape) != tuple(self.u[index].shape):
            return math.inf
        worst = 0.0
        for start, right in self._reference(index):
            part = output[:, :, start : start + right.shape[2]]
            error = relative_error(part.contiguous(), right.contiguous())
            if math.isnan(error):
                return error
            worst = max(worst, error)
        return worst

    def _reference(self, index: int) -> Iterable[tuple[int, Any]]:
        """The chunks of the reference: as they come, or those kept of the set asked for last."""
        if index in self._kept:
            return self._kept[index]
        self._kept.clear()
        if 2 * 4 * self.u[index].numel() > free_bytes(self.u[index].device):
            return self._chunks(index)
        self._kept[index] = [(start, right.float()) for start, right in self._chunks(index)]
        return self._kept[index]

    def _chunks(self, index: int) -> Iterator[tuple[int, Any]]:
        """The reference as (first step, float64 [batch,width,steps]) in order of time."""
        import torch

        softplus, silu = torch.nn.functional.softplus, torch.nn.functional.silu
        shape = (self.batch, self.width, STATES)
        rate, skip, bias = self.a.double(), self.d.double()[:, None], self.bias.double()[:, None]
        state = torch.zeros(shape, dtype=torch.float64, device=rate.device)
        chunk = max(1, _CHUNK // state.numel())
        for start in range(0, self.length, chunk):
            steps = slice(start, min(self.length, start + chunk))
            u = self.u[index][:, :, steps].double()
            dt = softplus(self.delta[index][:, :, steps].double() + bias)
            # Time first: decays (steps, batch, width, states), and the states in place of what
            # comes to them.
            b, c = (x[index][:, :, :, steps].double().movedim(3, 0) for x in (self.b, self.c))
            decay = (dt.movedim(2, 0)[..., None] * rate).exp_()
            states = (dt * u).movedim(2, 0)[..., None] * b
            for come, left in zip(states, decay):
                state = torch.addcmul(come, state, left, out=come)
            state = state.clone()
            y = states.mul_(c).sum(3).movedim(0, 2) + skip * u
            yield start, y * silu(self.z[index][:, :, steps].double())


def scan_work(shape: Shape) -> Work:
    """Six operations per channel, state and step beside the exponential; u, delta, z and the
    output moved once at two bytes."""
    steps = float(shape["batch"] * shape["length"])
    return Work(6.0 * steps * WIDTH * STATES, 2.0 * steps * (4 * WIDTH + 2 * STATES))
