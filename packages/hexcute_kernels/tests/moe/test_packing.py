"""The order of packed weights, against an unpacker written apart, and back."""

from __future__ import annotations

from typing import Any

import pytest
from four_bits import place

from hexcute_core.errors import LaunchError

torch = pytest.importorskip("torch")
from hexcute_kernels.moe import pack, pack_experts, unpack  # noqa: E402


def quantized(*shape: int) -> tuple[Any, Any, Any]:
    """q of this shape, its scales and its zero points."""
    torch.manual_seed(0)
    *batch, k, n = shape
    q = torch.randint(0, 16, shape, dtype=torch.uint8)
    scale = torch.rand((*batch, k // 128, n)).half()
    return q, scale, torch.randint(0, 16, scale.shape, dtype=torch.uint8)


@pytest.mark.parametrize("shape", [(128, 64), (384, 192), (3, 256, 128)], ids=str)
def test_each_number_has_its_place(shape: tuple[int, ...]) -> None:
    q, scale, zero = quantized(*shape)
    *batch, k, n = shape
    w = pack(q, scale, zero)
    assert w.shape == (*batch, k // 128, n * 17 // 16, 64) and w.is_contiguous()
    for i in range(0, k, 7):
        byte, shift = place(i % 128)
        assert torch.equal(w[..., i // 128, :n, byte] >> shift & 15, q[..., i, :])
    halves = w.view(torch.float16).flatten(-2)
    assert torch.equal(halves[..., n * 32 : n * 33], scale)
    assert torch.equal(halves[..., n * 33 :], zero.half() + 1024)


@pytest.mark.parametrize("shape", [(128, 64), (640, 320), (2, 128, 64), (2, 3, 256, 128)], ids=str)
def test_there_and_back(shape: tuple[int, ...]) -> None:
    numbers = quantized(*shape)
    assert all(torch.equal(a, b) for a, b in zip(unpack(pack_experts(*numbers)), numbers))


def test_what_cannot_be_is_told() -> None:
    q, scale, zero = quantized(256, 64)
    for args, words in (
        ((q[:200], scale, zero), "k a multiple of 128"),
        ((q[:, :40], scale, zero), "n of 64"),
        ((q, scale[:1], zero), r"to be \(2, 64\)"),
        ((q, scale.float(), zero), "float16 scale"),
        ((q + 1, scale, zero), "q holds 16"),
        ((q, scale, zero + 16), "zero holds"),
    ):
        with pytest.raises(LaunchError, match=words):
            pack(*args)
    with pytest.raises(LaunchError, match="what hexcute_kernels.moe.pack"):
        unpack(q)
