"""Fused attention, batch 1: forward on 20 shapes, their causal twins with heads of 256, decoding on
24."""

from __future__ import annotations

from hexcute_bench.cases.attention import (
    AttentionCase,
    decoding_case,
    decoding_work,
    forward_work,
)
from hexcute_bench.interface import KernelSuite, ProcessPeer
from hexcute_bench.peers import triton
from hexcute_bench.peers.attention import (
    FlashAttention3,
    FlashInferDecode,
    cudnn,
    flash_attention_2,
    hexcute_attention,
)
from hexcute_bench.peers.flash_attention4 import FlashAttention4
from hexcute_bench.peers.hidet_link import hidet_rows
from hexcute_bench.shape import Shape

FORWARD = tuple(
    Shape.of(heads=heads, d=d, s=s)
    for heads in (16, 32)
    for d in (64, 128)
    for s in (512, 1024, 2048, 4096, 16384)
)
DECODING = tuple(
    Shape.of(heads=heads, d=d, s=s)
    for heads in (32, 16)
    for d in (64, 128)
    for s in (1024, 2048, 4096, 16384, 32768, 65536)
)


CAUSAL = (
    *(Shape.of({**shape.sizes(), "causal": 1}) for shape in FORWARD),
    *(
        Shape.of(heads=16, d=256, s=s, causal=causal)
        for causal in (0, 1)
        for s in (512, 1024, 2048, 4096, 16384)
    ),
)
"""Of the paper's shapes the causal twins, and heads of 256 both ways."""


def forward_regime(shape: Shape) -> str:
    """Short sequences do not fill the GPU."""
    return "S>=2048" if shape["s"] >= 2048 else "S<=1024"


def decoding_regime(shape: Shape) -> str:
    """A short cache does not fill the GPU and fits in L2."""
    return "S>=16384" if shape["s"] >= 16384 else "S<=4096"


MHA_FORWARD = KernelSuite(
    name="mha_forward",
    title="Fused attention forward",
    operator="attention",
    baseline="fa3",
    shapes=FORWARD,
    quick=(FORWARD[3], FORWARD[7], FORWARD[18]),
    peers=(
        *hexcute_attention("attention"),
        *hexcute_attention("attention", "hexcute_sm80", "mma"),
        FlashAttention4(),
        FlashAttention3(),
        flash_attention_2(),
        cudnn(),
        triton.attention(),
    ),
    case=AttentionCase,
    work=forward_work,
    regime=forward_regime,
    processes=(ProcessPeer(("hidet_attention",), "hidet", hidet_rows),),
)

MHA_CAUSAL = KernelSuite(
    name="mha_causal",
    title="Fused attention forward, causal, and heads of 256",
    operator="attention",
    baseline="fa4",
    shapes=CAUSAL,
    quick=(CAUSAL[3], CAUSAL[7], CAUSAL[24]),
    peers=(
        *hexcute_attention("attention"),
        FlashAttention4(),
        FlashAttention3(),
        flash_attention_2(),
        cudnn(),
    ),
    case=AttentionCase,
    work=forward_work,
    regime=forward_regime,
)

MHA_DECODING = KernelSuite(
    name="mha_decoding",
    title="Fused attention decoding",
    operator="decode_attention",
    baseline="flashinfer",
    shapes=DECODING,
    quick=(DECODING[1], DECODING[9], DECODING[22]),
    peers=(
        *hexcute_attention("decode_attention"),
        FlashInferDecode(),
        FlashAttention3(),
        flash_attention_2(),
        triton.decoding(),
    ),
    case=decoding_case,
    work=decoding_work,
    regime=decoding_regime,
)
