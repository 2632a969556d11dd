"""Every operator as plain torch, on any device: what models compute by definition. Sums are in
float32, results in the type of x."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from hexcute_bench.engine.operators import Operators, Turn, places
from hexcute_bench.engine.sizes import Routing
from hexcute_bench.engine.weights import Eight, FourBits, Stacks, eight_bits, four_bits


class TorchFour:
    """x W of weights of four bits."""

    def pack(self, weight: FourBits) -> FourBits:
        return weight

    def __call__(self, x: Any, packed: FourBits) -> Any:
        return (x.float() @ four_bits(packed)).to(x.dtype)


class TorchEight:
    """x W^T of weights of eight bits, rows of x quantized in blocks of 128 as well."""

    def pack(self, weight: Eight) -> Eight:
        return weight

    def __call__(self, x: Any, packed: Eight) -> Any:
        rows = x.float().unflatten(-1, (-1, 128))
        scale = rows.abs().amax(-1, keepdim=True).clamp(min=2.0**-126) / 448.0
        quantized = (rows / scale).to(torch.float8_e4m3fn).float() * scale
        return (quantized.flatten(-2) @ eight_bits(packed).mT).to(x.dtype)


class TorchDense:
    """x W^T."""

    def pack(self, weight: Any) -> Any:
        return weight

    def __call__(self, x: Any, packed: Any) -> Any:
        return functional.linear(x, packed)


class TorchExperts:
    """Expert by expert, of four bits or of 16."""

    def pack(self, stacks: Stacks) -> Stacks:
        return stacks

    def __call__(self, x: Any, packed: Stacks, ids: Any, gates: Any) -> Any:
        count = (packed.first.q if isinstance(packed.first, FourBits) else packed.first).shape[0]
        out = torch.zeros(x.shape, dtype=torch.float32, device=x.device)
        for expert in range(count):
            rows, choice = (ids == expert).nonzero(as_tuple=True)
            if not len(rows):
                continue
            first, second = _expert(packed.first, expert), _expert(packed.second, expert)
            h = gated(x[rows].float() @ first)
            out.index_add_(0, rows, (h @ second) * gates[rows, choice].unsqueeze(1))
        return out.to(x.dtype)


def _expert(stack: Any, expert: int) -> Any:
    """The weight [k, n] of an expert as float32."""
    if isinstance(stack, FourBits):
        return four_bits(FourBits(stack.q[expert], stack.scale[expert], stack.zero[expert]))
    return stack[expert].float().mT


def attend(q: Any, k: Any, v: Any, scale: float) -> Any:
    heads = q.shape[2] // k.shape[2]
    k, v = (t.float().repeat_interleave(heads, 2) for t in (k, v))
    scores = torch.einsum("bqhd,bkhd->bhqk", q.float(), k) * scale
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device)
    seen = seen.tril(scores.shape[-1] - scores.shape[-2])
    weights = scores.masked_fill(~seen, -torch.inf).softmax(-1)
    return torch.einsum("bhqk,bkhd->bqhd", weights, v).to(q.dtype)


def decode(q: Any, k_cache: Any, v_cache: Any, lengths: Any, scale: float) -> Any:
    heads = q.shape[2] // k_cache.shape[2]
    k, v = (t.float().repeat_interleave(heads, 2) for t in (k_cache, v_cache))
    scores = torch.einsum("bqhd,bkhd->bhqk", q.float(), k) * scale
    seen = torch.arange(k.shape[1], device=q.device) < lengths[:, None]
    weights = scores.masked_fill(~seen[:, None, None], -torch.inf).softmax(-1)
    return torch.einsum("bhqk,bkhd->bqhd", weights, v).to(q.dtype)


def latent(q: Any, cache: Any, lengths: Any, values: int, scale: float) -> Any:
    one = cache.unsqueeze(2)
    return decode(q, one, one[..., :values], lengths, scale)


def convolve(x: Any, w: Any, bias: Any) -> Any:
    taps, length = w.shape[1], x.shape[2]
    padded = functional.pad(x.float(), (taps - 1, 0))
    y = functional.conv1d(padded, w.float().unsqueeze(1), bias.float(), groups=w.shape[0])
    return functional.silu(y[..., :length]).to(x.dtype)


def convolve_step(x: Any, state: Any, w: Any, bias: Any) -> Any:
    steps = torch.cat((state, x.unsqueeze(-1)), -1)
    state.copy_(steps[..., 1:])
    y = (steps[..., -w.shape[1] :].float() * w.float()).sum(-1) + bias.float()
    return functional.silu(y).to(x.dtype)


def scan(u: Any, delta: Any, a: Any, b: Any, c: Any, d: Any, z: Any, bias: Any) -> Any:
    state = torch.zeros((u.shape[0], *a.shape), dtype=torch.float32, device=u.device)
    steps = [
        scan_step(
            state, u[..., t], delta[..., t], a, b[:, t], c[:, t], d, z[..., t], bias
        )
        for t in range(u.shape[2])
    ]  # fmt: skip
    return torch.stack(steps, -1), state


def scan_step(
    state: Any, x: Any, dt: Any, a: Any, b: Any, c: Any, d: Any, z: Any, bias: Any
) -> Any:
    step = functional.softplus(dt.float() + bias)
    decay = torch.exp(step.unsqueeze(-1) * a)
    state.copy_(state * decay + (step * x.float()).unsqueeze(-1) * b.float().unsqueeze(1))
    y = (state * c.float().unsqueeze(1)).sum(-1) + d * x.float()
    return (y * functional.silu(z.float())).to(x.dtype)


def norm(x: Any, weight: Any, eps: float) -> Any:
    wide = x.float()
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (wide * scale * weight.float()).to(x.dtype)


def add_norm(x: Any, residual: Any, weight: Any, eps: float, more: Any = None) -> Any:
    total = x.float() if more is None else x.float() + more.float()
    total = (total + residual.float()).to(x.dtype)
    return norm(total, weight, eps), total


def gated(x: Any) -> Any:
    left, right = x.float().chunk(2, -1)
    return (functional.silu(left) * right).to(x.dtype)


def route(logits: Any, bias: Any, routing: Routing) -> Any:
    scores = logits.float().sigmoid()
    biased = scores + bias
    groups = biased.unflatten(-1, (routing.groups, -1))
    best = groups.topk(2, -1).values.sum(-1).topk(routing.kept, -1).indices
    kept = torch.zeros(groups.shape[:-1], dtype=torch.bool, device=logits.device)
    kept = kept.scatter_(-1, best, True).unsqueeze(-1).expand_as(groups).flatten(-2)
    ids = biased.masked_fill(~kept, -torch.inf).topk(routing.top_k, -1).indices
    gates = scores.gather(-1, ids)
    gates = gates / gates.sum(-1, keepdim=True) * routing.scale
    return ids.to(torch.int32), gates


def turned(x: Any, places: Any, turn: Turn) -> Any:
    """x (tokens, heads, columns) turned at each token's place, float32."""
    cos, sin = turn.cos[places].unsqueeze(1), turn.sin[places].unsqueeze(1)
    if turn.paired:
        one, two = x.float()[..., 0::2], x.float()[..., 1::2]
    else:
        one, two = x.float().chunk(2, -1)
    pair = one * cos - two * sin, two * cos + one * sin
    return torch.stack(pair, -1).flatten(-2) if turn.paired else torch.cat(pair, -1)


def keep(
    qkv: Any, heads: int, kv_heads: int, norms: Any, eps: float, k_cache: Any, v_cache: Any,
    lengths: Any, turn: Turn | None,
) -> Any:  # fmt: skip
    tokens, d = qkv.shape[0], k_cache.shape[3]
    q, k, v = qkv.view(tokens, -1, d).split((heads, kv_heads, kv_heads), 1)
    if norms is not None:
        q, k = norm(q, norms[0], eps), norm(k, norms[1], eps)
    sequences, at = places(lengths, tokens)
    if turn is not None:
        q, k = (turned(t, at, turn).to(qkv.dtype) for t in (q, k))
    k_cache[sequences, at], v_cache[sequences, at] = k, v
    return q.reshape(lengths.numel(), -1, heads, d).contiguous()


def keep_latent(kv: Any, weight: Any, eps: float, cache: Any, lengths: Any, turn: Turn) -> None:
    rank = weight.numel()
    sequences, at = places(lengths, kv.shape[0])
    key = turned(kv[:, None, rank:], at, turn).to(kv.dtype)[:, 0]
    cache[sequences, at] = torch.cat((norm(kv[:, :rank], weight, eps), key), -1)


def latent_query(q: Any, absorbed: Any, lengths: Any, turn: Turn, plain: int) -> Any:
    """q (tokens, heads, plain + turned) as queries of latent keys: `absorbed` (heads, plain, rank)
    takes the plain columns there."""
    _, at = places(lengths, q.shape[0])
    whole = torch.einsum("thp,hpr->thr", q[..., :plain].float(), absorbed.float())
    made = torch.cat((whole, turned(q[..., plain:], at, turn)), -1).to(q.dtype)
    return made.view(lengths.numel(), -1, *made.shape[1:])


def turn_heads(q: Any, lengths: Any, turn: Turn, plain: int) -> Any:
    _, at = places(lengths, q.shape[0])
    return torch.cat((q[..., :plain], turned(q[..., plain:], at, turn).to(q.dtype)), -1)


def own_choices(ids: Any, gates: Any, first: int, here: int) -> tuple[Any, Any]:
    from hexcute_kernels.parallel.experts import choices

    return choices(ids, gates, first, here)


REFERENCE = Operators(
    name="reference", four=TorchFour(), eight=TorchEight(), dense=TorchDense(),
    experts=TorchExperts(), mixture=TorchExperts(), attend=attend, decode=decode, latent=latent,
    convolve=convolve, convolve_step=convolve_step, scan=scan, scan_step=scan_step,
    steps_first=True, add_norm=add_norm, norm=norm, gated=gated, route=route,
    own_choices=own_choices, keep=keep, keep_latent=keep_latent, latent_query=latent_query,
    turn_heads=turn_heads,
)  # fmt: skip
