"""Launches of the kernels that reach into other blocks, each with what numpy makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import remote_kernels as rk

from hexcute_core import f16, f32, i8, i32
from hexcute_core.simulator.lanes.values import storage


@dataclass(frozen=True)
class RemoteCase:
    """`arguments()` gives the kernel's arrays, the last one to be written, and what it becomes."""

    name: str
    kernel: Any
    arguments: Callable[[], tuple[tuple[np.ndarray, ...], np.ndarray]]
    constants: dict[str, int] = field(default_factory=dict)
    aligned: bool = True

    def __str__(self) -> str:
        return self.name


summed, exchanged = cache(rk.summed), cache(rk.exchanged)


def whole(dtype, *shape):
    """Small whole numbers, whose sums every type holds."""
    return np.random.default_rng(shape).integers(-3, 4, shape).astype(storage(dtype))


def row_sums(dtype, total, rows, columns):
    x = whole(dtype, rows, columns)
    return (x, np.full((rows, 1), 7, storage(total))), x.astype(storage(total)).sum(1)[:, None]


def halves(dtype, rows, columns):
    x = whole(dtype, rows, columns)
    padded = np.zeros((rows, 128), storage(dtype))
    padded[:, :columns] = x
    return (x, np.full((rows, 128), 7).astype(storage(dtype))), np.roll(padded, 64, 1)


def ring(rows, blocks):
    x = whole(i32, rows, 1)
    clusters = -(-rows // (32 * blocks))
    padded = np.zeros((clusters * blocks * 32, 1), np.int32)
    padded[:rows] = x
    each = padded.reshape(clusters, blocks, 32, 1).sum(1, keepdims=True)
    return (x, np.full_like(x, 7)), each.repeat(blocks, 1).reshape(-1, 1)[:rows].astype(np.int32)


def product(m, n, k):
    a, b = whole(f16, m, k), whole(f16, n, k)
    c = np.full((m, n), np.nan, np.float32)
    return (a, b, c), a.astype(np.float32) @ b.astype(np.float32).T


def tiles(rows, factor):
    x = whole(f16, rows, 64)
    return (x, np.full_like(x, 7)), x * np.float16(factor)


def copied(rows):
    x = whole(f16, rows, 128)
    return (x, np.full_like(x, 7)), x


def _cases() -> Iterator[RemoteCase]:
    for dtype, total in ((f32, f32), (f16, f32), (i8, i32)):
        for blocks in (2, 4):
            for columns in (64, 336):
                yield RemoteCase(
                    f"row_sums_{dtype}_{blocks}_{columns}", summed(dtype, total),
                    lambda d=dtype, t=total, c=columns: row_sums(d, t, 70, c), {"X": blocks},
                )  # fmt: skip
        yield RemoteCase(
            f"row_sums_{dtype}_ragged", summed(dtype, total),
            lambda d=dtype, t=total: row_sums(d, t, 41, 301), {"X": 2}, False,
        )  # fmt: skip
        for rows, columns in ((64, 128), (70, 80), (5, 101)):
            yield RemoteCase(
                f"exchanged_{dtype}_{rows}x{columns}", exchanged(dtype),
                lambda d=dtype, r=rows, c=columns: halves(d, r, c), aligned=columns % 16 == 0,
            )  # fmt: skip
    for blocks, rows in ((2, 64), (4, 250), (8, 300)):
        yield RemoteCase(f"ring_{blocks}", rk.ring, lambda r=rows, b=blocks: ring(r, b),
                         {"X": blocks})  # fmt: skip
    for shape in ((64, 64, 520), (100, 72, 200)):
        sides = "x".join(map(str, shape))
        for blocks in (2, 4):
            yield RemoteCase(f"split_k_{blocks}_{sides}", rk.split_k, lambda s=shape: product(*s),
                             {"X": blocks})  # fmt: skip
        for name in ("pushed", "pushed_by_roles"):
            yield RemoteCase(f"{name}_{sides}", getattr(rk, name), lambda s=shape: product(*s))
    for blocks, rows in ((2, 100), (4, 300)):
        yield RemoteCase(f"sent_by_tma_{blocks}", rk.sent_by_tma, lambda r=rows: tiles(r, 2),
                         {"X": blocks})  # fmt: skip
        yield RemoteCase(f"handed_out_{blocks}", rk.handed_out,
                         lambda r=rows: product(r - 56, 120, 64), {"X": blocks})  # fmt: skip
    yield RemoteCase("forwarded", rk.forwarded, lambda: tiles(100, 1))
    yield RemoteCase("started", rk.started, lambda: copied(70))


CASES = list(_cases())
