"""Selective scan in Triton: a program per channel, time in chunks by the associative scan.

    (a2, x2) after (a1, x1) = (a1 a2, a2 x1 + x2)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import triton
import triton.language as tl

from hexcute_bench.interface import Run


@dataclass(frozen=True)
class ScanConfig:
    """Steps a chunk, warps."""

    steps: int
    warps: int

    @property
    def name(self) -> str:
        return f"{self.steps} steps warps={self.warps}"


CONFIGS = (ScanConfig(256, 2), ScanConfig(512, 4), ScanConfig(1024, 4), ScanConfig(1024, 8))


@triton.jit
def after(a1, x1, a2, x2):
    return a1 * a2, a2 * x1 + x2


@triton.jit
def scan_kernel(
    u_ptr, delta_ptr, a_ptr, b_ptr, c_ptr, d_ptr, z_ptr, bias_ptr, o_ptr, WIDTH, L,
    N: tl.constexpr, T: tl.constexpr,
):  # fmt: skip
    channel, batch = tl.program_id(0), tl.program_id(1).to(tl.int64)
    row = (batch * WIDTH + channel) * L
    states = tl.arange(0, N)
    rate = tl.load(a_ptr + channel * N + states) * 1.4426950408889634
    skip, bias = tl.load(d_ptr + channel), tl.load(bias_ptr + channel)
    carried = tl.zeros((N,), tl.float32)
    last = (tl.arange(0, T) == T - 1)[None, :]
    for start in range(0, L, T):
        steps = start + tl.arange(0, T)
        inside = steps < L
        u = tl.load(u_ptr + row + steps, mask=inside, other=0.0).to(tl.float32)
        dt = tl.load(delta_ptr + row + steps, mask=inside, other=0.0).to(tl.float32) + bias
        dt = tl.where(dt > 20.0, dt, tl.log(1.0 + tl.exp(dt)))
        z = tl.load(z_ptr + row + steps, mask=inside, other=0.0).to(tl.float32)
        places = (batch * N + states)[:, None] * L + steps[None, :]
        b = tl.load(b_ptr + places, mask=inside[None, :], other=0.0).to(tl.float32)
        c = tl.load(c_ptr + places, mask=inside[None, :], other=0.0).to(tl.float32)
        decay = tl.exp2(dt[None, :] * rate[:, None])
        decay, h = tl.associative_scan((decay, (dt * u)[None, :] * b), 1, after)
        h = h + decay * carried[:, None]
        carried = tl.sum(tl.where(last, h, 0.0), 1)
        y = (tl.sum(h * c, 0) + skip * u) * z * tl.sigmoid(z)
        tl.store(o_ptr + row + steps, y.to(o_ptr.dtype.element_ty), mask=inside)


def scan(case: Any, config: ScanConfig) -> Run:
    """A run of the kernel on a scan case's sets."""
    states = case.a.shape[1]

    def run(index: int) -> None:
        scan_kernel[(case.width, case.batch)](
            case.u[index], case.delta[index], case.a, case.b[index], case.c[index], case.d,
            case.z[index], case.bias, case.out[index], case.width, case.length, N=states,
            T=config.steps, num_warps=config.warps,
        )  # fmt: skip

    return run
