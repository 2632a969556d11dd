"""Weights of four bits in numpy, written apart from the operators: their order, and their value."""

from __future__ import annotations

import numpy as np


def place(k: int) -> tuple[int, int]:
    """Byte of a group's row, and shift in it, of nibble k of the group."""
    up, word = divmod(k, 32)
    return 2 * word + up // 2, up % 2 * 4


def quantized(seed: int, *shape: int, group: int = 128) -> tuple[np.ndarray, ...]:
    """q of this shape [experts, k, n], its scales and its zero points."""
    rng = np.random.default_rng(seed)
    experts, k, n = shape
    q = rng.integers(0, 16, shape).astype(np.uint8)
    scale = (rng.uniform(0.5, 1.5, (experts, k // group, n)) / np.sqrt(k)).astype(np.float16)
    return q, scale, rng.integers(0, 16, scale.shape).astype(np.uint8)


def packed(q: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
    """The weights in the kernels' order, nibble by nibble."""
    experts, k, n = q.shape
    parts = 128 * scale.shape[1] // k
    w = np.zeros((experts, k // 128, n + parts * n // 16, 64), np.uint8)
    for i in range(k):
        byte, shift = place(i % 128)
        w[:, i // 128, :n, byte] |= q[:, i, :] << shift
    halves = strips(w)
    for p in range(parts):
        at = n * (32 + 2 * p)
        halves[..., at : at + n], halves[..., at + n : at + 2 * n] = (
            scale[:, p::parts], zero[:, p::parts] + 1024.0
        )  # fmt: skip
    return w


def words(w: np.ndarray) -> np.ndarray:
    """The weights as the kernels read them."""
    return w.view(np.uint16)


def strips(w: np.ndarray) -> np.ndarray:
    """The same memory as the kernels read scales and zero points from."""
    return w.view(np.float16).reshape(*w.shape[:2], -1)


def weights(q: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
    """(q - zero) * scale in float64."""
    group = q.shape[1] // scale.shape[1]
    wide = np.repeat(scale.astype(np.float64), group, 1)
    return (q.astype(np.float64) - np.repeat(zero.astype(np.float64), group, 1)) * wide
