"""softmax(Q K^T / sqrt(d)) V in Triton, one program per block of queries and head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import triton
import triton.language as tl

from hexcute_bench.interface import Run


@dataclass(frozen=True)
class AttentionConfig:
    """Queries and keys per block, pipeline stages, warps."""

    bm: int
    bn: int
    stages: int
    warps: int

    @property
    def name(self) -> str:
        return f"{self.bm}x{self.bn} stages={self.stages} warps={self.warps}"


def configs(d: int) -> tuple[AttentionConfig, ...]:
    """Configurations worth trying for a head dimension."""
    tried = [
        AttentionConfig(128, 128, 2, 8), AttentionConfig(128, 64, 3, 8),
        AttentionConfig(128, 128, 3, 8), AttentionConfig(128, 64, 3, 4),
        AttentionConfig(64, 64, 3, 4), AttentionConfig(64, 128, 3, 4),
    ]  # fmt: skip
    return tuple(tried if d <= 64 else [tried[0], *tried[1:2], *tried[3:]])


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, S, stride, scale,
    BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1) * D
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns, depth = tl.arange(0, BN), tl.arange(0, D)
    inside = (rows < S)[:, None]
    q_offsets = rows[:, None] * stride + head + depth[None, :]
    q = tl.load(q_ptr + q_offsets, mask=inside, other=0.0)
    top = tl.full((BM,), float("-inf"), tl.float32)
    weight = tl.zeros((BM,), tl.float32)
    total = tl.zeros((BM, D), tl.float32)
    for start in range(0, S, BN):
        keys = start + columns
        k = tl.load(k_ptr + keys[None, :] * stride + head + depth[:, None],
                    mask=(keys < S)[None, :], other=0.0)  # fmt: skip
        v = tl.load(v_ptr + keys[:, None] * stride + head + depth[None, :],
                    mask=(keys < S)[:, None], other=0.0)  # fmt: skip
        scores = tl.dot(q, k) * scale
        scores = tl.where((keys < S)[None, :], scores, float("-inf"))
        above = tl.maximum(top, tl.max(scores, 1))
        p = tl.exp2(scores - above[:, None])
        shrink = tl.exp2(top - above)
        weight = weight * shrink + tl.sum(p, 1)
        total = tl.dot(p.to(v.dtype), v, total * shrink[:, None])
        top = above
    total = total / weight[:, None]
    tl.store(o_ptr + q_offsets, total.to(o_ptr.dtype.element_ty), mask=inside)


def forward(case: Any, config: AttentionConfig) -> Run:
    """A run of the kernel on an attention case's sets."""
    grid = (triton.cdiv(case.s, config.bm), case.heads)
    scale = case.d**-0.5 * 1.4426950408889634

    def run(index: int) -> None:
        q = case.q[index]
        attention_kernel[grid](
            q, case.k[index], case.v[index], case.out[index], case.s, q.stride(0), scale,
            BM=config.bm, BN=config.bn, D=case.d, num_stages=config.stages,
            num_warps=config.warps,
        )  # fmt: skip

    return run
