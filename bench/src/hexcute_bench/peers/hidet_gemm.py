"""Hidet's matmul_f16 and matmul_f16_cute: a handful of each one's own tuning space.

Runs in the process of peers/hidet_process.py. The space's entry that calls cuBLAS is left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hexcute_bench.cases.gemm import GemmCase
from hexcute_bench.interface import Run
from hexcute_bench.peers.hidet_build import HidetPeer, Job, on_torchs_stream
from hexcute_bench.shape import Shape

PLAIN, CUTE = "hidet_f16", "hidet_f16_cute"
_SPACE = ("block_m", "block_n", "block_k", "warp_m", "warp_n", "warp_k")
# The first is the schedule's default. Hidet holds a block to 48 KB of shared memory, the f32
# result tile included, so none is larger than 64x128.
_WIDE = (
    (64, 128, 16, 32, 64, 16), (64, 128, 32, 32, 64, 32), (64, 128, 64, 32, 64, 64),
    (128, 64, 32, 64, 32, 32), (128, 64, 64, 64, 32, 64), (64, 128, 32, 64, 32, 32),
)  # fmt: skip
_SLIM = (
    (64, 128, 16, 32, 64, 16), (32, 64, 64, 16, 32, 64), (32, 128, 64, 32, 32, 64),
    (32, 64, 128, 16, 32, 64), (64, 64, 64, 32, 32, 64), (64, 128, 32, 32, 64, 32),
)  # fmt: skip


@dataclass(frozen=True)
class PlainJob(Job):
    """matmul_f16, which reads B as k x n; turning B over is not part of its time. Where k is
    split, torch adds the parts."""

    m: int
    n: int
    k: int
    tile: tuple[int, ...]
    parts: int

    def module(self) -> Any:
        from hidet.graph.ops.matmul.matmul_f16 import MatmulF16Task
        from hidet.ir.compute import tensor_input

        a = tensor_input("a", "float16", [self.m, self.k])
        b = tensor_input("b", "float16", [self.k, self.n])
        task = MatmulF16Task(a, b, "float32", self.parts)
        return task.schedule(**dict(zip(_SPACE, self.tile)), use_cublas=False)

    def launcher(self, case: GemmCase, launch: Any) -> Run:
        import torch

        turned = [b.t().contiguous() for b in case.b]
        shape = (self.parts, case.m, case.n)
        partial = torch.empty(shape, dtype=torch.float16, device="cuda") if self.parts > 1 else None

        def run(index: int) -> None:
            on_torchs_stream()
            launch(case.a[index], turned[index], case.c[index] if partial is None else partial)
            if partial is not None:
                torch.sum(partial, 0, out=case.c[index])

        return run


@dataclass(frozen=True)
class CuteJob(Job):
    """matmul_f16_cute on B as n x k, k split by Hidet's own rule."""

    m: int
    n: int
    k: int
    tile: tuple[int, ...]

    def module(self) -> Any:
        from hidet.graph.ops.matmul.matmul_f16_cute import MatmulF16CuteTask
        from hidet.ir.compute import tensor_input

        a = tensor_input("a", "float16", [self.m, self.k])
        b = tensor_input("b", "float16", [self.n, self.k])
        task = MatmulF16CuteTask(a, b, "float32", transpose_b=True)
        # 0 parts asks for the rule.
        tile = dict(zip(_SPACE, self.tile))
        return task.schedule(**tile, parallel_k_parts=0, use_cublas=False)

    def launcher(self, case: GemmCase, launch: Any) -> Run:
        def run(index: int) -> None:
            on_torchs_stream()
            launch(case.a[index], case.b[index], case.c[index])

        return run


def split_parts(m: int, n: int, k: int, multiprocessors: int = 132) -> int:
    """Hidet's rule for splitting k in matmul_f16: parts until there are five waves of blocks."""
    blocks = math.ceil(m / 64) * math.ceil(n / 64)
    parts = next((count for count in (8, 4, 2) if blocks * count <= multiprocessors * 5), 1)
    return math.gcd(parts, k)


class HidetGemm(HidetPeer):
    """One of the two GEMMs."""

    def jobs(self, shape: Shape) -> Sequence[Job]:
        m, n, k = shape["m"], shape["n"], shape["k"]
        made: list[Job] = []
        for index, tile in enumerate(_SLIM if m <= 128 else _WIDE):
            bm, bn, bk, wm, wn, wk = tile
            name = f"{bm}x{bn}x{bk} warp={wm}x{wn}x{wk}"
            folder = str(self.folder / f"{m}_{n}_{k}_{index}")
            if self.name == CUTE:
                made.append(CuteJob(name, self.arch, folder, m, n, k, tile))
            else:
                parts = split_parts(m, n, k)
                name += f" split={parts}" if parts > 1 else ""
                made.append(PlainJob(name, self.arch, folder, m, n, k, tile, parts))
        return made
