"""MoE peers: three generations of Marlin, and vLLM's Triton kernel by default and tuned."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hexcute_bench.cases.moe import ROUNDED_WEIGHTS, MoeCase, Quantized, align
from hexcute_bench.errors import PeerAbsent
from hexcute_bench.interface import Candidate, CasePeer, Run
from hexcute_bench.peers.common import module
from hexcute_bench.peers.folder import loader, vllm_operators
from hexcute_bench.peers.marlin_format import pack_stack
from hexcute_bench.peers.ours import TUNED, Hexcute, TunedHexcute, operator

# How vLLM names "uint4 without a bias" to its operators.
UINT4 = (1 << 50) | 1024
_BLOCKS = (8, 16, 32, 48, 64)


def block_rows(case: MoeCase) -> int:
    """vLLM's rule for Marlin's rows per block: the first that most experts fill to under 0.9."""
    share = case.tokens * case.sizes.top_k / case.sizes.experts
    return next((block for block in _BLOCKS if share / block < 0.9), 64)


class _Buffers:
    """Scratch of one peer on a case: c1, its gated half, and c2."""

    def __init__(self, case: MoeCase) -> None:
        import torch

        pairs, size = case.tokens * case.sizes.top_k, case.sizes
        half = {"dtype": torch.float16, "device": case.x[0].device}
        self.pairs = pairs
        self.c1 = torch.empty((pairs, 2 * size.width), **half)
        self.h = torch.empty((pairs, size.width), **half)
        # In scope "layer" the sum over the top k follows, so c2 is scratch too.
        self.c2 = torch.empty((pairs, size.hidden), **half) if case.scope == "layer" else None

    def c2_of(self, case: MoeCase, index: int) -> Any:
        return case.out[index] if self.c2 is None else self.c2


def processors() -> int:
    import torch

    return int(torch.cuda.get_device_properties(0).multi_processor_count)


class MarlinMoe(CasePeer):
    """Marlin as vLLM ships it: 0.25.1, or 0.33, which dropped an order of rows of k."""

    name = "marlin"
    slack = ROUNDED_WEIGHTS

    def prepare(self, case: MoeCase) -> Sequence[Candidate]:
        torch = module("torch")
        multiply = vllm_operators("vllm._moe_C", "_moe_C", "moe_wna16_marlin_gemm")
        activate = vllm_operators("vllm._C", "_C", "silu_and_mul")
        order = vllm_operators("vllm._moe_C", "_moe_C", "moe_align_block_size")
        add = vllm_operators("vllm._moe_C", "_moe_C", "moe_sum")
        size, block = case.sizes, block_rows(case)
        taken = {argument.name for argument in multiply.default._schema.arguments}
        rows, whole = ((None, None), (True,)) if "perm" in taken else ((), ())

        def build() -> Run:
            first, second = pack_stack(case.w13), pack_stack(case.w2)
            buffers = _Buffers(case)
            space = torch.zeros(processors() * 4, dtype=torch.int32, device="cuda")
            routes = [align(ids, size.experts, block) for ids in case.ids]
            gates = [gate.reshape(-1) for gate in case.gates]

            def product(a: Any, c: Any, packed: Any, index: int, k_first: bool) -> None:
                words, scale, zero = packed
                route = routes[index]
                m, n, k = (
                    (case.tokens, 2 * size.width, size.hidden)
                    if k_first
                    else (buffers.pairs, size.hidden, size.width)
                )
                multiply(
                    a, c, words, None, scale, None, None, zero, *rows, space, route.rows,
                    route.experts, route.padded, gates[index], block,
                    size.top_k if k_first else 1, not k_first, UINT4, m, n, k, *whole, False,
                    True, False, -1, -1, -1,
                )  # fmt: skip

            def run(index: int) -> None:
                if case.scope == "layer":
                    route = routes[index]
                    order(
                        case.ids[index], size.experts, block, route.rows, route.experts,
                        route.padded, None,
                    )  # fmt: skip
                c2 = buffers.c2_of(case, index)
                product(case.x[index], buffers.c1, first, index, True)
                activate(buffers.h, buffers.c1)
                product(buffers.h, c2, second, index, False)
                if case.scope == "layer":
                    add(c2.view(case.tokens, size.top_k, size.hidden), case.out[index])

            return run

        return [Candidate(f"block={block}", build)]


class MarlinNew(CasePeer):
    """Marlin of vLLM 0.9.2, the paper's "Marlin-new", by raw pointers."""

    name = "marlin_092"
    slack = ROUNDED_WEIGHTS

    def prepare(self, case: MoeCase) -> Sequence[Candidate]:
        torch = module("torch")
        _only_gemms(case)
        multiply = loader().marlin_new()
        activate = vllm_operators("vllm._C", "_C", "silu_and_mul")
        size, block = case.sizes, block_rows(case)

        def build() -> Run:
            first, second = pack_stack(case.w13), pack_stack(case.w2)
            buffers = _Buffers(case)
            space = torch.zeros(processors() * 4, dtype=torch.int32, device="cuda")
            routes = [align(ids, size.experts, block) for ids in case.ids]
            gates = [gate.reshape(-1) for gate in case.gates]
            widest = max(2 * size.width, size.hidden)
            room = min(widest * routes[0].rows.numel(), processors() * 4 * block * 256)
            partial = torch.empty(room * (2 if block == 8 else 1), device="cuda")

            def run(index: int) -> None:
                route = routes[index]
                routing = (route.rows, route.experts, route.padded, gates[index], block)
                multiply(
                    case.x[index], buffers.c1, partial, *first, space, *routing, size.top_k,
                    False, case.tokens, 2 * size.width, size.hidden,
                )  # fmt: skip
                activate(buffers.h, buffers.c1)
                multiply(
                    buffers.h, case.out[index], partial, *second, space, *routing, 1, True,
                    buffers.pairs, size.hidden, size.width,
                )  # fmt: skip

            return run

        return [Candidate(f"block={block}", build)]


class MarlinOld(CasePeer):
    """Marlin of vLLM 0.8.2, the paper's "Marlin-old": one launch per expert."""

    name = "marlin_082"
    slack = ROUNDED_WEIGHTS

    def prepare(self, case: MoeCase) -> Sequence[Candidate]:
        torch = module("torch")
        _only_gemms(case)
        multiply = loader().marlin_old()
        activate = vllm_operators("vllm._C", "_C", "silu_and_mul")
        size = case.sizes
        block = max(16, block_rows(case))

        def build() -> Run:
            first, second = pack_stack(case.w13), pack_stack(case.w2)
            buffers = _Buffers(case)
            room = max(2 * size.width, size.hidden) // 64 * 16
            space = torch.zeros(room, dtype=torch.int32, device="cuda")
            routes = [align(ids, size.experts, block) for ids in case.ids]

            def run(index: int) -> None:
                route = routes[index]
                out = case.out[index]
                routing = (route.offsets, route.rows, case.gates[index], case.ids[index], block)
                buffers.c1.zero_()
                multiply(
                    case.x[index], buffers.c1, *first, space, *routing, size.top_k, case.tokens,
                    2 * size.width, size.hidden, True, False,
                )  # fmt: skip
                activate(buffers.h, buffers.c1)
                out.zero_()
                multiply(
                    buffers.h, out, *second, space, *routing, size.top_k, case.tokens,
                    size.hidden, size.width, False, True,
                )  # fmt: skip

            return run

        return [Candidate(f"block={block}", build)]


class VllmTriton(CasePeer):
    """vLLM 0.9.2's Triton kernel for int4 experts, by its default configuration or tuned."""

    slack = ROUNDED_WEIGHTS

    def __init__(self, name: str, tuned: bool) -> None:
        self.name, self._tuned = name, tuned

    def prepare(self, case: MoeCase) -> Sequence[Candidate]:
        module("triton")
        _only_gemms(case)
        launch = module("hexcute_bench.peers.vllm_triton_moe")
        configs = launch.tuned_configs(case) if self._tuned else [launch.default_config(case)]

        @functools.cache
        def packed() -> Any:
            return launch.pack(case.w13), launch.pack(case.w2)

        return [
            Candidate(config.name, functools.partial(launch.layer, case, config, packed))
            for config in configs
        ]


@functools.lru_cache(maxsize=2)
def _packed(stack: Quantized) -> Any:
    """A stack in our kernels' order."""
    return module("hexcute_kernels.moe").pack_experts(stack.q, stack.scale, stack.zero)


def _hexcute_moe(case: MoeCase, variant: str | None = None) -> Hexcute:
    """Our `moe(x, w13, w2, ids, gates, scope=...)`, on weights that its `pack_experts` has brought
    into their order."""
    operator("moe")
    first, second = _packed(case.w13), _packed(case.w2)
    return Hexcute(
        "hexcute",
        "moe",
        lambda case, i: (case.x[i], first, second, case.ids[i], case.gates[i]),
        variant=variant,
        options=lambda case: {"scope": case.scope},
    )


class HexcuteMoe(CasePeer):
    """Our layer as called."""

    name = "hexcute"

    def prepare(self, case: MoeCase) -> Sequence[Candidate]:
        return _hexcute_moe(case).prepare(case)


class AblatedMoe(CasePeer):
    """Our layer in tiles of many rows, as it is chosen there, but in one thing like Triton's: the
    way of its weights ("dataflow") or where they lie in shared memory ("layout")."""

    def __init__(self, name: str, like: str) -> None:
        self.name, self._like = name, like

    def prepare(self, case: MoeCase) -> Sequence[Candidate]:
        ours = _hexcute_moe(case, "wgmma")
        chosen = operator("moe").plan(ours.arguments(case), variant="wgmma").config
        first, second = (replace(c, TRITON=self._like) for c in (chosen.first, chosen.second))
        config = replace(chosen, first=first, second=second)
        return [Candidate(f"with Triton's {self._like}", lambda: ours.run(case, config))]


def tuned_moe() -> TunedHexcute:
    """Our layer by the best of its configurations."""
    return TunedHexcute(f"hexcute{TUNED}", _hexcute_moe)


def _only_gemms(case: MoeCase) -> None:
    if case.scope != "gemms":
        raise PeerAbsent("measured without alignment and top-k sum only; see the suite moe")
