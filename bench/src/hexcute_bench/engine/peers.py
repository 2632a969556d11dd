"""Operators of other libraries in the place of ours, all else equal: what models are compared with.

    triton, marlin_092   experts of four bits by vLLM 0.9.2's kernels, those of the paper
    marlin               all products of four bits by Marlin of today's vLLM
    cutlass, deepgemm    products of eight bits; rows are quantized as for ours
    mamba                scans and steps by mamba-ssm
    transformers         what transformers calls: those, cuBLAS, and experts by torch's grouped_mm
    fa3                  attention and decoding by FlashAttention 3
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import torch

from hexcute_bench.cases.moe import Alignment
from hexcute_bench.engine.glue import OURS
from hexcute_bench.engine.operators import Operators
from hexcute_bench.engine.ours import OurMixture
from hexcute_bench.engine.reference import REFERENCE, TorchDense
from hexcute_bench.engine.weights import Eight, FourBits, Stacks
from hexcute_bench.peers.folder import loader, python_package, vllm_operators
from hexcute_bench.peers.fp8 import deep_gemm
from hexcute_bench.peers.marlin_format import pack_stack
from hexcute_bench.peers.moe import UINT4, processors
from hexcute_bench.triton_kernels import engine_rows

_BLOCKS = (8, 16, 32, 48, 64)


def aligned(ids: Any, experts: int, block: int) -> Alignment:
    """vLLM's order of rows for blocks of one expert each, found on the device."""
    order = vllm_operators("vllm._moe_C", "_moe_C", "moe_align_block_size")
    count = ids.numel()
    room = min(count * block, count + experts * (block - 1))
    room = -(-room // block) * block

    def numbers(many: int) -> Any:
        return torch.empty(many, dtype=torch.int32, device=ids.device)

    found = Alignment(numbers(room), numbers(room // block), numbers(1), None)
    order(ids, experts, block, found.rows, found.experts, found.padded, None)
    return found


def _added(c2: Any, tokens: int) -> Any:
    """The sum of each token's rows."""
    add = vllm_operators("vllm._moe_C", "_moe_C", "moe_sum")
    out = torch.empty((tokens, c2.shape[1]), dtype=c2.dtype, device=c2.device)
    add(c2.view(tokens, -1, c2.shape[1]), out)
    return out


class TritonExperts:
    """vLLM 0.9.2's Triton kernel, by the configuration that it has for these tokens."""

    def pack(self, stacks: Stacks) -> Any:
        from hexcute_bench.peers import vllm_triton_moe

        return tuple(vllm_triton_moe.pack.__wrapped__(s) for s in (stacks.first, stacks.second))

    def __call__(self, x: Any, packed: Any, ids: Any, gates: Any) -> Any:
        from hexcute_bench.peers.vllm_triton_moe import MoeConfig, product

        first, second = packed
        (tokens, top_k), experts = ids.shape, first.words.shape[0]
        rows = 16 if tokens <= 20 else 32 if tokens <= 40 else 64
        config = MoeConfig(rows, 32, 64) if tokens == 1 else MoeConfig(rows, 64, 32)
        route = aligned(ids, experts, rows)
        c1 = x.new_empty((tokens * top_k, first.words.shape[1]))
        c2 = x.new_empty((tokens * top_k, x.shape[1]))
        product(x, c1, first, route, gates, config, top_k, False)
        product(engine_rows.gated(c1), c2, second, route, gates, config, 1, True)
        return _added(c2, tokens)


@dataclass(frozen=True, eq=False)
class _Stack:
    """What Marlin reads of a stack, and its sizes."""

    words: Any
    scale: Any
    zero: Any
    k: int
    n: int


def _marlin(stack: FourBits) -> _Stack:
    k, n = stack.q.shape[-2:]
    return _Stack(*pack_stack.__wrapped__(stack), k, n)


def block_rows(tokens: int, top_k: int, experts: int) -> int:
    """vLLM's rule for Marlin's rows a block: the first that most experts fill to under 0.9."""
    share = tokens * top_k / experts
    return next((block for block in _BLOCKS if share / block < 0.9), 64)


@functools.cache
def _locks(device: Any) -> Any:
    return torch.zeros(processors() * 4, dtype=torch.int32, device=device)


class MarlinExperts:
    """Marlin: of vLLM 0.9.2 by raw pointers, or of the vLLM that is loaded."""

    def __init__(self, newest: bool) -> None:
        self._newest = newest

    def pack(self, stacks: Stacks) -> Any:
        return _marlin(stacks.first), _marlin(stacks.second)

    def __call__(self, x: Any, packed: Any, ids: Any, gates: Any) -> Any:
        first, second = packed
        (tokens, top_k), experts = ids.shape, first.words.shape[0]
        block = block_rows(tokens, top_k, experts)
        route = aligned(ids, experts, block)
        c1 = x.new_empty((tokens * top_k, first.n))
        c2 = x.new_empty((tokens * top_k, second.n))
        multiply = self._newer if self._newest else self._older
        multiply(x, c1, first, route, gates, block, top_k, False)
        multiply(engine_rows.gated(c1), c2, second, route, gates, block, 1, True)
        return _added(c2, tokens)

    @staticmethod
    def _older(
        a: Any, c: Any, w: _Stack, route: Alignment, gates: Any, block: int, top_k: int,
        weighted: bool,
    ) -> None:  # fmt: skip
        room = min(w.n * route.rows.numel(), processors() * 4 * block * 256)
        partial = torch.empty(room * (2 if block == 8 else 1), device=a.device)
        _marlin_092()(
            a, c, partial, w.words, w.scale, w.zero, _locks(a.device), route.rows, route.experts,
            route.padded, gates, block, top_k, weighted, a.shape[0], w.n, w.k,
        )  # fmt: skip

    @staticmethod
    def _newer(
        a: Any, c: Any, w: _Stack, route: Alignment, gates: Any, block: int, top_k: int,
        weighted: bool,
    ) -> None:  # fmt: skip
        multiply = vllm_operators("vllm._moe_C", "_moe_C", "moe_wna16_marlin_gemm")
        multiply(
            a, c, w.words, None, w.scale, None, None, w.zero, _locks(a.device), route.rows,
            route.experts, route.padded, gates, block, top_k, weighted, UINT4, a.shape[0], w.n,
            w.k, False, True, False, -1, -1, -1,
        )  # fmt: skip


@functools.cache
def _marlin_092() -> Any:
    return loader().marlin_new()


class MarlinFour:
    """Marlin's dense product."""

    def pack(self, weight: FourBits) -> _Stack:
        one = FourBits(*(t.unsqueeze(0) for t in (weight.q, weight.scale, weight.zero)))
        stack = _marlin(one)
        return _Stack(stack.words[0], stack.scale[0], stack.zero[0], stack.k, stack.n)

    def __call__(self, x: Any, packed: _Stack) -> Any:
        multiply = vllm_operators("vllm._C", "_C", "marlin_gemm")
        m, w = x.shape[0], packed
        return multiply(
            x, None, w.words, None, w.scale, None, None, w.zero, _locks(x.device), UINT4, m, w.n,
            w.k, False, True, False,
        )  # fmt: skip


def _quantized(x: Any) -> tuple[Any, Any]:
    """Rows in e4m3 and scales in columns, both for a multiple of four rows, which these libraries
    need: as for ours where there are so many."""
    from hexcute_kernels.fp8 import quantize_blockwise

    rows = -(-x.shape[0] // 4) * 4
    return quantize_blockwise(x) if rows == x.shape[0] else engine_rows.quantize(x, rows)


class CutlassEight:
    """CUTLASS, as vLLM has it."""

    def pack(self, weight: Eight) -> Eight:
        return weight

    def __call__(self, x: Any, packed: Eight) -> Any:
        multiply = vllm_operators("vllm._C", "_C", "cutlass_scaled_mm")
        q, s = _quantized(x)
        out = x.new_empty((q.shape[0], packed.w.shape[0]))
        multiply(out, q, packed.w.t(), s, packed.scale.t(), None)
        return out[: x.shape[0]]


class DeepGemmEight:
    """DeepGEMM."""

    def pack(self, weight: Eight) -> Eight:
        return weight

    def __call__(self, x: Any, packed: Eight) -> Any:
        q, s = _quantized(x)
        m = x.shape[0]
        out = x.new_empty((m, packed.w.shape[0]))
        deep_gemm().fp8_gemm_nt(
            (q[:m], s[:m]), (packed.w, packed.scale), out, disable_ue8m0_cast=True
        )
        return out


class TorchMixture(OurMixture):
    """torch's grouped_mm between the same of rows."""

    def product(self, rows: Any, w: Any, bounds: Any) -> Any:
        return torch.nn.functional.grouped_mm(rows, w.mT, offs=bounds[1:])


def mamba_scan(u: Any, delta: Any, a: Any, b: Any, c: Any, d: Any, z: Any, bias: Any) -> Any:
    """selective_scan_cuda.fwd; the last state is among what it keeps of each chunk of steps."""
    forward = python_package("selective_scan_cuda", "selective_scan_cuda*.so.xz").fwd
    b, c = (t.mT.contiguous().unsqueeze(1) for t in (b, c))
    _, kept, y = forward(u, delta, a, b, c, d, z, bias, True)
    return y, kept[:, :, -1, 1::2]


def mamba_step(
    state: Any, x: Any, dt: Any, a: Any, b: Any, c: Any, d: Any, z: Any, bias: Any
) -> Any:
    """selective_state_update of mamba-ssm."""
    path = "mamba_ssm.ops.triton.selective_state_update"
    step = python_package(path, "mamba_ssm*.txz").selective_state_update
    return step(state, x, dt, a, b, c, d, z, bias, True)


def _fa3() -> Any:
    return vllm_operators("vllm.vllm_flash_attn._vllm_fa3_C", "_vllm_fa3_C", "fwd")


def fa3_attend(q: Any, k: Any, v: Any, scale: float) -> Any:
    batch, s = q.shape[:2]
    ends = torch.arange(batch + 1, dtype=torch.int32, device=q.device) * s
    rows = [t.flatten(0, 1) for t in (q, k, v)]
    out = torch.empty_like(rows[0])
    none = [None] * 6
    made = _fa3()(
        *rows, None, None, None, out, ends, ends, None, None, None, s, s, *none, None, None, None,
        scale, True, -1, -1, 0.0, True, None, 1, None, 0, None, 1, 0, None,
    )  # fmt: skip
    return made[0].view(q.shape)


def fa3_decode(q: Any, k_cache: Any, v_cache: Any, lengths: Any, scale: float) -> Any:
    out = torch.empty_like(q)
    none = [None] * 6
    made = _fa3()(
        q, k_cache, v_cache, None, None, None, out, None, None, None, None, lengths, None, None,
        *none, None, None, None, scale, True, -1, -1, 0.0, True, None, 0, None, 0, None, 1, 0,
        None,
    )  # fmt: skip
    return made[0]


_MAMBA = OURS.but("mamba", scan=mamba_scan, scan_step=mamba_step, steps_first=False)
SYSTEMS: dict[str, tuple[Operators, ...]] = {
    "deepseek": (
        OURS,
        REFERENCE,
        OURS.but("triton", experts=TritonExperts()),
        OURS.but("marlin_092", experts=MarlinExperts(newest=False)),
        OURS.but("marlin", experts=MarlinExperts(newest=True), four=MarlinFour()),
    ),
    "jamba": (
        OURS,
        REFERENCE,
        _MAMBA,
        _MAMBA.but("transformers", mixture=TorchMixture(engine_rows.gated), dense=TorchDense()),
        OURS.but("fa3", attend=fa3_attend, decode=fa3_decode),
    ),
    "qwen": (
        OURS,
        REFERENCE,
        OURS.but("cutlass", eight=CutlassEight()),
        OURS.but("deepgemm", eight=DeepGemmEight()),
        OURS.but("fa3", attend=fa3_attend, decode=fa3_decode),
    ),
}
