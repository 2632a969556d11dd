"""Softmax and norms of rows: every lane of every block against numpy in float64, the machine code,
and the operators."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from scan_recurrence import NUMPY

import hexcute_core as hx
from hexcute_core.errors import LaunchError
from hexcute_kernels import norms
from hexcute_kernels.norms.configs import (
    LAYER_NORM,
    LONG,
    RMS_NORM,
    SOFTMAX,
    LongConfig,
    NormConfig,
    RowConfig,
)
from hexcute_kernels.norms.operators import LONGEST
from hexcute_kernels.norms.rows import norm_kernel, softmax_kernel
from hexcute_kernels.norms.streamed import long_norm_kernel, long_softmax_kernel
from hexcute_kernels.tables import constants

BITS = {"f16": 10, "bf16": 7, "f32": 17}
HOLDS, STREAMS = RowConfig(4, 64), LongConfig(64, 32)
MOST = 256, False


def softmax_of(x: Any) -> Any:
    x = x.astype(np.float64)
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def norm_of(x: Any, centred: bool, weight: Any, bias: Any, eps: float) -> Any:
    x = x.astype(np.float64)
    x = x - x.mean(1, keepdims=True) if centred else x
    y = x / np.sqrt((x * x).mean(1, keepdims=True) + eps)
    y = y if weight is None else y * weight.astype(np.float64)
    return y if bias is None else y + bias.astype(np.float64)


def close(got: Any, want: Any, dtype: hx.DType) -> None:
    assert np.abs(got.astype(np.float64) - want).max() < 2.0 ** -BITS[dtype.name] * max(
        1e-30, np.abs(want).max()
    )


def drawn(rng: Any, dtype: hx.DType, *shape: int) -> Any:
    return (rng.normal(size=shape) * 3 + 2).astype(np.float32).astype(NUMPY[dtype.name])


def simulated(kernel: hx.Kernel, target: str, config: Any, *args: Any) -> None:
    whole = args[0].shape[1] * args[0].itemsize % 16 == 0
    given = constants(replace(config, EARLY=target == "sm_90"))
    made = kernel.compile(target, verify=True, aligned=whole, **given)
    made.simulate(*args)


@pytest.mark.parametrize("config", [HOLDS, STREAMS], ids=str)
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@given(
    dtype=st.sampled_from([hx.f16, hx.bf16, hx.f32]), rows=st.integers(1, 10),
    columns=st.integers(1, 256), wide=st.booleans(), flags=st.tuples(*[st.booleans()] * 3),
    seed=st.integers(0, 1 << 30),
)  # fmt: skip
@settings(max_examples=6, deadline=None, phases=[Phase.generate], derandomize=True)
def test_rows_of_any_size(
    config: Any, target: str, dtype: hx.DType, rows: int, columns: int, wide: bool,
    flags: tuple[bool, bool, bool], seed: int,
) -> None:  # fmt: skip
    rng, (centred, weighted, biased) = np.random.default_rng(seed), flags
    columns = columns // 8 * 8 or 8 if seed % 2 else columns
    held, size = isinstance(config, RowConfig), (columns, True) if seed % 2 else MOST
    x, kind = drawn(rng, dtype, rows, columns), hx.f32 if wide else dtype
    y = np.full_like(x, np.nan)
    kernel = softmax_kernel(dtype, *size) if held else long_softmax_kernel(dtype)
    simulated(kernel, target, config, x, y)
    close(y, softmax_of(x), dtype)
    weight, bias = (drawn(rng, kind, columns) for _ in range(2))
    types, y = (dtype, *size, kind) if held else (dtype, kind), np.full_like(x, np.nan)
    make = norm_kernel if held else long_norm_kernel
    config = NormConfig(config.BM, config.THREADS, BESIDE=wide) if held else config
    kernel = make(*types, centred=centred, weighted=weighted, biased=biased)
    simulated(kernel, target, config, x, *[weight] * weighted, *[bias] * biased, 1e-3, y)
    want = norm_of(x, centred, weight if weighted else None, bias if biased else None, 1e-3)
    close(y, want, dtype)


@pytest.mark.parametrize("held", [True, False])
def test_what_numbers_do_at_their_ends(held: bool) -> None:
    """As in torch: -inf has no part, a row of nothing else is NaN, and so is one with a NaN; a mean
    that is far from 0 costs a variance no digits."""
    kernel = softmax_kernel(hx.f32, *MOST) if held else long_softmax_kernel(hx.f32)
    config = HOLDS if held else STREAMS
    x = np.random.default_rng(0).normal(size=(5, 100)).astype(np.float32)
    x[0, :99], x[1, 50], x[2, :], x[3, 7] = -np.inf, -np.inf, -np.inf, np.nan
    x[4, 1:] = 3e38
    x[4, 0] = -3e38
    y = np.full_like(x, 7)
    simulated(kernel, "sm_90", config, x, y)
    assert y[0, 99] == 1 and not y[0, :99].any() and y[1, 50] == 0 and abs(y[1].sum() - 1) < 1e-5
    assert np.isnan(y[2]).all() and np.isnan(y[3]).all()
    assert y[4, 0] == 0 and np.allclose(y[4, 1:], 1 / 99)
    x = (np.random.default_rng(1).normal(size=(3, 100)) + 4096).astype(np.float32)
    kernel = long_norm_kernel(hx.f32, hx.f32, centred=True)
    if held:
        kernel = norm_kernel(hx.f32, *MOST, hx.f32, centred=True)
    simulated(kernel, "sm_90", config, x, 0.0, y[:3])
    assert np.allclose(y[:3], norm_of(x, True, None, None, 0.0), atol=2e-3)


@pytest.mark.parametrize("kind", ["softmax", "rms_norm", "layer_norm"])
def test_rows_move_16_bytes_at_a_time_and_spill_nothing(kind: str) -> None:
    f16, centred, whole = hx.f16, kind == "layer_norm", kind != "layer_norm"
    given = {"centred": centred, "weighted": True, "biased": centred}
    table = {"softmax": SOFTMAX, "rms_norm": RMS_NORM, "layer_norm": LAYER_NORM}[kind]
    rows = table.rows["h200"]
    ends = [LONGEST, *(row.least["columns"] - 1 for row in rows if row.least)]
    cases = [(row.config, most) for row, most in zip(rows, ends)]
    # Long rows of RMSNorm are those of LayerNorm with less to do.
    longer = [] if kind == "rms_norm" else LONG
    for config, most in (*cases, *((config, None) for config in longer)):
        if most is None:
            softmax, norm = long_softmax_kernel(f16), long_norm_kernel(f16, f16, **given)
        else:
            softmax = softmax_kernel(f16, most, whole)
            norm = norm_kernel(f16, most, whole, f16, **given)
        made = (softmax if kind == "softmax" else norm).compile("sm_90", **constants(config))
        assert made.solution.exact
        assert made.built.local_memory == 0
        text = made.sass()
        for name in ("LDG", "STG"):
            moved = re.findall(rf"\b{name}\.E(\S*)", text)
            assert moved and all(".128" in m for m in moved), (config, most, name, moved)


def test_calls_say_what_does_not_fit() -> None:
    torch = pytest.importorskip("torch")
    from stand_ins import gpu, on_gpu

    def zeros(*shape: int, dtype: Any = torch.float16) -> Any:
        return on_gpu(torch.zeros(shape, dtype=dtype))

    x, w, b = zeros(3, 5, 64), zeros(64), zeros(64)
    with gpu("h200", "sm_90") as launches:
        assert norms.layer_norm(x, w, b).shape == (3, 5, 64)
        assert [t.shape for t in launches[-1].prepared[:2]] == [(15, 64), (64,)]
        assert norms.rms_norm(x, eps=1e-3).dtype == norms.softmax(x).dtype == torch.float16
        assert norms.rms_norm(x, zeros(64, dtype=torch.float32)).shape == x.shape
        for empty in ((0, 64), (3, 0)):
            assert norms.softmax(zeros(*empty)).shape == empty
        assert norms.softmax.plan((zeros(2, LONGEST),)).variant == "held"
        assert norms.softmax.plan((zeros(2, LONGEST + 1),)).variant == "streamed"
        for call, words in (
            (lambda: norms.softmax(zeros()), "got a single number"),
            (lambda: norms.softmax(zeros(4, 4, dtype=torch.int32)), "takes float16 or bfloat16"),
            (lambda: norms.softmax(zeros(4, 64).mT), "not row-major"),
            (lambda: norms.rms_norm(x, zeros(63)), r"weight is to be \(64,\) beside x \(3, 5"),
            (lambda: norms.rms_norm(x, zeros(64, dtype=torch.bfloat16)), "float16 or float32"),
            (lambda: norms.layer_norm(x, w, zeros(64, dtype=torch.float32)), "one for all tensors"),
            (lambda: norms.softmax(zeros(2, 20000), variant="held"), "rows of up to 16384"),
        ):
            with pytest.raises(LaunchError, match=words):
                call()


@pytest.mark.parametrize(
    ("name", "target", "found"),
    [
        ("h200", "sm_90", ("held", "streamed")),
        ("a100", "sm_80", ("held_in_turn", "streamed_in_turn")),
    ],
)
def test_launches_come_early_where_the_gpu_lets_them(
    name: str, target: str, found: tuple[str, str]
) -> None:
    torch = pytest.importorskip("torch")
    from stand_ins import gpu, on_gpu

    # Calls are remembered by their shapes: each GPU has its own.
    rows = 2 if target == "sm_90" else 3
    with gpu(name, target) as launches:
        for columns, variant in zip((100, LONGEST + 1), found, strict=True):
            x = on_gpu(torch.zeros(rows, columns))
            assert norms.layer_norm.plan((x, None, None, 1e-5)).variant == variant
            norms.layer_norm(x)
            norms.softmax(x)
    early = target == "sm_90"
    assert [launch.constants["EARLY"] for launch in launches] == [early] * 4
