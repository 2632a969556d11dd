"""Attention: the operators, and the kernels they choose among."""

from hexcute_kernels.attention.append_operators import append_to_cache
from hexcute_kernels.attention.decoding_operators import (
    decode_attention,
    decode_attention_with_lse,
)
from hexcute_kernels.attention.latent_operators import latent_decode_attention
from hexcute_kernels.attention.operators import attention, attention_with_lse
from hexcute_kernels.attention.sdpa import register_sdpa

__all__ = [
    "append_to_cache", "attention", "attention_with_lse", "decode_attention",
    "decode_attention_with_lse", "latent_decode_attention", "register_sdpa",
]  # fmt: skip
