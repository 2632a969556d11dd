"""C[m,n] = A[m,k] B[n,k]^T in Triton over TMA descriptors: persistent programs over C's tiles."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from hexcute_bench.interface import Run
from hexcute_bench.triton_kernels.gemm import GemmConfig

_WIDE = (
    GemmConfig(128, 256, 64, 3, 8),
    GemmConfig(256, 128, 64, 3, 8),
    GemmConfig(128, 128, 64, 4, 4),
    GemmConfig(128, 128, 64, 4, 8),
)
_SLIM = (
    (16, 128, 4, 4), (32, 128, 4, 4), (64, 128, 4, 4), (64, 64, 6, 4), (128, 64, 4, 4),
    (128, 128, 3, 4),
)  # fmt: skip


def tma_configs(m: int) -> tuple[GemmConfig, ...]:
    """Wide tiles for many rows; for few, one tile over the rows and narrow columns."""
    if m > 128:
        return _WIDE
    rows = max(16, 1 << (m - 1).bit_length())
    return tuple(GemmConfig(rows, bn, bk, stages, warps) for bn, bk, stages, warps in _SLIM)


@triton.jit
def tma_gemm_kernel(
    a_desc, b_desc, c_desc, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    PROGRAMS: tl.constexpr,
):  # fmt: skip
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    in_group = GROUP * tiles_n
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, PROGRAMS, flatten=True):
        first_m = tile // in_group * GROUP
        group_m = min(tiles_m - first_m, GROUP)
        row = (first_m + tile % in_group % group_m) * BM
        column = tile % in_group // group_m * BN
        total = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(tl.cdiv(K, BK)):
            a = a_desc.load([row, k * BK])
            b = b_desc.load([column, k * BK])
            total = tl.dot(a, b.T, total)
        c_desc.store([row, column], total.to(tl.float16))


def tma_gemm(case: Any, config: GemmConfig) -> Run:
    """A run of the kernel on a GEMM case's sets; the descriptors are made once."""
    m, n, k = case.m, case.n, case.k
    tiles = triton.cdiv(m, config.bm) * triton.cdiv(n, config.bn)
    programs = min(tiles, torch.cuda.get_device_properties(0).multi_processor_count)
    made = [
        (
            TensorDescriptor.from_tensor(case.a[index], [config.bm, config.bk]),
            TensorDescriptor.from_tensor(case.b[index], [config.bn, config.bk]),
            TensorDescriptor.from_tensor(case.c[index], [config.bm, config.bn]),
        )
        for index in range(case.sets)
    ]

    def run(index: int) -> None:
        tma_gemm_kernel[(programs,)](
            *made[index], m, n, k, BM=config.bm, BN=config.bn, BK=config.bk, GROUP=config.group,
            PROGRAMS=programs, num_stages=config.stages, num_warps=config.warps,
        )  # fmt: skip

    return run
