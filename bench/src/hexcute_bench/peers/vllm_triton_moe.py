"""Launches vLLM 0.9.2's Triton MoE kernel, which the peers' folder carries as it ships."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

from hexcute_bench.cases.moe import MoeCase, Quantized, align
from hexcute_bench.engine.weights import FourBits
from hexcute_bench.errors import PeerAbsent
from hexcute_bench.interface import Run
from hexcute_bench.peers.folder import peer_folder, vllm_operators


@dataclass(frozen=True)
class MoeConfig:
    """Rows, columns and k a block, blocks of rows that run together, warps and stages."""

    bm: int
    bn: int
    bk: int
    group: int = 1
    warps: int = 4
    stages: int = 3

    @property
    def name(self) -> str:
        return f"{self.bm}x{self.bn}x{self.bk} warps={self.warps} stages={self.stages}"


def default_config(case: MoeCase) -> MoeConfig:
    """The configuration vLLM uses where it has none tuned for the layer."""
    rows = 16 if case.tokens <= 20 else 32 if case.tokens <= 40 else 64
    return MoeConfig(rows, 64, 32)


def tuned_configs(case: MoeCase) -> Sequence[MoeConfig]:
    """A handful around the default: wider columns, deeper k."""
    rows = (16,) if case.tokens <= 64 else (16, 32, 64) if case.tokens <= 2048 else (64, 128)
    tried = ((64, 64, 4, 3), (128, 64, 4, 3), (128, 128, 8, 3), (64, 128, 4, 4))
    return [
        MoeConfig(bm, bn, bk, 8, warps, stages)
        for bm in rows
        for bn, bk, warps, stages in tried
    ]


@functools.cache
def kernel() -> Any:
    """The kernel as vLLM ships it, or `PeerAbsent`."""
    path = peer_folder() / "triton_moe_092.py"
    if not path.exists():
        raise PeerAbsent(f"{path.name} is not in the peers' folder")
    spec = importlib.util.spec_from_file_location("triton_moe_092", path)
    if spec is None or spec.loader is None:
        raise PeerAbsent(f"{path} cannot be loaded")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded.fused_moe_kernel_gptq_awq


@dataclass(frozen=True)
class _Packed:
    """As the kernel reads them: words uint8 [experts,n,k/2], scales [experts,n,k/group], zero
    points uint8 [experts,n/2,k/group]; the even index is the lower nibble."""

    words: Any
    scale: Any
    zero: Any


@functools.lru_cache(maxsize=2)
def pack(weights: Quantized | FourBits) -> _Packed:
    """The kernel's order of a stack of weights."""
    q = weights.q.transpose(1, 2)
    zero = weights.zero.transpose(1, 2)
    return _Packed(
        (q[:, :, 0::2] | (q[:, :, 1::2] << 4)).contiguous(),
        weights.scale.transpose(1, 2).contiguous(),
        (zero[:, 0::2] | (zero[:, 1::2] << 4)).contiguous(),
    )


def product(
    a: Any, c: Any, stack: _Packed, route: Any, gates: Any, config: MoeConfig, top_k: int,
    weighted: bool,
) -> None:  # fmt: skip
    """c (pairs, n) = rows of a times their experts' weights, each of a's rows for `top_k` pairs;
    `weighted`, times the pairs' gates. `route` has the rows in the experts' order."""
    n, k = stack.words.shape[1], stack.words.shape[2] * 2
    room, pairs = route.rows.numel(), c.shape[0]
    words, scale, zero = stack.words, stack.scale, stack.zero
    grid = (triton.cdiv(room, config.bm) * triton.cdiv(n, config.bn),)
    kernel()[grid](
        a, words, c, scale, zero, gates, route.rows, route.experts, route.padded,
        n, k, room, pairs, a.stride(0), a.stride(1), words.stride(0), words.stride(2),
        words.stride(1), c.stride(0), c.stride(1), scale.stride(0), scale.stride(2),
        scale.stride(1), zero.stride(0), zero.stride(2), zero.stride(1),
        block_k_diviable=k % config.bk == 0, group_size=k // scale.shape[2],
        BLOCK_SIZE_M=config.bm, BLOCK_SIZE_N=config.bn, BLOCK_SIZE_K=config.bk,
        GROUP_SIZE_M=config.group, MUL_ROUTED_WEIGHT=weighted, top_k=top_k,
        compute_type=tl.float16, has_zp=True, use_int4_w4a16=True, use_int8_w8a16=False,
        num_warps=config.warps, num_stages=config.stages,
    )  # fmt: skip


def layer(case: MoeCase, config: MoeConfig, packed: Callable[[], tuple[_Packed, _Packed]]) -> Run:
    """A run of both GEMMs and SiLU on an MoE case's sets, over `packed` W13 and W2."""
    size = case.sizes
    kernel()
    activate = vllm_operators("vllm._C", "_C", "silu_and_mul")
    first, second = packed()
    pairs = case.tokens * size.top_k
    routes = [align(ids, size.experts, config.bm) for ids in case.ids]
    gates = [gate.reshape(-1) for gate in case.gates]
    c1 = torch.empty((pairs, 2 * size.width), dtype=torch.float16, device="cuda")
    h = torch.empty((pairs, size.width), dtype=torch.float16, device="cuda")

    def run(index: int) -> None:
        how = routes[index], gates[index], config
        product(case.x[index], c1, first, *how, size.top_k, False)
        activate(h, c1)
        product(h, case.out[index], second, *how, 1, True)

    return run
