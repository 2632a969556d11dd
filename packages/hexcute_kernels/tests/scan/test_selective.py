"""The selective scan, every lane of every block against the recurrence, and its operator."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core.errors import LaunchError
from hexcute_kernels.scan import selective_scan
from hexcute_kernels.scan.selective import selective_scan_kernel

NUMPY: dict[str, Any] = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32}


def reference(
    u: Any, delta: Any, a: Any, b: Any, c: Any, skip: Any, z: Any, bias: Any, soft: bool
) -> np.ndarray:
    """The recurrence in float64; what is None is left out."""
    u, delta, a, b, c = (x.astype(np.float64) for x in (u, delta, a, b, c))
    dt = delta if bias is None else delta + bias[:, None]
    dt = np.log1p(np.exp(dt)) if soft else dt
    b, c = (np.repeat(x, u.shape[1] // x.shape[1], 1) for x in (b, c))
    h, y = np.zeros((*u.shape[:2], a.shape[1])), np.zeros_like(u)
    for t in range(u.shape[2]):
        decay = np.exp(dt[:, :, t, None] * a)
        h = h * decay + (dt[:, :, t] * u[:, :, t])[:, :, None] * b[:, :, :, t]
        y[:, :, t] = (h * c[:, :, :, t]).sum(2)
    y = y if skip is None else y + skip[:, None] * u
    if z is None:
        return y
    gate = z.astype(np.float64)
    return y * gate / (1 + np.exp(-gate))


@pytest.mark.parametrize(
    ("dtype", "sizes", "flags", "config"),
    [
        (hx.f16, (1, 128, 64, 16, 1), (True, True, True, True), {"BD": 128, "BL": 4, "BT": 16}),
        (hx.f16, (2, 70, 40, 16, 1), (True, True, True, True), {}),
        (hx.bf16, (1, 64, 33, 8, 2), (False, True, False, True), {"BD": 32, "BL": 4, "BT": 16}),
        (hx.f32, (1, 33, 20, 4, 1), (True, False, False, False), {"BD": 32, "BL": 4, "BT": 16}),
        (hx.f16, (1, 32, 1, 32, 1), (False, False, True, True), {"BD": 32, "BL": 4, "BT": 16}),
    ],
    ids=str,
)
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_against_the_recurrence(
    dtype: hx.DType,
    sizes: tuple[int, int, int, int, int],
    flags: tuple[bool, bool, bool, bool],
    config: dict[str, int],
    target: str,
) -> None:
    b, d, length, states, groups = sizes
    skips, gated, biased, soft = flags
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32).astype(NUMPY[dtype.name])

    u, delta, z = normal(b, d, length), normal(b, d, length), normal(b, d, length)
    delta = delta if soft else np.abs(delta)
    bs, cs = normal(b, groups, states, length), normal(b, groups, states, length)
    a = -rng.uniform(0.5, 4, (d, states)).astype(np.float32)
    skip, bias = rng.normal(size=(2, d)).astype(np.float32)
    out = np.full_like(u, np.nan)
    kernel = selective_scan_kernel(dtype, states, skips, gated, biased, soft)
    kernel.simulate(u, delta, a, bs, cs, skip, z, bias, out, target=target, **config)
    want = reference(
        u, delta, a, bs, cs, skip if skips else None, z if gated else None,
        bias if biased else None, soft,
    )  # fmt: skip
    bits = {"f16": 10, "bf16": 7, "f32": 17}[dtype.name]
    scale = np.sqrt(np.mean(want**2))
    np.testing.assert_allclose(
        out.astype(np.float64), want, rtol=2.0**-bits, atol=scale * 2.0**-bits
    )


def test_a_thread_has_a_channel_and_its_states() -> None:
    compiled = selective_scan_kernel(hx.f16, 16, True, True, True, True).compile("sm_90")
    layouts = [line.split() for line in compiled.explain(rejected=0).splitlines()]
    assert ["h", "register", "f32", "64x16", "(64,16):(1@0,1@1)", "(16", "a", "thread)"] in layouts
    assert not compiled.built.local_memory
    # A step: an exponential, two products and two sums with product a state.
    assert compiled.sass().count("MUFU.EX2") >= 8 * 16


def test_what_cannot_be_is_told() -> None:
    torch = pytest.importorskip("torch")
    from stand_ins import gpu, on_gpu

    def zeros(*shape: int, dtype: Any = torch.float16) -> Any:
        return on_gpu(torch.zeros(shape, dtype=dtype))

    u, bc, a = zeros(2, 64, 50), zeros(2, 16, 50), zeros(64, 16, dtype=torch.float32)
    with gpu("h200", "sm_90") as launches:
        assert selective_scan(u, u, a, bc, bc, delta_softplus=True).shape == (2, 64, 50)
        selective_scan(u, u, a, zeros(2, 2, 16, 50), zeros(2, 2, 16, 50), z=u)
        shapes = [noted.prepared[3].shape for noted in launches]
        assert shapes == [(2, 1, 16, 50), (2, 2, 16, 50)]
        for args, words in (
            ((u, u, a, bc, zeros(2, 8, 50)), r"C is to be \(2, 16, 50\) beside u"),
            ((u, u, zeros(64, 5, dtype=torch.float32), zeros(2, 5, 50), zeros(2, 5, 50)), "states"),
            ((u, u, a, zeros(2, 4, 16, 50), zeros(2, 4, 16, 50)), "64 channels are no 4 groups"),
            ((u, u, a.half(), bc, bc), "takes float32"),
            ((u, zeros(2, 64, 1), a, bc, bc), r"delta is to be \(2, 64, 50\)"),
        ):
            with pytest.raises(LaunchError, match=words):
                selective_scan(*args)
