"""Products whose clusters share k: every lane of every block, and which calls they are for."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from forms_in_numpy import in_order, made, values
from four_bits import packed, quantized, strips, weights, words

from hexcute_core import bf16, f16
from hexcute_kernels.gpus import gpu_named
from hexcute_kernels.moe import w4a16_matmul
from hexcute_kernels.moe.configs import JOINED, ROOM, JoinedConfig
from hexcute_kernels.moe.forms import FORMS, Weights
from hexcute_kernels.moe.joined import joined_gemm
from hexcute_kernels.moe.operators import Dense, launch_joined
from hexcute_kernels.operator import Launch

F16, BF16 = np.float16, ml_dtypes.bfloat16
TYPES = {F16: f16, BF16: bf16}
HOW: dict[str, Any] = {"target": "sm_90"}
SENT, LEFT = JoinedConfig(64, 128, 3, 1), JoinedConfig(32, 128, 3, 1)
"""Sums that are sent from registers, and sums that others read."""


def close(got: np.ndarray, want: np.ndarray, bits: int) -> None:
    scale = np.sqrt(np.mean(want**2)) * 2.0**-bits
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=2.0**-bits, atol=scale)


@pytest.mark.parametrize(
    ("m", "n", "k", "config"),
    [
        (64, 128, 256, SENT),
        (70, 192, 640, JoinedConfig(64, 256, 3, 2)),
        (130, 320, 384, JoinedConfig(128, 256, 2, 2)),
        (129, 64, 256, JoinedConfig(128, 128, 3, 1)),
        (40, 192, 512, JoinedConfig(64, 128, 2, 1, 4)),
        (32, 128, 256, LEFT),
        (35, 320, 384, JoinedConfig(32, 256, 3, 2)),
        (1, 64, 1152, JoinedConfig(32, 128, 2, 1, 4)),
    ],
    ids=str,
)
def test_against_float64(m: int, n: int, k: int, config: JoinedConfig) -> None:
    """Tiles that reach past rows and columns, parts of k of unlike length, rings that go round."""
    numbers = quantized(0, 1, k, n)
    x = np.random.default_rng(1).normal(size=(m, k)).astype(F16)
    w, c = packed(*numbers), np.full((m, n), np.nan, F16)
    joined_gemm().simulate(x, words(w), strips(w), c, **asdict(config), **HOW)
    close(c, x.astype(np.float64) @ weights(*numbers)[0], 9)


@pytest.mark.parametrize("config", [SENT, LEFT], ids=str)
def test_rows_past_the_last_and_their_sums_are_not_written(config: JoinedConfig) -> None:
    m, n, k, numbers = 19, 64, 256, quantized(0, 1, 256, 64)
    x = np.random.default_rng(1).normal(size=(m, k)).astype(F16)
    w, memory = packed(*numbers), np.full((2 * m, n), np.nan, F16)
    joined_gemm().simulate(x, words(w), strips(w), memory[:m], **asdict(config), **HOW)
    assert np.isnan(memory[m:]).all() and not np.isnan(memory[:m]).any()


@pytest.mark.parametrize("config", [SENT, LEFT], ids=str)
@pytest.mark.parametrize(
    ("form", "group", "kind"),
    [
        ("u4", 32, F16),
        ("u4", 64, BF16),
        ("u8", 64, F16),
        ("u8", 32, BF16),
        ("e4m3", 64, BF16),
        ("e2m1", 32, F16),
    ],
)
def test_forms_groups_and_types(form: str, group: int, kind: Any, config: JoinedConfig) -> None:
    m, n, k = 5, 64, 384
    fields, scales = made(form, 0, 1, k, n, group=group)
    scales = [scales[0].astype(kind).astype(F16), *scales[1:]]
    x = np.random.default_rng(1).normal(size=(m, k)).astype(kind)
    w, c = in_order(form, fields, scales), np.full((m, n), np.nan, kind)
    joined_gemm(Weights(FORMS[form], group), TYPES[kind]).simulate(
        x, words(w), strips(w), c, **asdict(config), **HOW
    )
    want = x.astype(np.float64) @ values(form, fields, scales)[0]
    close(c, want, 9 if kind == F16 else 6)


def test_parts_are_added_in_one_order() -> None:
    """Large, small, -large and small, whose total in float32 depends on it: a block begins with its
    own, and goes on with the first other's."""
    m, n, k, small = 64, 64, 512, 2.0**-4
    q, scale, zero = (np.ones((1, rows, n)) for rows in (k, 4, 4))
    w = packed(q.astype(np.uint8), scale.astype(F16), 0 * zero.astype(np.uint8))
    x, c = np.zeros((m, k), F16), np.full((m, n), np.nan, F16)
    x[:, :128], x[:, 128], x[:, 256:384], x[:, 384] = 2.0**15, small, -(2.0**15), small
    config = JoinedConfig(64, 128, 2, 1, 4)
    joined_gemm().simulate(x, words(w), strips(w), c, **asdict(config), **HOW)
    assert np.array_equal(c, np.repeat([small, small, 2 * small, 0], 16)[:, None] * np.ones(n))


@pytest.mark.parametrize(
    ("held", "dtype"),
    [(Weights(), f16), (Weights(group=32), bf16), (Weights(FORMS["u8"], 64), bf16)],
    ids=str,
)
def test_configurations_have_room_and_registers(held: Weights, dtype: Any) -> None:
    for config in JOINED:
        fitting = config.within(held)
        built = joined_gemm(held, dtype).compile("sm_90", constants=asdict(fitting)).built
        assert not built.local_memory and built.shared_bytes <= ROOM and built.dependent
        assert held != Weights() or fitting == config


def chosen(m: int, n: int, k: int) -> tuple[str, Any]:
    problem = Dense(m=m, n=n, k=k)
    variant = w4a16_matmul.choose(gpu_named("h200"), problem)
    return variant.name, variant.configs.choose("h200", problem)


@pytest.mark.parametrize(
    ("m", "n", "k", "tile"),
    [
        (256, 8192, 28672, (128, 256)),
        (32, 14336, 4096, (32, 256)),
        (64, 14336, 4096, (64, 256)),
        (128, 14336, 4096, (128, 256)),
        (128, 4096, 4096, (64, 128)),
        (256, 4096, 4096, (128, 128)),
    ],
)
def test_calls_get_the_tiles_that_were_measured_to_win(
    m: int, n: int, k: int, tile: tuple[int, int]
) -> None:
    name, config = chosen(m, n, k)
    assert (name, config.BM, config.BN) == ("joined", *tile)


@pytest.mark.parametrize(
    ("m", "n", "k"),
    [
        (128, 8192, 28672), (64, 4096, 4096), (256, 14336, 4096), (32, 28672, 8192),
        (1024, 8192, 28672), (256, 2048, 2048), (0, 4096, 4096),
    ],
)  # fmt: skip
def test_calls_whose_clusters_do_not_fill_one_round_get_others(m: int, n: int, k: int) -> None:
    assert chosen(m, n, k)[0] in ("wgmma", "few")


def test_a_cluster_that_has_too_little_of_k_multiplies_whole_tiles() -> None:
    """No part of k is ever empty."""

    def kernel(k: int, split: int) -> tuple[str, int]:
        launch = launch_joined(Dense(m=64, n=64, k=k), JoinedConfig(64, 128, 3, 1, split))
        assert isinstance(launch, Launch)
        return launch.kernel.__name__, asdict(launch.config)["SPLIT"]  # type: ignore[call-overload]

    assert kernel(128, 2) == kernel(640, 4) == ("w4a16", 1)
    assert [kernel(256, 2), kernel(512, 4)] == [("w4a16_joined", 2), ("w4a16_joined", 4)]
