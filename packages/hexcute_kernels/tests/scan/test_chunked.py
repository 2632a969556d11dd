"""Mamba-2's scan by products: every lane of every block against the recurrence in float64, and its
operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scan_recurrence import NUMPY, close, recurrence

import hexcute_core as hx
from hexcute_core.errors import LaunchError
from hexcute_kernels.scan import ssd_scan, ssd_scan_with_state
from hexcute_kernels.scan.chunked import chunked_scan_kernel

Array = Any
BITS = {"f16": 9, "bf16": 6}
"""What remains where states and weights are rounded before they are multiplied."""
ALL = ("skips", "gated", "biased", "soft", "starts")


@dataclass(frozen=True)
class Case:
    """Sizes, what the problem has, and how the kernel cuts it."""

    length: int
    width: int = 32
    states: int = 16
    heads: int = 1
    groups: int = 1
    batch: int = 1
    has: tuple[str, ...] = ()
    dtype: hx.DType = hx.f16
    dt_dtype: hx.DType = hx.f32
    cut: tuple[int, int] = (32, 32)
    target: str = "sm_80"
    apart: int = 0
    """How many elements before x in its memory."""


CASES = {
    "one step": Case(1, has=("skips",)),
    "a whole chunk": Case(32, cut=(16, 32)),
    "three chunks, the last one short, groups of two heads": Case(
        70, heads=4, groups=2, has=ALL, dt_dtype=hx.f16
    ),
    "a block that ends behind the width, bf16": Case(
        40, width=48, states=48, batch=2, has=("soft", "biased"), dtype=hx.bf16, dt_dtype=hx.bf16
    ),
    "two parts of the states": Case(100, width=64, states=128, has=ALL, cut=(64, 64)),
    "sm_90": Case(100, width=64, states=64, heads=2, has=ALL, cut=(64, 64), target="sm_90"),
    "256 states": Case(40, width=16, states=256, has=("starts",), cut=(64, 32), target="sm_90"),
    "elements anywhere": Case(40, has=ALL, apart=1),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_recurrence(case: Case) -> None:
    rng = np.random.default_rng(case.length)
    b, length, heads, width = case.batch, case.length, case.heads, case.width
    groups, states, each = case.groups, case.states, case.heads // case.groups

    def normal(*shape: int, dtype: hx.DType = case.dtype) -> Array:
        return rng.normal(size=shape).astype(np.float32).astype(NUMPY[dtype.name])

    memory = normal(b * length * heads * width + case.apart)
    x = memory[case.apart :].reshape(b, length, heads, width)
    z = normal(*x.shape)
    dt = normal(b, length, heads, dtype=case.dt_dtype)
    dt = dt if "soft" in case.has else np.abs(dt)
    bs, cs = normal(b, length, groups, states), normal(b, length, groups, states)
    a, skip = -rng.uniform(0.05, 2, heads).astype(np.float32), normal(heads, dtype=hx.f32)
    bias = np.abs(normal(heads, dtype=hx.f32))
    start = normal(b, heads, width, states, dtype=hx.f32)
    optional = ("skips", skip), ("gated", z), ("biased", bias), ("starts", start)
    given = {name: t if name in case.has else None for name, t in optional}
    out, end = np.full_like(x, np.nan), np.full(start.shape, np.nan, np.float32)
    kernel = chunked_scan_kernel(
        case.dtype, case.dt_dtype, width, states, ends=True, **dict.fromkeys(case.has, True)
    )
    args = [x, dt, a, bs, cs, *(t for t in given.values() if t is not None), out, end]
    kernel.simulate(*args, target=case.target, BP=case.cut[0], BT=case.cut[1])

    def rows(t: Array | None) -> Array | None:
        """A number for each row of a head, by group."""
        return None if t is None else np.repeat(t, width).reshape(groups, each * width)

    def steps(t: Array | None) -> Array | None:
        """(batch, groups, rows of its heads, steps)"""
        return None if t is None else np.moveaxis(t.reshape(b, length, groups, -1), 1, 3)

    before = given["starts"]
    want, last = recurrence(
        steps(x), steps(np.repeat(dt, width, 2)), np.repeat(rows(a)[..., None], states, 2),
        steps(bs), steps(cs), skip=rows(given["skips"]), z=steps(given["gated"]),
        bias=rows(given["biased"]), soft="soft" in case.has,
        start=None if before is None else before.reshape(b, groups, each * width, states),
    )  # fmt: skip
    close(out, np.moveaxis(want, 3, 1).reshape(x.shape), BITS[case.dtype.name])
    close(end, last.reshape(end.shape), BITS[case.dtype.name])


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_every_stage_is_proved(target: str) -> None:
    flags = dict.fromkeys(ALL, True)
    kernel = chunked_scan_kernel(hx.f16, hx.f16, 64, 64, ends=True, **flags)
    made = kernel.compile(target, verify=True)
    assert "cp.async.16" in made.explain(rejected=0) and made.thread is not None


def test_what_is_launched_and_what_is_told() -> None:
    torch = pytest.importorskip("torch")
    from stand_ins import gpu, on_gpu

    def zeros(*shape: int, dtype: Any = torch.float16) -> Any:
        return on_gpu(torch.zeros(shape, dtype=dtype))

    f32 = torch.float32
    x, dt, a = zeros(2, 50, 8, 64), zeros(2, 50, 8), zeros(8, dtype=f32)
    bc, start = zeros(2, 50, 2, 128), zeros(2, 8, 64, 128, dtype=f32)
    with gpu("h200", "sm_90") as launches:
        assert ssd_scan(x, dt, a, bc, bc).shape == x.shape
        y, end = ssd_scan_with_state(
            x, dt.float(), a, bc, bc, D=a, z=x, dt_bias=a, dt_softplus=True, initial_states=start
        )
        assert y.shape == x.shape and end.shape == start.shape and end.dtype == f32
        assert [len(one.prepared) for one in launches] == [6, 11]
        none = zeros(2, 0, 8, 64), zeros(2, 0, 8), a, zeros(2, 0, 2, 128), zeros(2, 0, 2, 128)
        kept = torch.ones_like(start)
        assert (ssd_scan_with_state(*none, initial_states=kept)[1] == 1).all()
        assert (ssd_scan_with_state(*none)[1] == 0).all() and len(launches) == 2
        thin, wide = zeros(2, 50, 8, 40), zeros(2, 50, 2, 272)
        for call, words in (
            (lambda: ssd_scan(x.float(), dt, a, bc, bc), "takes float16 or bfloat16"),
            (lambda: ssd_scan(x, dt.int(), a, bc, bc), "takes float16 or bfloat16 or float32"),
            (lambda: ssd_scan(x, dt, a.half(), bc, bc), "takes float32"),
            (lambda: ssd_scan(x[0], dt, a, bc, bc), r"takes x \(batch, steps, heads, width\)"),
            (lambda: ssd_scan(x, dt, a, bc[0], bc), r"takes B \(batch, steps, groups, states\)"),
            (lambda: ssd_scan(x, dt[:, :, :4], a, bc, bc), r"dt is to be \(2, 50, 8\)"),
            (lambda: ssd_scan(x, dt, a[:4], bc, bc), r"A is to be \(8,\)"),
            (lambda: ssd_scan(x, dt, a, bc, bc[:, :, :1]), r"C is to be \(2, 50, 2, 128\)"),
            (lambda: ssd_scan(x, dt, a, bc, bc, z=thin), r"z is to be \(2, 50, 8, 64\)"),
            (
                lambda: ssd_scan(x, dt, a, bc, bc, initial_states=start.mT),
                r"initial_states is to be \(2, 8, 64, 128\)",
            ),
            (lambda: ssd_scan(x, dt, a, bc, bc.mT.contiguous().mT), "C of shape .* not row-major"),
            (lambda: ssd_scan(x, dt, a, wide, wide), "16 to 256 states by sixteens, got 272"),
            (lambda: ssd_scan(thin, dt, a, bc, bc), "a width that 16 divides, got 40"),
            (
                lambda: ssd_scan(x, dt, a, zeros(2, 50, 3, 16), zeros(2, 50, 3, 16)),
                "8 heads are no 3 groups",
            ),
        ):
            with pytest.raises(LaunchError, match=words):
                call()
