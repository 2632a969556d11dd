"""Blockwise scaled FP8 GEMM in Triton: each 128 of k is multiplied, then scaled and added."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from hexcute_bench.interface import Run
from hexcute_bench.triton_kernels.gemm import GemmConfig

_WIDE = (
    GemmConfig(128, 128, 128, 3, 8),
    GemmConfig(128, 128, 128, 3, 4),
    GemmConfig(64, 128, 128, 4, 4),
    GemmConfig(128, 64, 128, 4, 4),
    GemmConfig(64, 128, 128, 3, 8),
)
_SLIM = ((32, 4), (64, 4), (128, 4), (64, 5))


def configs(m: int) -> tuple[GemmConfig, ...]:
    """Square tiles for many rows, narrow ones of 64 rows for few: below 64 rows there is no FP8
    instruction on this GPU. A column tile never crosses a block of weight scales."""
    if m > 128:
        return _WIDE
    return tuple(GemmConfig(64, bn, 128, stages, 4) for bn, stages in _SLIM)


@triton.jit
def scaled_gemm_kernel(
    a_ptr, w_ptr, c_ptr, sa_ptr, sw_ptr, M, N, K, stride_am, stride_wn, stride_cm, stride_sa,
    stride_sw, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
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
    w_ptrs = w_ptr + (columns % N)[None, :] * stride_wn + depth[:, None]
    sa_ptrs = sa_ptr + (rows % M) * stride_sa
    sw_ptrs = sw_ptr + tile_n * BN // 128 * stride_sw
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(K // BK):
        product = tl.dot(tl.load(a_ptrs), tl.load(w_ptrs))
        total += product * (tl.load(sa_ptrs + k) * tl.load(sw_ptrs + k))[:, None]
        a_ptrs += BK
        w_ptrs += BK
    c_ptrs = c_ptr + rows[:, None] * stride_cm + columns[None, :]
    tl.store(c_ptrs, total.to(c_ptr.dtype.element_ty), (rows < M)[:, None] & (columns < N)[None, :])


def scaled_gemm(case: Any, config: GemmConfig) -> Run:
    """A run of the kernel on an FP8 case's sets."""
    m, n, k = case.m, case.n, case.k
    grid = (triton.cdiv(m, config.bm) * triton.cdiv(n, config.bn),)

    def run(index: int) -> None:
        a, w, c = case.a[index], case.w[index], case.c[index]
        sa, sw = case.sa[index], case.sw[index]
        scaled_gemm_kernel[grid](
            a, w, c, sa, sw, m, n, k, a.stride(0), w.stride(0), c.stride(0), sa.stride(0),
            sw.stride(0), BM=config.bm, BN=config.bn, BK=config.bk, GROUP=config.group,
            num_stages=config.stages, num_warps=config.warps,
        )  # fmt: skip

    return run
