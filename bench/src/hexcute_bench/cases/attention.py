"""softmax(Q K^T / sqrt(d)) V, batch 1, causal where the shape says so, checked against float32 in
blocks of rows."""

from __future__ import annotations

from typing import Any

from hexcute_bench.cases.compared import ComparedCase
from hexcute_bench.cases.tensors import (
    exact_products,
    poisoned,
    randn,
    rotated_sets,
)
from hexcute_bench.interface import Work
from hexcute_bench.shape import Shape

# The probabilities pass through 16 bits before they meet V.
TOLERANCE = 2.0**-8
_ROWS = 2048


def attention(q: Any, k: Any, v: Any, causal: bool = False) -> Any:
    """Float32 attention of `q` [Sq,H,d] on `k`, `v` [S,H,d], head by head; gives [Sq,H,d]."""
    import torch

    out = torch.empty(q.shape, dtype=torch.float32, device=q.device)
    for head in range(q.shape[1]):
        keys, values = k[:, head].float(), v[:, head].float()
        for start in range(0, q.shape[0], _ROWS):
            rows = q[start : start + _ROWS, head].float()
            scores = rows @ keys.t() * q.shape[2] ** -0.5
            if causal:
                places = torch.arange(start, start + rows.shape[0], device=q.device)
                after = torch.arange(keys.shape[0], device=q.device)[None, :] > places[:, None]
                scores.masked_fill_(after, float("-inf"))
            out[start : start + _ROWS, head] = torch.softmax(scores, 1) @ values
    return out


class AttentionCase(ComparedCase):
    """`q[i]`, `out[i]` are [Sq,H,d] and `k[i]`, `v[i]` [S,H,d], f16, for each set i."""

    by_rows = True

    def __init__(
        self, shape: Shape, queries: int | None = None, sets: int | None = None,
        device: str = "cuda",
    ) -> None:  # fmt: skip
        import torch

        exact_products(torch)
        self.shape = shape
        self.heads, self.d, self.s = shape["heads"], shape["d"], shape["s"]
        self.causal = bool(shape.sizes().get("causal", 0))
        self.queries = self.s if queries is None else queries
        self.tolerance = TOLERANCE
        size = 4.0 * self.heads * self.d * (self.s + self.queries)
        self.sets = rotated_sets(size) if sets is None else sets
        small = (self.queries, self.heads, self.d)
        large = (self.s, self.heads, self.d)
        self.q = [randn(small, torch.float16, device) for _ in range(self.sets)]
        self.k = [randn(large, torch.float16, device) for _ in range(self.sets)]
        self.v = [randn(large, torch.float16, device) for _ in range(self.sets)]
        self.out = [poisoned(small, torch.float16, device) for _ in range(self.sets)]

    def output(self, index: int) -> Any:
        return self.out[index]

    def right(self, index: int) -> Any:
        return attention(self.q[index], self.k[index], self.v[index], self.causal)


def decoding_case(shape: Shape) -> AttentionCase:
    """One query against the whole cache."""
    return AttentionCase(shape, queries=1)


def forward_work(shape: Shape) -> Work:
    """Two products of 2 s^2 d operations per head, half of them under a causal mask; Q, K, V and
    the output moved once."""
    heads, d, s = shape["heads"], shape["d"], shape["s"]
    share = 0.5 if shape.sizes().get("causal", 0) else 1.0
    return Work(share * 4.0 * heads * d * s * s, 8.0 * heads * d * s)


def decoding_work(shape: Shape) -> Work:
    """The same for one query; the cache's K and V are the bytes."""
    heads, d, s = shape["heads"], shape["d"], shape["s"]
    return Work(4.0 * heads * d * s, 4.0 * heads * d * s)
