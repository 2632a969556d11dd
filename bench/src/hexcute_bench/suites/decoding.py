"""Decoding of batches: heads that share keys, sequences of unequal lengths in pages, and one latent
head for all."""

from __future__ import annotations

from hexcute_bench.cases.decoding import DecodingCase, decoding_work
from hexcute_bench.cases.latent import LatentCase, latent_work
from hexcute_bench.interface import KernelSuite
from hexcute_bench.peers.decoding import FlashAttention3Batch, FlashInferBatch, hexcute_decoding
from hexcute_bench.peers.latent import FlashInferLatent, hexcute_latent
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
LATENT = tuple(
    Shape.of(batch=batch, heads=heads, s=s)
    for heads in (16, 128)
    for batch in (1, 16, 128)
    for s in (4096, 16384)
)


def unequal_regime(shape: Shape) -> str:
    """By the rows of a page."""
    return f"pages of {shape['page']}"


def latent_regime(shape: Shape) -> str:
    """Few heads are bound by memory, many by products."""
    return f"{shape['heads']} heads"


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

LATENT_DECODING = KernelSuite(
    name="latent_decoding",
    title="Decoding from one latent head, in pages of 64",
    operator="latent_decode_attention",
    baseline="flashinfer",
    shapes=LATENT,
    quick=(LATENT[0], LATENT[2], LATENT[9]),
    peers=(*hexcute_latent(), FlashInferLatent()),
    case=LatentCase,
    work=latent_work,
    regime=latent_regime,
)
