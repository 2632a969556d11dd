"""The convolution before a scan, and steps of both for decoding: every lane of every block against
numpy in float64, and their operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from scan_recurrence import NUMPY, close, recurrence

import hexcute_core as hx
from hexcute_core.errors import LaunchError
from hexcute_kernels.scan import causal_conv1d, causal_conv1d_update, selective_state_update
from hexcute_kernels.scan.convolution import convolution_kernel, convolution_step_kernel
from hexcute_kernels.scan.update import state_update_kernel

BITS = {"f16": 10, "bf16": 7, "f32": 17}
FLAGS = ("skips", "gated", "biased", "soft")


def normal(rng: Any, dtype: hx.DType, *shape: int) -> Any:
    return rng.normal(size=shape).astype(np.float32).astype(NUMPY[dtype.name])


def silu(x: Any) -> Any:
    return x / (1 + np.exp(-x))


def windows(before: Any, x: Any, weight: Any, bias: Any, gated: bool) -> Any:
    """The convolution of x (batch, channels, steps) behind the steps `before`."""
    line = np.concatenate([before, x], 2).astype(np.float64)
    width, length = weight.shape[1], x.shape[2]
    first = line.shape[2] - length - width + 1
    total = sum(
        weight[:, k, None].astype(np.float64) * line[:, :, first + k : first + k + length]
        for k in range(width)
    )
    total = total if bias is None else total + bias[:, None].astype(np.float64)
    return silu(total) if gated else total


@pytest.mark.parametrize(
    ("dtype", "state_dtype", "states", "groups", "flags", "target"),
    [
        (hx.f16, hx.f32, 16, 1, FLAGS, "sm_90"),
        (hx.bf16, hx.bf16, 8, 2, ("gated", "soft"), "sm_80"),
        (hx.f32, hx.f32, 128, 1, ("skips", "biased"), "sm_90"),
    ],
    ids=str,
)
@pytest.mark.parametrize("indexed", [False, True])
def test_a_step_of_the_scan(
    dtype: hx.DType, state_dtype: hx.DType, states: int, groups: int, flags: tuple[str, ...],
    target: str, indexed: bool,
) -> None:  # fmt: skip
    rng, b, d = np.random.default_rng(0), 3, 35
    cache = normal(rng, state_dtype, 6 if indexed else b, groups, d, states)
    x, dt, z = (normal(rng, dtype, b, groups, d) for _ in range(3))
    dt = dt if "soft" in flags else np.abs(dt)
    bs, cs = (normal(rng, dtype, b, groups, states) for _ in range(2))
    a = -rng.uniform(0.5, 4, (groups, d, states)).astype(np.float32)
    skip, bias = np.abs(rng.normal(size=(2, groups, d))).astype(np.float32)
    index = np.array([4, -1, 0], np.int32)
    before, out = cache.copy(), np.full_like(x, np.nan)
    optional = (skip, "skips"), (z, "gated"), (bias, "biased")
    args = [x, dt, a, bs, cs, *(t for t, flag in optional if flag in flags), *[index] * indexed]
    kernel = state_update_kernel(
        dtype, state_dtype, states, indexed=indexed, **dict.fromkeys(flags, True)
    )
    kernel.simulate(cache, *args, out, target=target)
    slots = list(index) if indexed else list(range(b))
    for s, slot in enumerate(slots):
        if slot < 0:
            assert not out[s].any()
            continue
        one = slice(s, s + 1)
        y, h = recurrence(
            x[one, ..., None], dt[one, ..., None], a, bs[one, ..., None], cs[one, ..., None],
            skip=skip if "skips" in flags else None,
            z=z[one, ..., None] if "gated" in flags else None,
            bias=bias if "biased" in flags else None, soft="soft" in flags,
            start=before[slot : slot + 1].astype(np.float64),
        )  # fmt: skip
        close(out[one], y[..., 0], BITS[dtype.name])
        close(cache[slot], h[0], BITS[state_dtype.name])
    others = [i for i in range(len(cache)) if i not in slots]
    assert np.array_equal(cache[others], before[others])


@settings(max_examples=12, deadline=None, phases=[Phase.generate])
@given(
    width=st.sampled_from([2, 3, 4, 9]), length=st.integers(1, 130), biased=st.booleans(),
    gated=st.booleans(), starts=st.booleans(), timed=st.booleans(),
    dtype=st.sampled_from([hx.f16, hx.bf16, hx.f32]),
)  # fmt: skip
def test_the_convolution(
    width: int, length: int, biased: bool, gated: bool, starts: bool, timed: bool, dtype: hx.DType
) -> None:
    rng, b, d = np.random.default_rng(length), 2, 40
    x, before = normal(rng, dtype, b, d, length), normal(rng, dtype, b, d, width - 1)
    weight, bias = normal(rng, dtype, d, width), normal(rng, dtype, d)
    placed = x if timed else np.ascontiguousarray(np.moveaxis(x, 2, 1))
    out = np.full_like(placed, np.nan)
    kernel = convolution_kernel(
        dtype, width, biased=biased, gated=gated, starts=starts, timed=timed
    )
    kernel.simulate(placed, weight, *[bias] * biased, *[before] * starts, out, target="sm_90")
    want = windows(before if starts else before * 0, x, weight, bias if biased else None, gated)
    close(out if timed else np.moveaxis(out, 1, 2), want, BITS[dtype.name])


@pytest.mark.parametrize(("width", "kept", "indexed"), [(4, 3, True), (2, 5, False), (9, 8, True)])
def test_a_step_of_the_convolution(width: int, kept: int, indexed: bool) -> None:
    rng, b, d = np.random.default_rng(0), 3, 150
    x, weight, bias = (normal(rng, hx.f16, *shape) for shape in ((b, d), (d, width), (d,)))
    cache = normal(rng, hx.f16, 6 if indexed else b, d, kept)
    index = np.array([4, 7, 0], np.int32)
    before, out = cache.copy(), np.full_like(x, np.nan)
    kernel = convolution_step_kernel(hx.f16, width, kept, biased=True, gated=True, indexed=indexed)
    kernel.simulate(x, cache, weight, bias, *[index] * indexed, out, target="sm_80")
    slots = list(index) if indexed else list(range(b))
    for s, slot in enumerate(slots):
        if slot >= len(cache):
            assert not out[s].any()
            continue
        want = windows(before[slot : slot + 1], x[s : s + 1, :, None], weight, bias, True)
        close(out[s], want[0, :, 0], 10)
        assert np.array_equal(cache[slot], np.concatenate([before[slot][:, 1:], x[s][:, None]], 1))
    others = [i for i in range(len(cache)) if i not in slots]
    assert np.array_equal(cache[others], before[others])


def test_what_is_launched_and_what_is_told() -> None:
    torch = pytest.importorskip("torch")
    from stand_ins import gpu, on_gpu

    def zeros(*shape: int, dtype: Any = torch.float16) -> Any:
        return on_gpu(torch.zeros(shape, dtype=dtype))

    f32, i32 = torch.float32, torch.int32
    x, bc, a = zeros(2, 64), zeros(2, 16), zeros(64, 16, dtype=f32)
    state, index = zeros(5, 64, 16, dtype=f32), zeros(2, dtype=i32)
    weight, line = zeros(64, 4), zeros(5, 64, 3)
    with gpu("h200", "sm_90") as launches:
        step = selective_state_update(state, x, x, a, bc, bc, state_batch_indices=index)
        assert step.shape == (2, 64) and launches[-1].prepared[0].shape == (5, 1, 64, 16)
        assert causal_conv1d_update(x, line, weight, conv_state_indices=index).shape == (2, 64)
        last = zeros(2, 50, 64).mT
        made = causal_conv1d(last, weight, activation="silu")
        assert made.shape == (2, 64, 50) and made.mT.is_contiguous()
        for call, words in (
            (
                lambda: selective_state_update(state, x, x, a, bc, bc),
                r"state is to be \(2, 64, 16\)",
            ),
            (lambda: selective_state_update(state, x[:, :, None], x, a, bc, bc), "fold heads into"),
            (lambda: selective_state_update(state, x, x, a.half(), bc, bc), "takes float32"),
            (lambda: causal_conv1d_update(x, line, weight), r"conv_state is to be \(2, 64, 3 to"),
            (lambda: causal_conv1d(last, weight, activation="tanh"), "None, 'silu' or 'swish'"),
            (lambda: causal_conv1d(last, zeros(64, 20)), "a width of 2 to 9, got 20"),
            (lambda: causal_conv1d(last, weight, zeros(60)), r"bias is to be \(64,\)"),
            (
                lambda: causal_conv1d(last, weight, None, line),
                r"initial_states is to be \(2, 64, 3",
            ),
        ):
            with pytest.raises(LaunchError, match=words):
                call()
