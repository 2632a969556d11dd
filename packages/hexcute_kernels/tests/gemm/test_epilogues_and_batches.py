"""Bias, activations and batches of both GEMM kernels, run on the CPU against numpy."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from math import erf, erfc
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core.errors import LaunchError
from hexcute_kernels.gemm.pipelined import pipelined_gemm
from hexcute_kernels.gemm.thin import thin_gemm
from hexcute_kernels.gemm.warp_specialized import warp_specialized_gemm
from hexcute_kernels.parts.epilogue import gelu

PIPELINED = (pipelined_gemm, "sm_80", {"BM": 64, "BN": 64, "BK": 32, "STAGES": 3, "WARPS": 4})
TILE = (warp_specialized_gemm, "sm_90", {"BM": 64, "BN": 64, "STAGES": 2, "CONSUMERS": 1})
PARTS = (*TILE[:2], {**TILE[2], "BN": 128, "PARTS": 2, "SCHEDULE": "persistent"})
PAIRS = (*TILE[:2], {**TILE[2], "CONSUMERS": 2, "SCHEDULE": "pingpong", "CLUSTER_M": 2})
SWAPPED = (*TILE[:2], {**TILE[2], "SWAP": True, "SCHEDULE": "apart", "PARTS": 2})
THIN = (thin_gemm, "sm_90", {"BM": 64, "BN": 32, "STAGES": 2, "CONSUMERS": 1, "SPLITS": 2})
ROW = (partial(warp_specialized_gemm, row=True), "sm_90", {**PARTS[2], "CONSUMERS": 1})
"""A bias as one more step of the products."""
BEHIND = (*TILE[:2], {**TILE[2], "BK": 16, "PARTS": 2, "SCHEDULE": "behind"})
KERNELS = {
    "pipelined": PIPELINED, "tile": TILE, "parts": PARTS, "pairs": PAIRS, "thin": THIN, "row": ROW,
    "behind": BEHIND,
}  # fmt: skip
ACTIVATIONS: dict[str | None, Callable[[np.ndarray], np.ndarray]] = {
    None: lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: 0.5 * x * (1 + np.vectorize(erf)(x / np.sqrt(2))),
    "silu": lambda x: x / (1 + np.exp(-x)),
}


def run(
    kernel: tuple[Any, str, dict[str, Any]],
    shape: tuple[int, int, int],
    batch: int | None = None,
    orders: str = "kk",
    aligned: bool = True,
    bias: bool = False,
    activation: str | None = None,
) -> None:
    make, target, constants = kernel
    (m, n, k), lead = shape, () if batch is None else (batch,)
    rng = np.random.default_rng(sum(shape))
    a, b, added = (
        rng.integers(-2, 3, size).astype(np.float16) for size in ((*lead, m, k), (*lead, n, k), n)
    )
    c = np.full((*lead, m, n), np.nan, np.float16)
    stored = [
        x if order == "k" else np.ascontiguousarray(x.swapaxes(-1, -2))
        for x, order in zip((a, b), orders)
    ]
    options = {"bias": bias, "activation": activation, "batched": batch is not None}
    compiled = make(hx.f16, *orders, **options).compile(
        target, aligned=aligned, verify=True, **constants
    )
    given = added[None] if isinstance(make, partial) else added
    compiled.simulate(*stored, *[given] * bias, c)
    want = a.astype(np.float32) @ b.astype(np.float32).swapaxes(-1, -2) + added * np.float32(bias)
    want = ACTIVATIONS[activation](want).astype(np.float16)
    if activation in (None, "relu"):
        np.testing.assert_array_equal(c, want)
    else:
        np.testing.assert_allclose(c, want, rtol=2**-10, atol=2**-14)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("bias", [False, True])
def test_bias_and_activation(kernel: str, activation: str | None, bias: bool) -> None:
    run(KERNELS[kernel], (100, 136, 40), bias=bias, activation=activation)


ROWS = [
    ({}, (200, 264, 72)),  # More tiles than blocks that stay, ragged both ways.
    ({"BM": 128, "CONSUMERS": 2, "CLUSTER_N": 2, "GROUP": 2}, (264, 392, 200)),
    ({"BM": 128, "CONSUMERS": 2, "CLUSTER_M": 2, "BN": 96}, (392, 200, 64)),
    ({}, (72, 136, 0)),
    ({"SCHEDULE": "behind", "BK": 16}, (200, 264, 72)),
    ({"SCHEDULE": "behind", "BK": 16, "BM": 128, "CONSUMERS": 2, "PARTS": 4}, (520, 264, 40)),
    ({"SCHEDULE": "tile"}, (72, 136, 40)),
    ({"SCHEDULE": "apart", "BM": 128, "CONSUMERS": 2}, (136, 136, 40)),
    ({"SWAP": True}, (72, 136, 40)),
]


@pytest.mark.parametrize("dtype", [hx.f16, hx.bf16], ids=str)
@pytest.mark.parametrize(("more", "shape"), ROWS)
def test_a_bias_that_is_a_row(more: dict[str, Any], shape: tuple[int, int, int], dtype) -> None:
    """What is no finite number comes through, in its column alone."""
    (m, n, k), numpy = shape, np.float16 if dtype == hx.f16 else ml_dtypes.bfloat16
    rng = np.random.default_rng(n)
    a, b, bias = (rng.integers(-2, 3, size).astype(numpy) for size in ((m, k), (n, k), (1, n)))
    bias[0, [3, n // 2, n - 1]] = np.inf, np.nan, -np.inf
    c = np.full((m, n), np.nan, numpy)
    kernel = ROW[0](dtype, bias=True)
    compiled = kernel.compile("sm_90", verify=True, **{**ROW[2], **more})
    assert not compiled.simulate(a, b, bias, c, schedules=2).findings
    want = a.astype(np.float32) @ b.astype(np.float32).T + bias.astype(np.float32)
    np.testing.assert_array_equal(c.astype(np.float32), want)


def test_a_bias_is_a_row_where_tma_can_read_it() -> None:
    """In whole 16 bytes that begin at one; else threads read it, as they do beside copies."""
    torch = pytest.importorskip("torch")
    from stand_ins import gpu, on_gpu

    from hexcute_kernels.gemm import linear

    def zeros(*shape: int, offset: int = 0) -> Any:
        whole = torch.zeros(math.prod(shape) + offset, dtype=torch.float16)
        return on_gpu(whole[offset:].view(shape))

    x = zeros(512, 256)
    for n, offset, extents in ((512, 0, (1, 512)), (510, 0, (510,)), (512, 1, (512,))):
        variant = "wgmma" if (n, offset) == (512, 0) else "wgmma_packed"
        with gpu("h200", "sm_90") as launches:
            linear(x, zeros(n, 256), zeros(n, offset=offset), "gelu", variant=variant)
        assert tuple(launches[-1].prepared[2].shape) == extents
        with gpu("h200", "sm_90"), pytest.raises(LaunchError, match="TMA"):
            linear(x, zeros(510, 256), zeros(510), "gelu", variant="wgmma")


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_bias_of_odd_rows(kernel: str) -> None:
    run(KERNELS[kernel], (33, 25, 41), aligned=False, bias=True, activation="relu")


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("orders", ["kk", "kn", "mk", "mn"])
def test_batches_in_every_order(kernel: str, orders: str) -> None:
    run(KERNELS[kernel], (104, 72, 40), batch=3, orders=orders)


@pytest.mark.parametrize("kernel", KERNELS)
def test_batches_of_odd_rows(kernel: str) -> None:
    run(KERNELS[kernel], (33, 25, 41), batch=2, aligned=False)


@pytest.mark.parametrize("aligned", [True, False])
def test_tiles_whose_rows_are_columns_of_the_result(aligned: bool) -> None:
    shape = (104, 72, 40) if aligned else (33, 25, 41)
    run(SWAPPED, shape, batch=2, orders="mk", aligned=aligned, bias=True, activation="relu")


def test_gelu_keeps_the_digits_that_a_result_has() -> None:
    """Where x is below zero, by erf few would be left; what is no number stays none."""

    @hx.kernel
    def each(x: hx.f32[4096], y: hx.f32[4096]):
        hx.attrs.cuda.block_dim, hx.attrs.cuda.grid_dim = 128, 1
        r = hx.register_tensor(hx.f32, (4096,))
        hx.copy(hx.global_view(x, ((4096,), (1,))), r)
        hx.copy(gelu(r), hx.global_view(y, ((4096,), (1,))))

    x = np.linspace(-9, 9, 4096, dtype=np.float32)
    x[-4:] = np.inf, -np.inf, np.nan, 1e30
    y = np.empty_like(x)
    each.simulate(x, y, target="sm_90")
    want = [0.5 * v * erfc(-v / 2**0.5) for v in x[:-4].tolist()]
    np.testing.assert_allclose(y[:-4], want, rtol=2**-14, atol=2**-25)
    assert y[-4] == np.inf and abs(y[-3]) < 2**-25 and np.isnan(y[-2]) and y[-1] == np.float32(1e30)
