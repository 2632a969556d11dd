"""Weights of four bits in numpy, written apart from the operators: their order, and their value."""

from __future__ import annotations

import numpy as np


def place(k: int) -> tuple[int, int]:
    """Byte of a group's row, and shift in it, of nibble k of the group."""
    up, word = divmod(k, 32)
    return 2 * word + up // 2, up % 2 * 4


def quantized(seed: int, *shape: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q of this shape [experts, k, n], its scales and its zero points."""
    rng = np.random.default_rng(seed)
    experts, k, n = shape
    q = rng.integers(0, 16, shape).astype(np.uint8)
    scale = (rng.uniform(0.5, 1.5, (experts, k // 128, n)) / np.sqrt(k)).astype(np.float16)
    return q, scale, rng.integers(0, 16, scale.shape).astype(np.uint8)


def packed(q: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
    """The weights in the kernels' order, nibble by nibble."""
    experts, k, n = q.shape
    w = np.zeros((experts, k // 128, n + n // 16, 64), np.uint8)
    for i in range(k):
        byte, shift = place(i % 128)
        w[:, i // 128, :n, byte] |= q[:, i, :] << shift
    halves = strips(w)
    halves[..., n * 32 : n * 33], halves[..., n * 33 :] = scale, zero + 1024.0
    return w


def words(w: np.ndarray) -> np.ndarray:
    """The weights as the kernels read them."""
    return w.view(np.uint16)


def strips(w: np.ndarray) -> np.ndarray:
    """The same memory as the kernels read scales and zero points from."""
    return w.view(np.float16).reshape(*w.shape[:2], -1)


def weights(q: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
    """(q - zero) * scale in float64."""
    wide = np.repeat(scale.astype(np.float64), 128, 1)
    return (q.astype(np.float64) - np.repeat(zero.astype(np.float64), 128, 1)) * wide
