"""Hidet's attention operator: a handful of its own tuning space.

It multiplies Q and K in f16 sums, takes K transposed and does not scale; the scale is folded
into Q and the operands are laid out outside its time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hexcute_bench.cases.attention import AttentionCase
from hexcute_bench.interface import Run
from hexcute_bench.peers.hidet_build import HidetPeer, Job, on_torchs_stream
from hexcute_bench.shape import Shape

_SPACE = ("block_i", "block_j", "block_k", "warp_elems_m", "warp_elems_n", "warp_elems_k")
_TRIED = (
    (128, 128, 16, 32, 64, 16), (64, 128, 32, 16, 128, 32), (128, 128, 32, 32, 64, 32),
    (64, 64, 32, 16, 64, 32),
)  # fmt: skip
_MMA = "m16n8k16"


@dataclass(frozen=True)
class AttentionJob(Job):
    """One tile of the operator for [heads, S, d]."""

    heads: int
    d: int
    s: int
    tile: tuple[int, ...]
    mma: str

    def module(self) -> Any:
        from hidet.graph.ops.attention.attention import AttnTask
        from hidet.ir.compute import tensor_input

        q = tensor_input("q", "float16", [self.heads, self.s, self.d])
        k = tensor_input("k", "float16", [self.heads, self.d, self.s])
        v = tensor_input("v", "float16", [self.heads, self.s, self.d])
        task = AttnTask("attn", q, k, v, is_causal=False)
        return task.cuda_schedule_attn(**dict(zip(_SPACE, self.tile)), mma_config=self.mma)

    def launcher(self, case: AttentionCase, launch: Any) -> Run:
        import torch

        q = [(t * case.d**-0.5).transpose(0, 1).contiguous() for t in case.q]
        k = [t.permute(1, 2, 0).contiguous() for t in case.k]
        v = [t.transpose(0, 1).contiguous() for t in case.v]
        out = [torch.empty_like(t) for t in v]

        def run(index: int) -> Any:
            on_torchs_stream()
            launch(q[index], k[index], v[index], out[index])
            return out[index].transpose(0, 1)

        return run


class HidetAttention(HidetPeer):
    """The operator as hidet.ops.attention calls it."""

    def jobs(self, shape: Shape) -> Sequence[Job]:
        heads, d, s = shape["heads"], shape["d"], shape["s"]
        made = []
        for index, tile in enumerate(_TRIED):
            bi, bj, bk, *_ = tile
            for mma in (_MMA, "m16n8k8"):
                folder = str(self.folder / f"{heads}_{d}_{s}_{index}_{mma}")
                name = f"{bi}x{bj}x{bk} {mma}"
                made.append(AttentionJob(name, self.arch, folder, heads, d, s, tile, mma))
        return made
