"""Attention of 64 sequences of 1 to 8192, packed one behind the other."""

from __future__ import annotations

from hexcute_bench.cases.packed import PackedCase, packed_work
from hexcute_bench.interface import KernelSuite
from hexcute_bench.peers.attention import FlashAttention3Packed
from hexcute_bench.peers.ours import hexcute
from hexcute_bench.shape import Shape

PACKED = tuple(
    Shape.of(sequences=64, most=8192, heads=heads, kv=kv, d=d, causal=causal)
    for causal in (0, 1)
    for heads, kv, d in ((16, 16, 64), (16, 16, 128), (32, 8, 128), (16, 16, 256))
)


def packed_regime(shape: Shape) -> str:
    """By the mask."""
    return "causal" if shape["causal"] else "whole"


MHA_PACKED = KernelSuite(
    name="mha_packed",
    title="Fused attention forward, sequences of unequal lengths",
    operator="attention",
    baseline="fa3",
    shapes=PACKED,
    quick=(PACKED[0], PACKED[5], PACKED[6]),
    peers=(
        *hexcute(
            "attention",
            lambda case, i: (case.q[i], case.k[i], case.v[i]),
            options=lambda case: {
                "causal": case.causal, "cu_seqlens_q": case.ends, "cu_seqlens_k": case.ends
            },
        ),
        FlashAttention3Packed(),
    ),
    case=PackedCase,
    work=packed_work,
    regime=packed_regime,
)  # fmt: skip
