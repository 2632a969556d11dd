"""One query's attention in Triton: the cache is split over programs, a second kernel combines.

    out = sum_i w_i o_i / sum_i w_i,  w_i = l_i 2^(t_i - max t)

with o_i, l_i, t_i the partial output, weight and top score of split i.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

from hexcute_bench.interface import Run


@dataclass(frozen=True)
class DecodeConfig:
    """Keys a block, splits of the cache a head, stages, warps."""

    bn: int
    splits: int
    stages: int
    warps: int

    @property
    def name(self) -> str:
        return f"{self.bn} splits={self.splits} stages={self.stages} warps={self.warps}"


def configs(s: int, heads: int) -> tuple[DecodeConfig, ...]:
    """Splits that give a few waves of programs, over two block sizes."""
    counts = sorted({max(1, min(512 // heads * waves, s // 128)) for waves in (1, 2, 4)})
    return tuple(
        DecodeConfig(bn, splits, 3, warps)
        for splits in counts
        for bn, warps in ((64, 4), (128, 4), (128, 8))
    )


@triton.jit
def split_kernel(
    q_ptr, k_ptr, v_ptr, part_ptr, top_ptr, weight_ptr, S, stride, scale, span,
    BN: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    head, split = tl.program_id(0), tl.program_id(1)
    depth, columns = tl.arange(0, D), tl.arange(0, BN)
    q = tl.load(q_ptr + head * D + depth).to(tl.float32) * scale
    top = float("-inf")
    weight = 0.0
    total = tl.zeros((D,), tl.float32)
    end = min(S, (split + 1) * span)
    for start in range(split * span, end, BN):
        keys = start + columns
        inside = (keys < end)[:, None]
        offsets = keys[:, None] * stride + head * D + depth[None, :]
        k = tl.load(k_ptr + offsets, mask=inside, other=0.0)
        v = tl.load(v_ptr + offsets, mask=inside, other=0.0)
        scores = tl.sum(k.to(tl.float32) * q[None, :], 1)
        scores = tl.where(keys < end, scores, float("-inf"))
        above = tl.maximum(top, tl.max(scores, 0))
        p = tl.exp2(scores - above)
        shrink = tl.exp2(top - above)
        weight = weight * shrink + tl.sum(p, 0)
        total = total * shrink + tl.sum(p[:, None] * v.to(tl.float32), 0)
        top = above
    place = head * tl.num_programs(1) + split
    tl.store(part_ptr + place * D + depth, total)
    tl.store(top_ptr + place, top)
    tl.store(weight_ptr + place, weight)


@triton.jit
def combine_kernel(
    part_ptr, top_ptr, weight_ptr, o_ptr, splits, D: tl.constexpr, SPLITS: tl.constexpr
):
    head = tl.program_id(0)
    depth, split = tl.arange(0, D), tl.arange(0, SPLITS)
    place = head * splits + split
    inside = split < splits
    top = tl.load(top_ptr + place, mask=inside, other=float("-inf"))
    share = tl.exp2(top - tl.max(top, 0))
    weight = tl.load(weight_ptr + place, mask=inside, other=0.0) * share
    part = tl.load(part_ptr + place[:, None] * D + depth[None, :], mask=inside[:, None], other=0.0)
    out = tl.sum(part * share[:, None], 0) / tl.sum(weight, 0)
    tl.store(o_ptr + head * D + depth, out.to(o_ptr.dtype.element_ty))


def decode(case: Any, config: DecodeConfig) -> Run:
    """A run of both kernels on a decoding case's sets."""
    heads, d = case.heads, case.d
    device = case.q[0].device
    part = torch.empty((heads, config.splits, d), dtype=torch.float32, device=device)
    top = torch.empty((heads, config.splits), dtype=torch.float32, device=device)
    weight = torch.empty_like(top)
    span = triton.cdiv(triton.cdiv(case.s, config.splits), config.bn) * config.bn
    splits = triton.cdiv(case.s, span)
    scale = d**-0.5 * 1.4426950408889634

    def run(index: int) -> None:
        k = case.k[index]
        split_kernel[(heads, splits)](
            case.q[index], k, case.v[index], part, top, weight, case.s, k.stride(0), scale, span,
            BN=config.bn, D=d, num_stages=config.stages, num_warps=config.warps,
        )  # fmt: skip
        combine_kernel[(heads,)](
            part, top, weight, case.out[index], splits, D=d,
            SPLITS=triton.next_power_of_2(splits), num_warps=4,
        )  # fmt: skip

    return run
