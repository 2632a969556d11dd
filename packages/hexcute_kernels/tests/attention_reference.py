"""Attention as it is defined, in float64 by numpy: what kernels are compared with."""

from __future__ import annotations

import numpy as np


def attention(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    scale: float,
    right: int | None = None,
    left: int | None = None,
    cap: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """q (b, sq, h, d), k (b, sk, hk, d), v (b, sk, hk, dv) -> the result (b, sq, h, dv) and the
    logarithms of the sums (b, h, sq). Bounds as those of the operator."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    group, shift = q.shape[2] // k.shape[2], k.shape[1] - q.shape[1]
    k, v = (np.repeat(x, group, axis=2) for x in (k, v))
    s = np.einsum("zihd,zjhd->zhij", q, k) * scale
    if cap:
        s = cap * np.tanh(s / cap)
    i, j = np.indices(s.shape[2:])
    seen = np.ones(i.shape, bool)
    if right is not None:
        seen &= j <= i + shift + right
    if left is not None:
        seen &= j >= i + shift - left
    top = np.max(s, axis=3, keepdims=True, initial=-1e30, where=seen)
    p = np.where(seen, np.exp(np.where(seen, s - top, 0.0)), 0.0)
    total = p.sum(3)
    with np.errstate(divide="ignore"):
        logs = np.log(total) + top[..., 0]
    o = np.einsum("zhij,zjhd->zihd", p, v) / np.where(total, total, 1).transpose(0, 2, 1)[..., None]
    return o, logs
