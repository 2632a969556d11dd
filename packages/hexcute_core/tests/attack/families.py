"""Arguments of the scan and of products in FP8, small: rings come round, and little is computed."""

from __future__ import annotations

import ml_dtypes
import numpy as np

E4M3 = ml_dtypes.float8_e4m3fn
Arrays = tuple[np.ndarray, ...]


def scanned(length: int, channels: int = 40, states: int = 16) -> Arrays:
    """u, dt, A, B, C and a poisoned y of one sequence of f16."""
    rng = np.random.default_rng(length)
    normal = lambda *shape: rng.normal(size=shape).astype(np.float16)  # noqa: E731
    u, delta = normal(1, 1, channels, length), np.abs(normal(1, 1, channels, length))
    a = -rng.uniform(0.5, 4, (1, channels, states)).astype(np.float32)
    b, c = normal(1, 1, states, length), normal(1, 1, states, length)
    return u, delta, a, b, c, np.full(u.shape, 77, np.float16)


def scaled(m: int, n: int, k: int) -> Arrays:
    """a and b in FP8, a scale of every 128 numbers of a's rows and of every square of b, and a
    poisoned c in f32."""
    rng = np.random.default_rng(m + n + k)
    a, b = (rng.integers(-2, 3, (rows, k)).astype(E4M3) for rows in (m, n))
    groups, columns = -(-k // 128), -(-n // 128)
    by_row = rng.choice([0.5, 1, 2], (groups, m)).astype(np.float32)
    by_square = rng.choice([0.5, 1, 2], (columns, groups)).astype(np.float32)
    return a, b, by_row, by_square, np.full((m, n), 77, np.float32)
