"""Decoding of batches: heads that share keys, and sequences of unequal lengths in pages."""

from __future__ import annotations

from hexcute_bench.cases.decoding import DecodingCase, decoding_work
from hexcute_bench.interface import KernelSuite
from hexcute_bench.peers.decoding import FlashAttention3Batch, FlashInferBatch, hexcute_decoding
from hexcute_bench.shape import Shape
from hexcute_bench.suites.attention import decoding_regime

SHARED = tuple(
    Shape.of(batch=batch, heads=heads, kv=8, d=128, s=s)
    for heads in (32, 64)
    for batch in (1, 8, 64)
    for s in (1024, 4096, 16384, 65536)
)
UNEQUAL = tuple(
    Shape.of(batch=batch, heads=32, kv=kv, d=128, s=s, page=page)
    for page in (16, 64)
    for kv in (8, 32)
    for batch, s in ((4, 32768), (16, 32768), (64, 16384), (256, 8192))
)


def unequal_regime(shape: Shape) -> str:
    """By the rows of a page."""
    return f"pages of {shape['page']}"


_PEERS = (*hexcute_decoding(), FlashInferBatch(), FlashAttention3Batch())

GQA_DECODING = KernelSuite(
    name="gqa_decoding",
    title="Decoding, heads of queries sharing heads of keys",
    operator="decode_attention",
    baseline="flashinfer",
    shapes=SHARED,
    quick=(SHARED[1], SHARED[5], SHARED[8]),
    peers=_PEERS,
    case=DecodingCase,
    work=decoding_work,
    regime=decoding_regime,
)

PAGED_DECODING = KernelSuite(
    name="paged_decoding",
    title="Decoding, sequences of unequal lengths in pages",
    operator="decode_attention",
    baseline="flashinfer",
    shapes=UNEQUAL,
    quick=(UNEQUAL[1], UNEQUAL[2], UNEQUAL[10]),
    peers=_PEERS,
    case=DecodingCase,
    work=decoding_work,
    regime=unequal_regime,
)
