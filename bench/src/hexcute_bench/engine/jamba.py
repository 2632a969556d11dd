"""Jamba: Mamba's layers, one of attention in eight, and experts in every second one, bfloat16."""

from __future__ import annotations

from typing import Any

from hexcute_bench.engine.operators import Operators
from hexcute_bench.engine.ranks import ALONE, Ranks
from hexcute_bench.engine.sizes import JambaSizes
from hexcute_bench.engine.state import OneText, State
from hexcute_bench.engine.weights import Draw, Stacks, copied
from hexcute_bench.errors import BenchError

DTYPE = "bfloat16"


def raw_weights(sizes: JambaSizes, draw: Draw, ranks: Ranks = ALONE) -> dict[str, Any]:
    """One layer's weights of each kind, and those around the layers. Raises BenchError for several
    ranks, over which this model is not cut."""
    if ranks.count > 1:
        raise BenchError("jamba is not cut for several ranks")
    torch, dtype = draw.torch, getattr(draw.torch, DTYPE)
    hidden, inner, d, n = sizes.hidden, sizes.inner, sizes.channels, sizes.states
    queries, keys = sizes.heads * sizes.head, sizes.kv_heads * sizes.head
    ones = {"dtype": dtype, "device": draw.device}

    def tensor(rows: int, columns: int, gain: float = 1.0) -> Any:
        return draw.tensor(rows, columns, dtype, gain)

    counted = torch.arange(1, n + 1, dtype=torch.float32, device=draw.device)
    mamba = {
        "x": tensor(d, hidden), "z": tensor(d, hidden), "taps": tensor(d, sizes.taps),
        "taps_bias": torch.zeros(d, **ones), "parts": tensor(sizes.step_rank + 2 * n, d),
        "step": tensor(d, sizes.step_rank),
        # Steps of about a hundredth, as Mamba's layers begin with.
        "step_bias": torch.full((d,), -4.6, device=draw.device),
        "a": -counted.expand(d, n).contiguous(), "d": torch.ones(d, device=draw.device),
        "out": tensor(hidden, d, 0.2),
        "step_norm": torch.ones(sizes.step_rank, **ones), "b_norm": torch.ones(n, **ones),
        "c_norm": torch.ones(n, **ones),
    }  # fmt: skip
    return {
        "mamba": mamba,
        "attention": {
            "qkv": tensor(queries + 2 * keys, hidden), "o": tensor(hidden, queries, 0.2),
        },
        "dense": {"up": tensor(2 * inner, hidden), "down": tensor(hidden, inner, 0.2)},
        "router": tensor(sizes.experts, hidden),
        "experts": Stacks(
            draw.tensors(sizes.experts, 2 * inner, hidden, dtype),
            draw.tensors(sizes.experts, hidden, inner, dtype, 0.2),
        ),
        "norm": torch.ones(hidden, **ones),
        "embedding": draw.normal(sizes.vocabulary, hidden, dtype=dtype),
        "head": tensor(sizes.vocabulary, hidden),
    }  # fmt: skip


def layers_of(sizes: JambaSizes, raw: dict[str, Any], ops: Operators) -> list[dict[str, Any]]:
    """Every layer's weights in memory of their own, of the same numbers for each kind."""
    experts = ops.mixture.pack(raw["experts"])
    made = []
    for number in range(sizes.layers):
        attends = number % sizes.period == sizes.attends
        kind = "attention" if attends else "mamba"
        layer = {kind: raw[kind]}
        if number % 2:
            layer |= {"experts": experts, "router": raw["router"]}
        else:
            layer |= {"dense": raw["dense"]}
        made.append(copied(layer))
    return made


class Jamba(OneText):
    """The model by one system, over `layers` that systems may share."""

    def __init__(
        self, sizes: JambaSizes, ops: Operators, raw: dict[str, Any], device: Any,
        layers: list[dict[str, Any]],
    ) -> None:  # fmt: skip
        self.sizes, self.ops, self.device, self.layers = sizes, ops, device, layers
        self.norm, self.embedding, self.head = raw["norm"], raw["embedding"], raw["head"]
        self.scale, self.ranks = sizes.head**-0.5, ALONE

    def start(self, batch: int, most: int) -> State:
        """Empty caches for so many sequences of at most so many tokens."""
        import torch

        sizes, dtype = self.sizes, getattr(torch, DTYPE)
        keys = batch, most, sizes.kv_heads, sizes.head

        def zeros(*shape: int, dtype: Any) -> Any:
            return torch.zeros(shape, dtype=dtype, device=self.device)

        caches = [
            (zeros(*keys, dtype=dtype), zeros(*keys, dtype=dtype))
            if "attention" in layer
            else (
                zeros(batch, sizes.channels, sizes.taps - 1, dtype=dtype),
                zeros(batch, sizes.channels, sizes.states, dtype=torch.float32),
            )
            for layer in self.layers
        ]
        return self._empty(batch, caches)

    def _forward(self, state: State, tokens: Any) -> Any:
        ops, eps = self.ops, self.sizes.eps
        batch, s = tokens.shape
        total = self.embedding[tokens.reshape(-1)]
        x = ops.norm(total, self.norm, eps)
        for layer, cache in zip(self.layers, state.caches):
            if "attention" in layer:
                x = self._attention(layer["attention"], x, cache, state.lengths, s)
            elif s == 1:
                x = self._mamba_step(layer["mamba"], x, cache)
            else:
                x = self._mamba(layer["mamba"], x.view(batch, s, -1), cache)
            x, total = ops.add_norm(x, total, self.norm, eps)
            x, total = ops.add_norm(self._mlp(layer, x), total, self.norm, eps)
        last = x.view(batch, s, -1)[:, -1].contiguous()
        return ops.dense(last, self.head)

    def _attention(self, w: dict[str, Any], x: Any, cache: Any, lengths: Any, s: int) -> Any:
        ops, sizes = self.ops, self.sizes
        k_cache, v_cache = cache
        qkv = ops.dense(x, w["qkv"])
        q = ops.keep(
            qkv, sizes.heads, sizes.kv_heads, None, sizes.eps, k_cache, v_cache, lengths, None
        )
        if s == 1:
            o = ops.decode(q, k_cache, v_cache, lengths, self.scale)
        else:
            k, v = k_cache[:, :s].contiguous(), v_cache[:, :s].contiguous()
            o = ops.attend(q, k, v, self.scale)
        return ops.dense(o.reshape(x.shape[0], -1), w["o"])

    def _parts(self, w: dict[str, Any], u: Any) -> tuple[Any, Any, Any]:
        """Steps, b and c (.., rank), (.., states) twice, of rows u (.., channels)."""
        ops, sizes = self.ops, self.sizes
        sections = sizes.step_rank, sizes.states, sizes.states
        parts = ops.dense(u, w["parts"]).split(sections, -1)
        names = ("step_norm", "b_norm", "c_norm")
        step, b, c = (ops.norm(t, w[name], sizes.eps) for t, name in zip(parts, names))
        return step, b, c

    def _mamba_step(self, w: dict[str, Any], x: Any, cache: Any) -> Any:
        ops = self.ops
        taps, state = cache
        u = ops.convolve_step(ops.dense(x, w["x"]), taps, w["taps"], w["taps_bias"])
        step, b, c = self._parts(w, u)
        dt, z = ops.dense(step, w["step"]), ops.dense(x, w["z"])
        y = ops.scan_step(state, u, dt, w["a"], b, c, w["d"], z, w["step_bias"])
        return ops.dense(y, w["out"])

    def _mamba(self, w: dict[str, Any], x: Any, cache: Any) -> Any:
        """x (batch, s, hidden). Projections are made in the order in which the scan reads them."""
        import torch

        ops = self.ops
        taps, state = cache
        batch, s, _ = x.shape
        rows = x.reshape(batch * s, -1)

        def channels(rows: Any, weight: Any) -> Any:
            """(batch, channels, s) of rows (batch * s, k)."""
            if ops.steps_first:
                return ops.dense(rows, weight).view(batch, s, -1).mT
            return torch.bmm(weight.expand(batch, -1, -1), rows.view(batch, s, -1).mT)

        before = channels(rows, w["x"])
        taps.copy_(before[..., -taps.shape[-1] :])
        u = ops.convolve(before, w["taps"], w["taps_bias"])
        step, b, c = self._parts(w, u.mT.reshape(batch * s, -1))
        delta, z = channels(step, w["step"]), channels(rows, w["z"])
        b, c = (t.view(batch, s, -1) for t in (b, c))
        y, last = ops.scan(u, delta, w["a"], b, c, w["d"], z, w["step_bias"])
        state.copy_(last)
        return ops.dense(y.mT.reshape(batch * s, -1), w["out"])

    def _mlp(self, layer: dict[str, Any], x: Any) -> Any:
        ops = self.ops
        if "dense" in layer:
            return ops.dense(ops.gated(ops.dense(x, layer["dense"]["up"])), layer["dense"]["down"])
        scores = ops.dense(x, layer["router"]).float().softmax(-1)
        gates, ids = scores.topk(self.sizes.top_k, -1)
        return ops.mixture(x, layer["experts"], ids.int(), gates)
