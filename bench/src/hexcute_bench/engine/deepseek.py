"""DeepSeek-R1 in four bits: latent attention, and experts within groups beside a shared one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hexcute_bench.engine.operators import Operators, Turn
from hexcute_bench.engine.ranks import ALONE, Ranks
from hexcute_bench.engine.rope import angles, stretched_scale
from hexcute_bench.engine.sizes import DeepSeekSizes, part
from hexcute_bench.engine.spread import SpreadExperts, own_experts
from hexcute_bench.engine.state import OneText, State
from hexcute_bench.engine.weights import Draw, FourBits, Stacks, copied, four_bits

DTYPE = "float16"


def one_of(sizes: DeepSeekSizes, ranks: int) -> DeepSeekSizes:
    """What one of so many tensor-parallel ranks has, as a model of its own: fewer heads, narrower
    layers, a part of the vocabulary."""
    routing = sizes.routing
    return replace(
        sizes, heads=part("heads", sizes.heads, ranks), inner=part("inner", sizes.inner, ranks),
        vocabulary=part("vocabulary", sizes.vocabulary, ranks),
        routing=replace(routing, width=part("width", routing.width, ranks)),
    )  # fmt: skip


def raw_weights(sizes: DeepSeekSizes, draw: Draw, ranks: Ranks = ALONE) -> dict[str, Any]:
    """One layer's weights of each kind, and those around the layers. Experts are cut by their
    width, or by their number where `ranks` are to be `spread`; the shared one is whole where tokens
    travel."""
    torch, dtype = draw.torch, getattr(draw.torch, DTYPE)
    latent, routing, hidden = sizes.latent, sizes.routing, sizes.hidden
    heads, group = sizes.heads, sizes.group
    both = latent.plain + latent.value
    ones = {"dtype": dtype, "device": draw.device}

    def four(k: int, n: int, gain: float = 1.0) -> FourBits:
        return draw.four(k=k, n=n, group=group, gain=gain)

    def mlp(width: int, ranks: Ranks) -> dict[str, FourBits]:
        return {
            "up": ranks.columns(four(hidden, 2 * width), width, width),
            "down": ranks.rows(four(width, hidden, gain=0.2), width),
        }

    keys = ranks.columns(four(latent.rank, heads * both), heads * both)
    attention = {
        "qkv_a": four(hidden, latent.query_rank + latent.cached),
        "q_b": ranks.columns(four(latent.query_rank, heads * latent.head), heads * latent.head),
        "kv_b": keys,
        "o": ranks.rows(four(heads * latent.value, hidden, gain=0.2), heads * latent.value),
    }
    # What decoding multiplies queries and results by is the projection of keys, taken apart.
    whole = four_bits(keys).to(dtype).view(latent.rank, -1, both).permute(1, 2, 0)
    absorbed = {
        "key": whole[:, : latent.plain].contiguous(),
        "value": whole[:, latent.plain :].mT.contiguous(),
    }
    width, experts = routing.width, routing.experts
    first = draw.four(experts, k=hidden, n=2 * width, group=group)
    second = draw.four(experts, k=width, n=hidden, group=group, gain=0.2)
    if ranks.spread:
        stacks = own_experts(Stacks(first, second), ranks)
    else:
        stacks = Stacks(ranks.columns(first, width, width), ranks.rows(second, width))
    return {
        "attention": attention,
        "absorbed": absorbed,
        "dense": mlp(sizes.inner, ranks),
        "experts": stacks,
        "shared": mlp(width, ALONE if ranks.spread == "exchange" else ranks),
        "router": draw.tensor(experts, hidden, dtype),
        "bias": draw.normal(experts, gain=0.01),
        "norms": {
            "before": torch.ones(hidden, **ones), "after": torch.ones(hidden, **ones),
            "query": torch.ones(latent.query_rank, **ones),
            "key": torch.ones(latent.rank, **ones),
        },
        "embedding": draw.normal(sizes.vocabulary, hidden, dtype=dtype),
        "head": ranks.columns(draw.tensor(sizes.vocabulary, hidden, dtype), sizes.vocabulary),
    }  # fmt: skip


class DeepSeek(OneText):
    """The model by one system; layers have weights in memory of their own, of the same numbers."""

    def __init__(
        self, sizes: DeepSeekSizes, ops: Operators, raw: dict[str, Any], device: Any, most: int,
        ranks: Ranks = ALONE,
    ) -> None:  # fmt: skip
        self.sizes, self.ops, self.ranks, self.device = sizes, ops, ranks, device
        self.heads = part("heads", sizes.heads, ranks.count)
        packed = {
            name: {part_: ops.four.pack(weight) for part_, weight in raw[name].items()}
            for name in ("attention", "dense", "shared")
        }
        attention = {**packed["attention"], **raw["absorbed"]}
        experts = ops.experts.pack(raw["experts"])
        self.layers = [
            copied(
                {"attention": attention, "dense": packed["dense"]}
                if number < sizes.dense
                else {
                    "attention": attention, "experts": experts, "shared": packed["shared"],
                    "router": raw["router"],
                }
            )
            for number in range(sizes.layers)
        ]  # fmt: skip
        self.bias, self.norms = raw["bias"], raw["norms"]
        self.embedding, self.head = raw["embedding"], raw["head"]
        self.scale = stretched_scale(sizes.latent.head, sizes.stretch)
        cos, sin = angles(
            most, sizes.latent.turned // 2, sizes.base, device, sizes.stretch, sizes.original
        )
        self.turn = Turn(cos, sin, paired=True)

    def start(self, batch: int, most: int) -> State:
        """Empty caches for so many sequences of at most so many tokens."""
        import torch

        shape = batch, most, self.sizes.latent.cached
        how = {"dtype": getattr(torch, DTYPE), "device": self.device}
        return self._empty(batch, [torch.zeros(shape, **how) for _ in self.layers])

    def _forward(self, state: State, tokens: Any) -> Any:
        ops, norms, eps = self.ops, self.norms, self.sizes.eps
        batch, s = tokens.shape
        total = self.embedding[tokens.reshape(-1)]
        x = ops.norm(total, norms["before"], eps)
        for layer, cache in zip(self.layers, state.caches):
            x = self.ranks.sum(self._attention(layer["attention"], x, cache, state.lengths, s))
            x, total = ops.add_norm(x, total, norms["after"], eps)
            x, shared = self._mlp(layer, x)
            x, total = ops.add_norm(x, total, norms["before"], eps, shared)
        last = x.view(batch, s, -1)[:, -1].contiguous()
        return self.ranks.gathered(ops.dense(last, self.head))

    def _attention(self, w: dict[str, Any], x: Any, cache: Any, lengths: Any, s: int) -> Any:
        ops, norms, eps, latent = self.ops, self.norms, self.sizes.eps, self.sizes.latent
        tokens = x.shape[0]
        down = ops.four(x, w["qkv_a"])
        query, kv = down[:, : latent.query_rank], down[:, latent.query_rank :]
        q = ops.four(ops.norm(query, norms["query"], eps), w["q_b"])
        q = q.view(tokens, self.heads, latent.head)
        ops.keep_latent(kv, norms["key"], eps, cache, lengths, self.turn)
        if s == 1:
            queries = ops.latent_query(q, w["key"], lengths, self.turn, latent.plain)
            o = ops.latent(queries, cache, lengths, latent.rank, self.scale)
            o = o.view(tokens, self.heads, latent.rank).transpose(0, 1) @ w["value"]
            return ops.four(o.transpose(0, 1).reshape(tokens, -1), w["o"])
        return ops.four(self._prompt(w, q, cache[:, :s], lengths), w["o"])

    def _prompt(self, w: dict[str, Any], q: Any, kept: Any, lengths: Any) -> Any:
        """Attention over prompts, keys and values of each head made of what the cache holds."""
        import torch

        ops, latent = self.ops, self.sizes.latent
        batch, s, _ = kept.shape
        values = kept[..., : latent.rank].contiguous()
        keys = ops.four(values.view(batch * s, -1), w["kv_b"]).view(batch, s, self.heads, -1)
        turned = kept[:, :, None, latent.rank :].expand(-1, -1, self.heads, -1)
        k = torch.cat((keys[..., : latent.plain], turned), -1)
        v = keys[..., latent.plain :].contiguous()
        q = ops.turn_heads(q, lengths, self.turn, latent.plain).view(batch, s, self.heads, -1)
        return ops.attend(q, k, v, self.scale).reshape(batch * s, -1)

    def _mlp(self, layer: dict[str, Any], x: Any) -> tuple[Any, Any]:
        """What the experts make of x, and the shared one, where there is one that is not in it."""
        ops, ranks = self.ops, self.ranks
        w = layer["dense"] if "dense" in layer else layer["shared"]

        def one(x: Any) -> Any:
            return ops.four(ops.gated(ops.four(x, w["up"])), w["down"])

        def route(x: Any) -> Any:
            return ops.route(ops.dense(x, layer["router"]), self.bias, self.sizes.routing)

        if "dense" in layer:
            return ranks.sum(one(x)), None
        if ranks.spread:
            spread = SpreadExperts(ranks, self.sizes.routing.experts, ops)
            return spread(x, layer, route, one), None
        routed = ops.experts(x, layer["experts"], *route(x))
        return (routed, one(x)) if ranks.count == 1 else (ranks.sum(routed.add_(one(x))), None)
