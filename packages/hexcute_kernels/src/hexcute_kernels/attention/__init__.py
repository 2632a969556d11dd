"""Attention: the operators, and the kernels they choose among."""

from hexcute_kernels.attention.decoding_operators import decode_attention
from hexcute_kernels.attention.operators import attention, attention_with_lse
from hexcute_kernels.attention.sdpa import register_sdpa

__all__ = ["attention", "attention_with_lse", "decode_attention", "register_sdpa"]
