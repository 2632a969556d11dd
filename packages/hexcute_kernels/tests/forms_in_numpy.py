"""Weights of all forms in numpy, written apart from the operators: their order, and their value."""

from __future__ import annotations

import ml_dtypes
import numpy as np

BITS = {"u4": 4, "u8": 8, "e2m1": 4, "e4m3": 8}
CODES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def made(form: str, seed: int, *shape: int, group: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Bit fields of this shape [experts, k, n], and a scale for each group, and a zero point."""
    rng = np.random.default_rng(seed)
    experts, k, n = shape
    fields = rng.integers(0, 1 << BITS[form], shape).astype(np.uint8)
    if form == "e4m3":
        fields[fields & 127 == 127] = 0
    size = {"u8": 100, "e4m3": 100}.get(form, 4) * np.sqrt(k)
    spread = rng.uniform(0.5, 1.5, (experts, k // group, n)) / size
    if form == "e2m1":
        spread = 2.0 ** np.round(np.log2(spread))
    zeros = rng.integers(0, 1 << BITS[form], spread.shape) + 1024.0
    strips = [spread] if form in ("e2m1", "e4m3") else [spread, zeros]
    return fields, [strip.astype(np.float16) for strip in strips]


def in_order(form: str, fields: np.ndarray, strips: list[np.ndarray]) -> np.ndarray:
    """The weights in the kernels' order, number by number."""
    bits, (experts, k, n) = BITS[form], fields.shape
    block, groups = 512 // bits, strips[0].shape[1]
    parts = block * groups // k
    lines = n + parts * len(strips) * n // 32
    w = np.zeros((experts, k // block, lines, 64), np.uint8)
    for i in range(k):
        place, word = divmod(i % block, 32)
        byte, shift = divmod(16 * word + bits * place, 8)
        w[:, i // block, :n, byte] |= fields[:, i, :] << shift
    halves = w.view(np.float16).reshape(experts, k // block, -1)
    at = 32 * n
    for p in range(parts):
        for strip in strips:
            halves[..., at : at + n] = strip[:, p::parts]
            at += n
    return w


def values(form: str, fields: np.ndarray, strips: list[np.ndarray]) -> np.ndarray:
    """The weights in float64."""
    group = fields.shape[1] // strips[0].shape[1]
    scale, *zero = [np.repeat(strip.astype(np.float64), group, 1) for strip in strips]
    if form == "e4m3":
        return fields.view(ml_dtypes.float8_e4m3fn).astype(np.float64) * scale
    if form == "e2m1":
        return CODES[fields & 7] * np.where(fields & 8, -1, 1) * scale
    return (fields.astype(np.float64) - (zero[0] - 1024)) * scale
