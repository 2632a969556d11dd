"""FP16 GEMM of sizes that nobody chose: m, n and k drawn log-uniformly, any and multiples of 8."""

from __future__ import annotations

import random

from hexcute_bench.cases.gemm import GemmCase, gemm_work
from hexcute_bench.interface import KernelSuite
from hexcute_bench.peers.gemm import Cublas, hexcute_gemm
from hexcute_bench.shape import Shape

SEED, COUNT, LARGEST = 16, 100, 14
"""Draws of each kind, from 1 to 2^14."""


def drawn(step: int, seed: int = SEED, count: int = COUNT) -> tuple[Shape, ...]:
    """`count` different sizes, each number a multiple of `step`."""
    source = random.Random(seed + step)
    found: dict[Shape, None] = {}
    while len(found) < count:
        sizes = (int(2 ** source.uniform(0, LARGEST)) for _ in range(3))
        m, n, k = (max(step, size // step * step) for size in sizes)
        found[Shape.of(m=m, n=n, k=k)] = None
    return tuple(found)


SHAPES = tuple(dict.fromkeys((*drawn(8), *drawn(1))))


def aligned(shape: Shape) -> str:
    """Whether rows of operands and results are whole 16 bytes."""
    whole = all(shape[name] % 8 == 0 for name in ("m", "n", "k"))
    return "multiples of 8" if whole else "any"


GEMM_SIZES = KernelSuite(
    name="gemm_sizes",
    title="FP16 GEMM, random sizes",
    operator="matmul",
    baseline="cublas",
    shapes=SHAPES,
    quick=SHAPES[::20],
    peers=(hexcute_gemm()[0], Cublas()),
    case=GemmCase,
    work=gemm_work,
    regime=aligned,
    note="not in the paper: as called, nothing was tuned for them",
)
