"""Hidet's matmul_f16 and matmul_f16_cute: a handful of each one's own tuning space.

Runs in the process of peers/hidet_process.py. The space's entry that calls cuBLAS is left out.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hexcute_bench.cases.gemm import GemmCase
from hexcute_bench.errors import BenchError
from hexcute_bench.interface import Candidate, CasePeer, Run
from hexcute_bench.shape import Shape

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
class Job:
    """One kernel to build: which of the two, for which sizes, with which tile."""

    system: str
    m: int
    n: int
    k: int
    tile: tuple[int, ...]
    parts: int
    arch: str
    folder: str

    @property
    def name(self) -> str:
        bm, bn, bk, wm, wn, wk = self.tile
        split = f" split={self.parts}" if self.parts > 1 else ""
        return f"{bm}x{bn}x{bk} warp={wm}x{wn}x{wk}{split}"


def split_parts(m: int, n: int, k: int, multiprocessors: int = 132) -> int:
    """Hidet's rule for splitting k in matmul_f16: parts until there are five waves of blocks."""
    blocks = math.ceil(m / 64) * math.ceil(n / 64)
    parts = next((count for count in (8, 4, 2) if blocks * count <= multiprocessors * 5), 1)
    return math.gcd(parts, k)


def jobs(system: str, shape: Shape, arch: str, folder: Path) -> list[Job]:
    """The kernels to try for one shape."""
    m, n, k = shape["m"], shape["n"], shape["k"]
    parts = split_parts(m, n, k) if system == "hidet_f16" else 0
    tiles = _SLIM if m <= 128 else _WIDE
    place = folder / system
    return [
        Job(system, m, n, k, tile, parts, arch, str(place / f"{m}_{n}_{k}" / f"{index}"))
        for index, tile in enumerate(tiles)
    ]


def build(job: Job) -> str:
    """Builds one kernel by Hidet's own passes and nvcc; gives the folder of its library."""
    import hidet
    from hidet.drivers.build_module import build_ir_module
    from hidet.ir.compute import tensor_input

    hidet.option.cuda.arch(job.arch)
    a = tensor_input("a", "float16", [job.m, job.k])
    tile = dict(zip(_SPACE, job.tile))
    if job.system == "hidet_f16":
        from hidet.graph.ops.matmul.matmul_f16 import MatmulF16Task

        b = tensor_input("b", "float16", [job.k, job.n])
        module = MatmulF16Task(a, b, "float32", job.parts).schedule(**tile, use_cublas=False)
    elif job.system == "hidet_f16_cute":
        from hidet.graph.ops.matmul.matmul_f16_cute import MatmulF16CuteTask

        b = tensor_input("b", "float16", [job.n, job.k])
        task = MatmulF16CuteTask(a, b, "float32", transpose_b=True)
        # 0 parts asks for Hidet's own rule of splitting k.
        module = task.schedule(**tile, parallel_k_parts=job.parts, use_cublas=False)
    else:
        raise BenchError(f"Hidet has no GEMM called {job.system!r}")
    os.makedirs(job.folder, exist_ok=True)
    build_ir_module(module, job.folder, target=f"cuda --arch={job.arch}")
    return job.folder


class HidetGemm(CasePeer):
    """One of Hidet's two GEMMs over kernels that a pool of processes builds."""

    def __init__(self, name: str, arch: str, folder: Path, pool: Executor) -> None:
        self.name = name
        self._arch, self._folder, self._pool = arch, folder, pool
        self._building: dict[Shape, list[tuple[Job, Future[str]]]] = {}

    def order(self, shape: Shape) -> None:
        """Begins to build what this shape needs."""
        self._building[shape] = [
            (job, self._pool.submit(build, job))
            for job in jobs(self.name, shape, self._arch, self._folder)
        ]

    def finish(self) -> None:
        """Waits until all that was ordered is built or has failed."""
        for ordered in self._building.values():
            for _, future in ordered:
                future.exception()

    def prepare(self, case: GemmCase) -> Sequence[Candidate]:
        if case.shape not in self._building:
            self.order(case.shape)
        return [
            Candidate(job.name, lambda job=job, future=future: _run(case, job, future.result()))
            for job, future in self._building[case.shape]
        ]


def _run(case: GemmCase, job: Job, folder: str) -> Run:
    import torch
    from hidet.ffi.runtime_api import runtime_api
    from hidet.runtime import load_compiled_module

    launch = load_compiled_module(folder)
    plain = job.system == "hidet_f16"
    # matmul_f16 reads B as k x n; turning it over is not part of its time.
    turned = [b.t().contiguous() for b in case.b] if plain else case.b
    partial: Any = None
    if plain and job.parts > 1:
        shape = (job.parts, case.m, case.n)
        partial = torch.empty(shape, dtype=torch.float16, device="cuda")

    def run(index: int) -> None:
        runtime_api.set_current_cuda_stream(torch.cuda.current_stream().cuda_stream)
        if partial is None:
            launch(case.a[index], turned[index], case.c[index])
        else:
            launch(case.a[index], turned[index], partial)
            torch.sum(partial, 0, out=case.c[index])

    return run
