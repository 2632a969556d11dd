"""Qwen3 without experts: attention with normed heads and a gated MLP, weights of eight bits."""

from __future__ import annotations

from typing import Any

from hexcute_bench.engine.operators import Operators, Turn
from hexcute_bench.engine.ranks import ALONE, Ranks
from hexcute_bench.engine.rope import angles
from hexcute_bench.engine.sizes import QwenSizes, part
from hexcute_bench.engine.state import OneText, State
from hexcute_bench.engine.weights import Draw, copied

DTYPE = "bfloat16"


def raw_weights(sizes: QwenSizes, draw: Draw, ranks: Ranks = ALONE) -> dict[str, Any]:
    """One layer's weights, and those around the layers."""
    torch, dtype = draw.torch, getattr(draw.torch, DTYPE)
    hidden, head, inner = sizes.hidden, sizes.head, sizes.inner
    queries, keys = sizes.heads * head, sizes.kv_heads * head
    ones = {"dtype": dtype, "device": draw.device}
    layer = {
        "qkv": ranks.columns(draw.eight(queries + 2 * keys, hidden), queries, keys, keys),
        "o": ranks.rows(draw.eight(hidden, queries, gain=0.2), queries),
        "up": ranks.columns(draw.eight(2 * inner, hidden), inner, inner),
        "down": ranks.rows(draw.eight(hidden, inner, gain=0.2), inner),
    }
    norms = {
        "before": torch.ones(hidden, **ones), "after": torch.ones(hidden, **ones),
        "query": torch.ones(head, **ones), "key": torch.ones(head, **ones),
    }  # fmt: skip
    head_rows = draw.tensor(sizes.vocabulary, hidden, dtype)
    return {
        "layer": layer,
        "norms": norms,
        "embedding": draw.normal(sizes.vocabulary, hidden, dtype=dtype),
        "head": ranks.columns(head_rows, sizes.vocabulary),
    }


class Qwen(OneText):
    """The model by one system; layers have weights in memory of their own, of the same numbers."""

    def __init__(
        self, sizes: QwenSizes, ops: Operators, raw: dict[str, Any], device: Any, most: int,
        ranks: Ranks = ALONE,
    ) -> None:  # fmt: skip
        self.sizes, self.ops, self.ranks, self.device = sizes, ops, ranks, device
        self.heads = part("heads", sizes.heads, ranks.count)
        self.kv_heads = part("heads of keys", sizes.kv_heads, ranks.count)
        packed = {name: ops.eight.pack(weight) for name, weight in raw["layer"].items()}
        self.layers = [copied(packed) for _ in range(sizes.layers)]
        self.norms, self.embedding, self.head = raw["norms"], raw["embedding"], raw["head"]
        self.scale = sizes.head**-0.5
        cos, sin = angles(most, sizes.head // 2, sizes.base, device)
        self.turn = Turn(cos, sin, paired=False)

    def start(self, batch: int, most: int) -> State:
        """Empty caches for so many sequences of at most so many tokens."""
        import torch

        shape = batch, most, self.kv_heads, self.sizes.head
        how = {"dtype": getattr(torch, DTYPE), "device": self.device}
        caches = [
            (torch.zeros(shape, **how), torch.zeros(shape, **how)) for _ in self.layers
        ]
        return self._empty(batch, caches)

    def _forward(self, state: State, tokens: Any) -> Any:
        ops, norms, eps = self.ops, self.norms, self.sizes.eps
        batch, s = tokens.shape
        total = self.embedding[tokens.reshape(-1)]
        x = ops.norm(total, norms["before"], eps)
        for layer, (k_cache, v_cache) in zip(self.layers, state.caches):
            qkv = ops.eight(x, layer["qkv"])
            q = ops.keep(
                qkv, self.heads, self.kv_heads, (norms["query"], norms["key"]), eps, k_cache,
                v_cache, state.lengths, self.turn,
            )  # fmt: skip
            if s == 1:
                o = ops.decode(q, k_cache, v_cache, state.lengths, self.scale)
            else:
                seen = slice(0, s)
                o = ops.attend(
                    q, k_cache[:, seen].contiguous(), v_cache[:, seen].contiguous(), self.scale
                )
            x = self.ranks.sum(ops.eight(o.reshape(batch * s, -1), layer["o"]))
            x, total = ops.add_norm(x, total, norms["after"], eps)
            x = self.ranks.sum(ops.eight(ops.gated(ops.eight(x, layer["up"])), layer["down"]))
            x, total = ops.add_norm(x, total, norms["before"], eps)
        last = x.view(batch, s, -1)[:, -1].contiguous()
        return self.ranks.gathered(ops.dense(last, self.head))
