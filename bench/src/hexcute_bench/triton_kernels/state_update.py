"""A step of the scan in Triton: a program per block of channels of a sequence, states in place.

    h = exp(dt A) h + dt x B,   y = (sum over states of C h + D x) silu(z)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import triton
import triton.language as tl

from hexcute_bench.interface import Run


@dataclass(frozen=True)
class UpdateConfig:
    """Channels a program, warps."""

    channels: int
    warps: int

    @property
    def name(self) -> str:
        return f"{self.channels} channels warps={self.warps}"


# The first is what mamba-ssm's kernel takes for 16 states.
CONFIGS = (UpdateConfig(32, 4), UpdateConfig(16, 4), UpdateConfig(64, 2), UpdateConfig(128, 4))


@triton.jit
def update_kernel(
    state_ptr, x_ptr, dt_ptr, a_ptr, b_ptr, c_ptr, d_ptr, z_ptr, bias_ptr, o_ptr, WIDTH,
    N: tl.constexpr, M: tl.constexpr,
):  # fmt: skip
    batch = tl.program_id(1).to(tl.int64)
    channels = tl.program_id(0) * M + tl.arange(0, M)
    states = tl.arange(0, N)
    inside = channels < WIDTH
    row = batch * WIDTH + channels
    within = channels[:, None] * N + states[None, :]
    places = state_ptr + batch * WIDTH * N + within
    h = tl.load(places, mask=inside[:, None], other=0.0).to(tl.float32)
    x = tl.load(x_ptr + row, mask=inside, other=0.0).to(tl.float32)
    dt = tl.load(dt_ptr + row, mask=inside, other=0.0).to(tl.float32)
    dt += tl.load(bias_ptr + channels, mask=inside, other=0.0)
    dt = tl.where(dt > 20.0, dt, tl.log(1.0 + tl.exp(dt)))
    a = tl.load(a_ptr + within, mask=inside[:, None], other=0.0)
    b = tl.load(b_ptr + batch * N + states).to(tl.float32)
    c = tl.load(c_ptr + batch * N + states).to(tl.float32)
    z = tl.load(z_ptr + row, mask=inside, other=0.0).to(tl.float32)
    skip = tl.load(d_ptr + channels, mask=inside, other=0.0)
    h = h * tl.exp(a * dt[:, None]) + b[None, :] * (dt * x)[:, None]
    tl.store(places, h.to(state_ptr.dtype.element_ty), mask=inside[:, None])
    y = (tl.sum(h * c[None, :], 1) + x * skip) * z * tl.sigmoid(z)
    tl.store(o_ptr + row, y.to(o_ptr.dtype.element_ty), mask=inside)


def update(case: Any, config: UpdateConfig) -> Run:
    """A run of the kernel on a case's sets."""
    grid = triton.cdiv(case.width, config.channels), case.batch

    def run(index: int) -> Any:
        update_kernel[grid](
            case.state[index], case.x[index], case.dt[index], case.a, case.b[index],
            case.c[index], case.d, case.z[index], case.bias, case.out[index], case.width,
            N=case.a.shape[1], M=config.channels, num_warps=config.warps,
        )  # fmt: skip
        return case.out[index]

    return run
