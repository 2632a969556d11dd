"""Heads of queries and keys on their way to attention: normed, turned to their place, and kept in
the cache. One launch for a layer, the same for all systems of a comparison.

Row t of a batch of sequences is of sequence t // s, at place lengths - s + t % s.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def keep_kernel(
    qkv_ptr, query_norm_ptr, key_norm_ptr, q_ptr, k_ptr, v_ptr, lengths_ptr, cos_ptr, sin_ptr,
    eps, S, MOST, HEADS: tl.constexpr, KV: tl.constexpr, D: tl.constexpr, NORM: tl.constexpr,
    TURN: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    sequence = row // S
    place = tl.load(lengths_ptr + sequence) - S + row % S
    HALF: tl.constexpr = D // 2
    half = tl.arange(0, HALF)
    start = qkv_ptr + (row * (HEADS + 2 * KV) + head) * D
    one, two = tl.load(start + half), tl.load(start + HALF + half)
    if head < HEADS + KV:
        x, y = one.to(tl.float32), two.to(tl.float32)
        if NORM:
            scale = tl.rsqrt((tl.sum(x * x, 0) + tl.sum(y * y, 0)) / D + eps)
            weight = query_norm_ptr if head < HEADS else key_norm_ptr
            x = (x * scale * tl.load(weight + half).to(tl.float32)).to(one.dtype).to(tl.float32)
            y = y * scale * tl.load(weight + HALF + half).to(tl.float32)
            y = y.to(one.dtype).to(tl.float32)
        if TURN:
            cos = tl.load(cos_ptr + place * HALF + half)
            sin = tl.load(sin_ptr + place * HALF + half)
            x, y = x * cos - y * sin, y * cos + x * sin
        one, two = x.to(one.dtype), y.to(two.dtype)
    kept = (sequence * MOST + place) * KV
    if head < HEADS:
        out = q_ptr + (row * HEADS + head) * D
    elif head < HEADS + KV:
        out = k_ptr + (kept + head - HEADS) * D
    else:
        out = v_ptr + (kept + head - HEADS - KV) * D
    tl.store(out + half, one)
    tl.store(out + HALF + half, two)


@triton.jit
def keep_latent_kernel(
    kv_ptr, stride, weight_ptr, cache_ptr, lengths_ptr, cos_ptr, sin_ptr, eps, S, MOST,
    RANK: tl.constexpr, PAIRS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    sequence = row // S
    place = tl.load(lengths_ptr + sequence) - S + row % S
    out = cache_ptr + (sequence * MOST + place) * (RANK + 2 * PAIRS)
    columns = tl.arange(0, RANK)
    x = tl.load(kv_ptr + row * stride + columns)
    wide = x.to(tl.float32)
    scale = tl.rsqrt(tl.sum(wide * wide, 0) / RANK + eps)
    weight = tl.load(weight_ptr + columns).to(tl.float32)
    tl.store(out + columns, (wide * scale * weight).to(x.dtype))
    pair = tl.arange(0, PAIRS)
    start = kv_ptr + row * stride + RANK
    one = tl.load(start + 2 * pair).to(tl.float32)
    two = tl.load(start + 2 * pair + 1).to(tl.float32)
    cos = tl.load(cos_ptr + place * PAIRS + pair)
    sin = tl.load(sin_ptr + place * PAIRS + pair)
    tl.store(out + RANK + 2 * pair, (one * cos - two * sin).to(x.dtype))
    tl.store(out + RANK + 2 * pair + 1, (two * cos + one * sin).to(x.dtype))


@triton.jit
def latent_query_kernel(
    q_ptr, whole_ptr, out_ptr, lengths_ptr, cos_ptr, sin_ptr, S, TOKENS, HEADS,
    HEAD: tl.constexpr, PLAIN: tl.constexpr, RANK: tl.constexpr, PAIRS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    place = tl.load(lengths_ptr + row // S) - S + row % S
    columns = tl.arange(0, RANK)
    out = out_ptr + (row * HEADS + head) * (RANK + 2 * PAIRS)
    x = tl.load(whole_ptr + (head * TOKENS + row) * RANK + columns)
    tl.store(out + columns, x)
    pair = tl.arange(0, PAIRS)
    start = q_ptr + (row * HEADS + head) * HEAD + PLAIN
    one = tl.load(start + 2 * pair).to(tl.float32)
    two = tl.load(start + 2 * pair + 1).to(tl.float32)
    cos = tl.load(cos_ptr + place * PAIRS + pair)
    sin = tl.load(sin_ptr + place * PAIRS + pair)
    tl.store(out + RANK + 2 * pair, (one * cos - two * sin).to(x.dtype))
    tl.store(out + RANK + 2 * pair + 1, (two * cos + one * sin).to(x.dtype))


def keep(
    qkv: Any, heads: int, kv_heads: int, norms: Any, eps: float, k_cache: Any, v_cache: Any,
    lengths: Any, turn: Any,
) -> Any:  # fmt: skip
    """Queries (batch, s, heads, d) of qkv (tokens, (heads + 2 kv_heads) d); keys and values go to
    their places in the caches. Heads are normed and turned where norms and turn are given."""
    tokens, batch = qkv.shape[0], lengths.numel()
    most, d = k_cache.shape[1], k_cache.shape[3]
    q = torch.empty((batch, tokens // batch, heads, d), dtype=qkv.dtype, device=qkv.device)
    by_query, by_key = (qkv, qkv) if norms is None else norms
    cos, sin = (qkv, qkv) if turn is None else (turn.cos, turn.sin)
    keep_kernel[(tokens, heads + 2 * kv_heads)](
        qkv, by_query, by_key, q, k_cache, v_cache, lengths, cos, sin, eps, tokens // batch, most,
        HEADS=heads, KV=kv_heads, D=d, NORM=norms is not None, TURN=turn is not None, num_warps=1,
    )  # fmt: skip
    return q


def keep_latent(kv: Any, weight: Any, eps: float, cache: Any, lengths: Any, turn: Any) -> None:
    """Latent keys of rows kv (tokens, rank + turned), which may be some columns of a wider tensor,
    to their places in the cache (batch, most, rank + turned)."""
    tokens, batch = kv.shape[0], lengths.numel()
    keep_latent_kernel[(tokens,)](
        kv, kv.stride(0), weight, cache, lengths, turn.cos, turn.sin, eps, tokens // batch,
        cache.shape[1], RANK=weight.numel(), PAIRS=turn.cos.shape[1], num_warps=4,
    )  # fmt: skip


def latent_query(q: Any, absorbed: Any, lengths: Any, turn: Any, plain: int) -> Any:
    """Queries (batch, s, heads, rank + turned) of latent keys, of q (tokens, heads, plain +
    turned); `absorbed` (heads, plain, rank) takes the plain columns there."""
    tokens, heads, head = q.shape
    batch, rank = lengths.numel(), absorbed.shape[2]
    whole = q[..., :plain].transpose(0, 1) @ absorbed
    shape = batch, tokens // batch, heads, rank + head - plain
    out = torch.empty(shape, dtype=q.dtype, device=q.device)
    latent_query_kernel[(tokens, heads)](
        q, whole, out, lengths, turn.cos, turn.sin, tokens // batch, tokens, heads, HEAD=head,
        PLAIN=plain, RANK=rank, PAIRS=(head - plain) // 2, num_warps=2,
    )  # fmt: skip
    return out
