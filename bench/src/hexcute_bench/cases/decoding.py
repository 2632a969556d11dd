"""One query a sequence against a cache of keys, sequences of one length or of many, checked against
float32 sequence by sequence."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

from hexcute_bench.cases.attention import TOLERANCE
from hexcute_bench.cases.compared import ComparedCase
from hexcute_bench.cases.tensors import (
    exact_products,
    poisoned,
    randn,
    rotated_sets,
)
from hexcute_bench.interface import Work
from hexcute_bench.shape import Shape

SHORTEST = 64
"""Keys of the shortest sequence, where they are unequal."""


def lengths_of(shape: Shape) -> list[int]:
    """How many keys each sequence has: s, or log-uniform up to s where they lie in pages, always
    the same of a shape."""
    batch, s = shape["batch"], shape["s"]
    if not shape.sizes().get("page", 0):
        return [s] * batch
    draw, low = random.Random(batch * s), math.log(SHORTEST)
    return [round(math.exp(draw.uniform(low, math.log(s)))) for _ in range(batch)]


class DecodingCase(ComparedCase):
    """`q[i]`, `out[i]` are [batch,1,heads,d], f16, for each set i; `k[i]`, `v[i]` [batch,s,kv,d],
    or [pages,page,kv,d] beside `table` [batch,most], and `seq_lens` [batch]."""

    by_rows = True

    def __init__(self, shape: Shape, sets: int | None = None, device: str = "cuda") -> None:
        import torch

        exact_products(torch)
        self.shape, self.lengths, self.tolerance = shape, lengths_of(shape), TOLERANCE
        self.batch, self.heads, self.kv, self.d = (
            shape[name] for name in ("batch", "heads", "kv", "d")
        )
        self.page: int = shape.sizes().get("page", 0)
        self.seq_lens = torch.tensor(self.lengths, dtype=torch.int32, device=device)
        self.sets = rotated_sets(decoding_work(shape).bytes) if sets is None else sets
        cache = (self.batch, shape["s"], self.kv, self.d)
        self.table: Any = None
        if self.page:
            cache = (self._pages(device), self.page, self.kv, self.d)
        small, kind = (self.batch, 1, self.heads, self.d), torch.float16
        self.q = [randn(small, kind, device) for _ in range(self.sets)]
        self.k = [randn(cache, kind, device) for _ in range(self.sets)]
        self.v = [randn(cache, kind, device) for _ in range(self.sets)]
        self.out = [poisoned(small, kind, device) for _ in range(self.sets)]

    def _pages(self, device: str) -> int:
        """Gives the sequences pages in any order, and says how many there are."""
        import torch

        needed = [-(-n // self.page) for n in self.lengths]
        ends = list(itertools.accumulate(needed))
        self.order = torch.randperm(ends[-1], device=device).int()
        self.table = torch.zeros((self.batch, max(needed)), dtype=torch.int32, device=device)
        for z, (count, end) in enumerate(zip(needed, ends)):
            self.table[z, :count] = self.order[end - count : end]
        return ends[-1]

    def output(self, index: int) -> Any:
        return self.out[index]

    def keys(self, index: int, z: int) -> tuple[Any, Any]:
        """Keys and values of sequence z, [kv,n,d] in float32."""
        import torch

        k, v, n = self.k[index], self.v[index], self.lengths[z]
        if self.table is None:
            rows = k[z, :n], v[z, :n]
        else:
            at = torch.arange(n, device=k.device)
            page = self.table[z, at // self.page].long()
            rows = k[page, at % self.page], v[page, at % self.page]
        return rows[0].float().transpose(0, 1), rows[1].float().transpose(0, 1)

    def right(self, index: int) -> Any:
        import torch

        right = torch.empty_like(self.out[index], dtype=torch.float32)
        for z in range(self.batch):
            keys, values = self.keys(index, z)
            rows = self.q[index][z, 0].float().view(self.kv, -1, self.d)
            p = torch.softmax(rows @ keys.transpose(1, 2) * self.d**-0.5, 2)
            right[z, 0] = (p @ values).reshape(self.heads, self.d)
        return right


def decoding_work(shape: Shape) -> Work:
    """Two products of heads x d with the keys of every sequence; K and V are the bytes."""
    keys = sum(lengths_of(shape))
    return Work(4.0 * shape["heads"] * shape["d"] * keys, 4.0 * shape["kv"] * shape["d"] * keys)
