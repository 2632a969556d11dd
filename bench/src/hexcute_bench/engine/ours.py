"""Our operators as a system, between them what plain torch makes: `glue` has it in Triton."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from hexcute_bench.engine.reference import REFERENCE, gated
from hexcute_bench.engine.weights import Eight, FourBits, Stacks

FEW, LARGE = 16, 2**23
"""Rows up to which dense products of 16 bits are ours, and numbers of a weight from which."""


class OurFour:
    """w4a16_matmul."""

    def pack(self, weight: FourBits) -> Any:
        from hexcute_kernels.moe import pack

        return pack(weight.q, weight.scale, weight.zero)

    def __call__(self, x: Any, packed: Any) -> Any:
        from hexcute_kernels.moe import w4a16_matmul

        return w4a16_matmul(x, packed)


class OurDense:
    """linear for few rows and large weights; cuBLAS for others, between which there is little."""

    def pack(self, weight: Any) -> Any:
        return weight

    def __call__(self, x: Any, packed: Any) -> Any:
        from hexcute_kernels.gemm import linear

        ours = x.shape[0] <= FEW and packed.numel() >= LARGE
        return linear(x, packed) if ours else functional.linear(x, packed)


class OurExperts:
    """moe."""

    def pack(self, stacks: Stacks) -> Any:
        from hexcute_kernels.moe import pack_experts

        return tuple(pack_experts(s.q, s.scale, s.zero) for s in (stacks.first, stacks.second))

    def __call__(self, x: Any, packed: Any, ids: Any, gates: Any) -> Any:
        from hexcute_kernels.moe import moe

        return moe(x, *packed, ids, gates)


class OurEight:
    """quantize_blockwise and fp8_blockwise_matmul."""

    def pack(self, weight: Eight) -> Any:
        return weight

    def __call__(self, x: Any, packed: Eight) -> Any:
        from hexcute_kernels.fp8 import fp8_blockwise_matmul, quantize_blockwise

        q, s = quantize_blockwise(x)
        return fp8_blockwise_matmul(q, packed.w, s, packed.scale)


class OurMixture:
    """grouped_matmul over rows sorted by expert, `gated` between; the order is found by torch."""

    def __init__(self, gated: Callable[[Any], Any]) -> None:
        self._gated = gated

    def pack(self, stacks: Stacks) -> Stacks:
        return stacks

    def product(self, rows: Any, w: Any, bounds: Any) -> Any:
        """Rows bounds[e] to bounds[e + 1] by w[e] (n, k), for every expert e."""
        from hexcute_kernels.gemm import grouped_matmul

        return grouped_matmul(rows, w, bounds)

    def __call__(self, x: Any, packed: Stacks, ids: Any, gates: Any) -> Any:
        top_k, experts = ids.shape[1], packed.first.shape[0]
        chosen = ids.flatten()
        order = chosen.argsort(stable=True)
        numbers = torch.arange(experts + 1, dtype=torch.int32, device=x.device)
        bounds = torch.searchsorted(chosen[order], numbers, out_int32=True)
        h = self._gated(self.product(x[order // top_k], packed.first, bounds))
        weighed = self.product(h, packed.second, bounds) * gates.flatten()[order].unsqueeze(1)
        places = torch.empty_like(order).scatter_(
            0, order, torch.arange(order.numel(), device=x.device)
        )
        return weighed[places].view(-1, top_k, x.shape[1]).sum(1).to(x.dtype)


def attend(q: Any, k: Any, v: Any, scale: float) -> Any:
    from hexcute_kernels.attention import attention

    return attention(q, k, v, causal=True, scale=scale)


def decode(q: Any, k_cache: Any, v_cache: Any, lengths: Any, scale: float) -> Any:
    from hexcute_kernels.attention import decode_attention

    return decode_attention(q, k_cache, v_cache, lengths, scale=scale)


def latent(q: Any, cache: Any, lengths: Any, values: int, scale: float) -> Any:
    from hexcute_kernels.attention import latent_decode_attention

    return latent_decode_attention(q, cache, lengths, values=values, scale=scale)


def convolve(x: Any, w: Any, bias: Any) -> Any:
    from hexcute_kernels.scan import causal_conv1d

    return causal_conv1d(x, w, bias, activation="silu")


def convolve_step(x: Any, state: Any, w: Any, bias: Any) -> Any:
    from hexcute_kernels.scan import causal_conv1d_update

    return causal_conv1d_update(x, state, w, bias, activation="silu")


def scan(u: Any, delta: Any, a: Any, b: Any, c: Any, d: Any, z: Any, bias: Any) -> Any:
    from hexcute_kernels.scan import selective_scan_with_state

    return selective_scan_with_state(u, delta, a, b.mT, c.mT, d, z, bias, True)


def scan_step(
    state: Any, x: Any, dt: Any, a: Any, b: Any, c: Any, d: Any, z: Any, bias: Any
) -> Any:
    from hexcute_kernels.scan import selective_state_update

    return selective_state_update(state, x, dt, a, b, c, d, z, bias, True)


PLAIN = REFERENCE.but(
    "hexcute", four=OurFour(), eight=OurEight(), dense=OurDense(), experts=OurExperts(),
    mixture=OurMixture(gated), attend=attend, decode=decode, latent=latent, convolve=convolve,
    convolve_step=convolve_step, scan=scan, scan_step=scan_step,
)  # fmt: skip
