"""Weights as models are stored, written word by word by numpy, and what comes of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from four_bits import packed

from hexcute_core.errors import LaunchError

torch = pytest.importorskip("torch")
from hexcute_kernels.moe import (  # noqa: E402
    from_awq,
    from_compressed_tensors,
    from_gptq,
    unpack,
)

AWQ = (0, 2, 4, 6, 1, 3, 5, 7)
SHAPES = [(256, 64, 128), (512, 128, 256), (384, 192, 384), (256, 128, 64), (384, 64, 32)]
"""k, n and how many rows share a scale."""


def numbers(k: int, n: int, group: int, *batch: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q [.., k, n], and scales and zero points [.., k / group, n]."""
    rng = np.random.default_rng(k)
    scale = rng.uniform(0.01, 1, (*batch, k // group, n)).astype(np.float16)
    q, zero = (rng.integers(0, 16, shape) for shape in ((*batch, k, n), scale.shape))
    return q, scale, zero


def words(q: np.ndarray, axis: int, order: Sequence[int] = range(8)) -> Any:
    """Words of eight numbers along `axis`: nibble i holds number order[i] of eight."""
    q = np.moveaxis(q, axis, -1)
    out = np.zeros((*q.shape[:-1], q.shape[-1] // 8), np.uint32)
    for at in range(out.shape[-1]):
        for nibble, number in enumerate(order):
            out[..., at] |= q[..., 8 * at + number].astype(np.uint32) << np.uint32(4 * nibble)
    return torch.from_numpy(np.ascontiguousarray(np.moveaxis(out, -1, axis)).view(np.int32))


def expected(q: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> Any:
    """The kernels' order, written apart from `pack`."""
    group = q.shape[-2] // scale.shape[-2]
    scale, zero = (np.repeat(t, max(1, group // 128), -2) for t in (scale, zero))
    group = min(group, 128)
    lead = q.shape[:-2] or (1,)
    parts = [t.reshape(*lead, *t.shape[-2:]) for t in (q.astype(np.uint8), scale, zero)]
    shape = (*q.shape[:-2], -1, q.shape[-1] * (group + 8) // group, group // 2)
    return torch.from_numpy(packed(*parts)).reshape(shape)


@pytest.mark.parametrize("batch", [(), (3,)], ids=str)
@pytest.mark.parametrize(("k", "n", "group"), SHAPES)
def test_each_format_becomes_the_kernels_order(
    k: int, n: int, group: int, batch: tuple[int, ...]
) -> None:
    q, scale, zero = numbers(k, n, group, *batch)
    scales, want = torch.from_numpy(scale), expected(q, scale, zero)
    assert torch.equal(from_awq(words(q, -1, AWQ), words(zero, -1, AWQ), scales), want)
    for version, stored in ((1, zero - 1 & 15), (2, zero)):
        w, order = from_gptq(words(q, -2), words(stored, -1), scales, version=version)
        assert torch.equal(w, want) and order is None
    turned = words(q.swapaxes(-1, -2), -1), scales.mT, words(zero.swapaxes(-1, -2), -2)
    w, order = from_compressed_tensors(*turned)
    assert torch.equal(w, want) and order is None
    w, _ = from_compressed_tensors(*turned[:2])
    assert torch.equal(w, expected(q, scale, np.full_like(zero, 8)))


@pytest.mark.parametrize("batch", [(), (2,)], ids=str)
def test_rows_in_any_order_of_groups(batch: tuple[int, ...]) -> None:
    """As desc_act leaves them: the product with x's columns in the order told is the same."""
    k, n, group = 512, 64, 128
    q, scale, zero = numbers(k, n, group, *batch)
    rng = np.random.default_rng(0)
    g_idx = rng.permuted(np.broadcast_to(np.arange(k) // group, (*batch, k)).copy(), axis=-1)
    over = [np.take_along_axis(t, g_idx[..., None], -2).astype(float) for t in (scale, zero)]
    weight = (q - over[1]) * over[0]
    indices, scales = torch.from_numpy(g_idx.astype(np.int32)), torch.from_numpy(scale)
    both = (
        from_gptq(words(q, -2), words(zero - 1 & 15, -1), scales, indices),
        from_compressed_tensors(
            words(q.swapaxes(-1, -2), -1), scales.mT, words(zero.swapaxes(-1, -2), -2), indices
        ),
    )
    for w, order in both:
        p, s, z = (t.numpy().astype(float) for t in unpack(w))
        assert order is not None
        turned = np.take_along_axis(weight, order.numpy()[..., None], -2)
        assert np.array_equal((p - np.repeat(z, 128, -2)) * np.repeat(s, 128, -2), turned)
    plain = torch.arange(k, dtype=torch.int32) // group
    assert from_gptq(words(q, -2), words(zero, -1), scales, plain.expand(*batch, k))[1] is None


def test_scales_in_bfloat16_that_float16_holds_are_taken() -> None:
    q, scale, zero = numbers(128, 64, 128)
    short = torch.from_numpy(scale).bfloat16()
    w = from_awq(words(q, -1, AWQ), words(zero, -1, AWQ), short)
    assert torch.equal(unpack(w)[1].float(), short.float())


def test_what_cannot_be_is_told() -> None:
    q, scale, zero = numbers(256, 64, 128)
    qw, qz, scales = words(q, -2), words(zero, -1), torch.from_numpy(scale)
    small = torch.ones(16, 64).half()
    for args, told in (
        ((qw.long(), qz, scales), "int32"),
        ((qw, qz, scales, None, 3), "version is 1 or 2"),
        ((qw, qz, scales[:, :32]), "scales and zero points"),
        ((qw, torch.zeros(16, 8, dtype=torch.int32), small), "16 groups of 256 rows"),
        ((qw, qz, scales, torch.zeros(9)), r"one of 2 groups for each of \(256,\) rows"),
        ((qw, qz, scales, torch.zeros(256)), "each of 2 groups 128 times"),
        ((qw, qz, scales[0]), "scales in floats of two dimensions"),
        ((qw, qz, scales.float() + 1e-6), "does not hold exactly"),
    ):
        with pytest.raises(LaunchError, match=told):
            from_gptq(*args)
    with pytest.raises(LaunchError, match="n of 64"):
        from_awq(words(q[:, :32], -1, AWQ), words(zero[:, :32], -1, AWQ), scales[:, :32])
