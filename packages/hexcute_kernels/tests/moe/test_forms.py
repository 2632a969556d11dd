"""Weights of eight bits and small floats: every lane of every block, and their code."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from forms_in_numpy import in_order, made, values

from hexcute_core import bf16, f16, f32
from hexcute_kernels.moe.configs import FewConfig, GatedConfig, W4A16Config
from hexcute_kernels.moe.few import few_rows
from hexcute_kernels.moe.forms import FORMS, Weights
from hexcute_kernels.moe.grouped import w4a16_gemm
from hexcute_kernels.moe.streamed import gated_product

TILES = W4A16Config(16, 128, 3, 1, EXACT=True)
F16, BF16 = np.float16, ml_dtypes.bfloat16
TYPES = {F16: f16, BF16: bf16}
HOW: dict[str, Any] = {"target": "sm_90"}


def memory(w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The weights as kernels take them, as words and as halves."""
    return w.view(np.uint16), w.view(np.float16).reshape(*w.shape[:2], -1)


def close(got: np.ndarray, want: np.ndarray, bits: int) -> None:
    scale = np.sqrt(np.mean(want**2)) * 2.0**-bits
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=2.0**-bits, atol=scale)


@pytest.mark.parametrize(
    ("form", "group", "kind", "exact"),
    [
        ("u8", 64, F16, True),
        ("u8", 32, BF16, False),
        ("e4m3", 64, BF16, True),
        ("e2m1", 32, F16, True),
    ],
)
def test_tiles_of_many_rows(form: str, group: int, kind: Any, exact: bool) -> None:
    m, n, k = 5, 64, 128
    fields, strips = made(form, 0, 1, k, n, group=group)
    scale = strips[0].astype(kind).astype(F16)
    x = np.random.default_rng(1).normal(size=(m, k)).astype(kind)
    w, c = in_order(form, fields, [scale, *strips[1:]]), np.full((m, n), np.nan, kind)
    held, config = Weights(FORMS[form], group), replace(TILES, EXACT=exact)
    w4a16_gemm("dense", held, TYPES[kind]).simulate(x, *memory(w), c, **asdict(config), **HOW)
    want = x.astype(np.float64) @ values(form, fields, [scale, *strips[1:]])[0]
    close(c, want, (10 if kind == F16 else 7) - (not exact))


@pytest.mark.parametrize(("form", "group", "kind"), [("u8", 32, F16), ("e4m3", 64, BF16)])
def test_few_rows(form: str, group: int, kind: Any) -> None:
    m, n, k = 3, 64, 256
    fields, strips = made(form, 0, 1, k, n, group=group)
    x = np.random.default_rng(1).normal(size=(m, k)).astype(kind)
    w, c = in_order(form, fields, strips), np.full((m, n), np.nan, kind)
    few_rows(n, k, Weights(FORMS[form], group), TYPES[kind]).simulate(
        x, *memory(w), c, **asdict(FewConfig(8, 64, 1, 2, 4, 4)), **HOW
    )
    close(c, x.astype(np.float64) @ values(form, fields, strips)[0], 10 if kind == F16 else 7)


def test_few_rows_of_an_expert() -> None:
    """Every code of MXFP4 in the first product of two experts."""
    hidden, width, experts = 256, 64, 2
    fields, strips = made("e2m1", 0, experts, hidden, 2 * width, group=32)
    x = np.random.default_rng(1).normal(size=(2, hidden)).astype(F16)
    w, h = in_order("e2m1", fields, strips), np.zeros((16, width), F16)
    expert, token = np.array([1, 0], np.int32), np.full(16, -1, np.int32)
    token[[0, 8]] = 0, 1
    gated_product(experts, hidden, width, Weights(FORMS["e2m1"], 32)).simulate(
        x, *memory(w), expert, token, h, **asdict(GatedConfig(8, 128, 1, 1, 4, 2)), **HOW
    )
    for row, owner, at in ((0, 1, 0), (1, 0, 8)):
        both = x[row].astype(np.float64) @ values("e2m1", fields, strips)[owner]
        gate, up = both[:width], both[width:]
        close(h[at], gate / (1 + np.exp(-gate)) * up, 9)


@pytest.mark.parametrize(
    ("form", "group", "kind", "names"),
    [
        ("u8", 64, f16, {"HADD2"}),
        ("e2m1", 32, bf16, {"HMUL2.BF16_V2"}),
    ],
)
def test_a_pair_takes_one_operation_of_floats(
    form: str, group: int, kind: Any, names: set[str]
) -> None:
    """Bits, and one difference or product of a pair; nothing is converted."""
    kernel = w4a16_gemm("dense", Weights(FORMS[form], group), kind)
    words = kernel.compile("sm_90", **asdict(TILES)).sass().split()
    pairs = 2 * 64 // 2 // (FORMS[form].bits // 4)
    assert sum(words.count(name) for name in names) == pairs
    assert not {word for word in words if word.startswith(("I2FP", "I2F.U8", "I2F.U16", "F2F."))}


def test_sums_are_of_float32() -> None:
    """Eight bits' products, each exact, whose sum float16 does not hold on the way."""
    k, n = 128, 64
    fields = np.full((1, k, n), 255, np.uint8)
    strips = [np.full((1, 2, n), 2.0**-8, F16), np.full((1, 2, n), 1024, F16)]
    x = np.full((1, k), 2, F16)
    c = np.full((1, n), np.nan, F16)
    w4a16_gemm("dense", Weights(FORMS["u8"], 64)).simulate(
        x, *memory(in_order("u8", fields, strips)), c, **asdict(TILES), **HOW
    )
    assert (c == 255).all() and f32.bits == 32
