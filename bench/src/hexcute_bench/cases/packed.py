"""Attention of sequences of unequal lengths, packed one behind the other, queries as many as keys,
checked against float32 sequence by sequence."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

from hexcute_bench.cases.attention import TOLERANCE, attention
from hexcute_bench.cases.compared import ComparedCase
from hexcute_bench.cases.tensors import (
    exact_products,
    poisoned,
    randn,
    rotated_sets,
)
from hexcute_bench.interface import Work
from hexcute_bench.shape import Shape


def lengths_of(shape: Shape) -> list[int]:
    """The lengths of the sequences, log-uniform from 1 to `most`, always the same of a shape."""
    draw, top = random.Random(shape["sequences"]), math.log(shape["most"])
    return [int(math.exp(draw.uniform(0, top))) for _ in range(shape["sequences"])]


class PackedCase(ComparedCase):
    """`q[i]`, `out[i]` are [total,heads,d], `k[i]` and `v[i]` [total,kv,d], f16, for each set i;
    `ends` [sequences+1] on the device and `starts`, the same numbers, say where sequences are."""

    by_rows = True

    def __init__(self, shape: Shape, sets: int | None = None, device: str = "cuda") -> None:
        import torch

        exact_products(torch)
        self.shape, self.tolerance = shape, TOLERANCE
        self.heads, self.kv, self.d = (shape[name] for name in ("heads", "kv", "d"))
        self.causal, lengths = bool(shape["causal"]), lengths_of(shape)
        self.starts = [0, *itertools.accumulate(lengths)]
        self.longest, total = max(lengths), self.starts[-1]
        self.ends = torch.tensor(self.starts, dtype=torch.int32, device=device)
        self.sets = rotated_sets(packed_work(shape).bytes) if sets is None else sets
        queries, keys, kind = (total, self.heads, self.d), (total, self.kv, self.d), torch.float16
        self.q = [randn(queries, kind, device) for _ in range(self.sets)]
        self.k = [randn(keys, kind, device) for _ in range(self.sets)]
        self.v = [randn(keys, kind, device) for _ in range(self.sets)]
        self.out = [poisoned(queries, kind, device) for _ in range(self.sets)]

    def output(self, index: int) -> Any:
        return self.out[index]

    def right(self, index: int) -> Any:
        import torch

        group, alone = self.heads // self.kv, []
        for first, end in itertools.pairwise(self.starts):
            q, k, v = (x[index][first:end] for x in (self.q, self.k, self.v))
            k, v = (x.repeat_interleave(group, 1) for x in (k, v))
            alone.append(attention(q, k, v, self.causal))
        return torch.cat(alone)


def packed_work(shape: Shape) -> Work:
    """Two products of n^2 d operations per head and sequence of n, half of them under a causal
    mask; Q, K, V and the output moved once."""
    heads, kv, d, lengths = shape["heads"], shape["kv"], shape["d"], lengths_of(shape)
    share = 0.5 if shape["causal"] else 1.0
    flops = share * 4.0 * heads * d * sum(n * n for n in lengths)
    return Work(flops, 4.0 * (heads + kv) * d * sum(lengths))
