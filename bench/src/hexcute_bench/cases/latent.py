"""One query a sequence against a cache of one latent head in pages, checked against float32
sequence by sequence."""

from __future__ import annotations

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

KEY, VALUE, PAGE = 576, 512, 64
"""Columns of a key, how many of them are its value too, and rows of a page."""


class LatentCase(ComparedCase):
    """`q[i]` is [batch,1,heads,576], `out[i]` [batch,1,heads,512], f16, for each set i; `cache[i]`
    [pages,64,576] beside `table` [batch,s/64], and `seq_lens` [batch], all of them s."""

    by_rows = True

    def __init__(self, shape: Shape, sets: int | None = None, device: str = "cuda") -> None:
        import torch

        exact_products(torch)
        self.shape, self.tolerance = shape, TOLERANCE
        self.batch, self.heads, self.s = (shape[name] for name in ("batch", "heads", "s"))
        self.scale = KEY**-0.5
        self.sets = rotated_sets(latent_work(shape).bytes) if sets is None else sets
        pages, kind = self.batch * self.s // PAGE, torch.float16
        self.seq_lens = torch.full((self.batch,), self.s, dtype=torch.int32, device=device)
        self.table = torch.randperm(pages, device=device).int().view(self.batch, -1)
        rows = (self.batch, 1, self.heads)
        self.q = [randn((*rows, KEY), kind, device) for _ in range(self.sets)]
        self.cache = [randn((pages, PAGE, KEY), kind, device) for _ in range(self.sets)]
        self.out = [poisoned((*rows, VALUE), kind, device) for _ in range(self.sets)]

    def output(self, index: int) -> Any:
        return self.out[index]

    def right(self, index: int) -> Any:
        import torch

        right = torch.empty_like(self.out[index], dtype=torch.float32)
        for z in range(self.batch):
            keys = self.cache[index][self.table[z].long()].view(-1, KEY).float()
            p = torch.softmax(self.q[index][z, 0].float() @ keys.T * self.scale, 1)
            right[z, 0] = p @ keys[:, :VALUE]
        return right


def latent_work(shape: Shape) -> Work:
    """Products of heads x 576 and x 512 with the keys of every sequence; the cache is the bytes."""
    keys = shape["batch"] * shape["s"]
    return Work(2.0 * (KEY + VALUE) * shape["heads"] * keys, 2.0 * KEY * keys)
