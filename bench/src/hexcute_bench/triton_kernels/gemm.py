"""C[m,n] = A[m,k] B[n,k]^T in Triton over plain pointers: one program per tile of C."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import triton
import triton.language as tl

from hexcute_bench.interface import Run


@dataclass(frozen=True)
class GemmConfig:
    """Tile sizes, pipeline stages and warps of one configuration."""

    bm: int
    bn: int
    bk: int
    stages: int
    warps: int
    group: int = 8

    @property
    def name(self) -> str:
        return f"{self.bm}x{self.bn}x{self.bk} stages={self.stages} warps={self.warps}"


_WIDE = (
    GemmConfig(128, 256, 64, 3, 8),
    GemmConfig(256, 128, 64, 3, 8),
    GemmConfig(128, 256, 64, 4, 8),
    GemmConfig(128, 128, 64, 4, 4),
    GemmConfig(128, 128, 64, 3, 8),
    GemmConfig(64, 256, 64, 4, 4),
)
_SLIM = (
    (16, 128, 4, 4), (16, 128, 6, 4), (32, 128, 5, 4), (32, 64, 8, 4), (64, 128, 4, 4),
    (64, 64, 6, 4), (128, 64, 4, 4), (128, 128, 3, 4),
)  # fmt: skip


def pointer_configs(m: int) -> tuple[GemmConfig, ...]:
    """Wide tiles for many rows; for few, one tile over the rows and narrow columns."""
    if m > 128:
        return _WIDE
    rows = max(16, 1 << (m - 1).bit_length())
    return tuple(GemmConfig(rows, bn, bk, stages, warps) for bn, bk, stages, warps in _SLIM)


@triton.jit
def gemm_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_bn, stride_cm,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    EVEN_K: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    in_group = GROUP * tiles_n
    first_m = pid // in_group * GROUP
    group_m = min(tiles_m - first_m, GROUP)
    tile_m = first_m + pid % in_group % group_m
    tile_n = pid % in_group // group_m
    rows = tile_m * BM + tl.arange(0, BM)
    columns = tile_n * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    a_ptrs = a_ptr + (rows % M)[:, None] * stride_am + depth[None, :]
    b_ptrs = b_ptr + (columns % N)[None, :] * stride_bn + depth[:, None]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        if EVEN_K:
            a, b = tl.load(a_ptrs), tl.load(b_ptrs)
        else:
            inside = depth < K - k * BK
            a = tl.load(a_ptrs, mask=inside[None, :], other=0.0)
            b = tl.load(b_ptrs, mask=inside[:, None], other=0.0)
        total = tl.dot(a, b, total)
        a_ptrs += BK
        b_ptrs += BK
    c_ptrs = c_ptr + rows[:, None] * stride_cm + columns[None, :]
    tl.store(c_ptrs, total.to(c_ptr.dtype.element_ty), (rows < M)[:, None] & (columns < N)[None, :])




def pointer_gemm(case: Any, config: GemmConfig) -> Run:
    """A run of the kernel on a GEMM case's sets."""
    m, n, k = case.m, case.n, case.k
    grid = (triton.cdiv(m, config.bm) * triton.cdiv(n, config.bn),)

    def run(index: int) -> None:
        a, b, c = case.a[index], case.b[index], case.c[index]
        gemm_kernel[grid](
            a, b, c, m, n, k, a.stride(0), b.stride(0), c.stride(0),
            BM=config.bm, BN=config.bn, BK=config.bk, GROUP=config.group,
            EVEN_K=k % config.bk == 0, num_stages=config.stages, num_warps=config.warps,
        )  # fmt: skip

    return run
