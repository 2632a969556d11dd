"""A mixed-type MoE layer: f16 activations, uint4 weights in groups of 128 along k.

    c1 = x W13[e],  h = silu(c1[:, :n]) * c1[:, n:],  c2 = w (h W2[e]),  out = sum over top-k of c2
    W = (q - zero) * scale

Scope "gemms" ends at c2, with the routing given as the peers want it; scope "layer" is all of it.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

from hexcute_bench.cases.compared import ComparedCase
from hexcute_bench.cases.tensors import (
    F16_TOLERANCE,
    exact_products,
    generator,
    poisoned,
    randn,
    rotated_sets,
)
from hexcute_bench.interface import Work
from hexcute_bench.shape import Shape

EXPERTS, TOP_K, HIDDEN, WIDTH, GROUP = 256, 8, 7168, 256, 128
# c1, h and rows of c2 pass through 16 bits on the way.
TOLERANCE = 2 * F16_TOLERANCE
ROUNDED_WEIGHTS = 4.0
"""The slack of libraries that round each weight to 16 bits too."""


@dataclass(frozen=True, eq=False)
class Quantized:
    """One stack of weights: `q` uint8 0..15 [experts,k,n], `scale` f16 and `zero` uint8 0..15, both
    [experts,k/group,n]. No other equals it, so that what is made of it can be kept."""

    q: Any
    scale: Any
    zero: Any

    def expert(self, index: int) -> Any:
        """Float32 weights [k,n] of one expert."""
        group = self.q.shape[1] // self.scale.shape[1]
        scale = self.scale[index].float().repeat_interleave(group, 0)
        zero = self.zero[index].float().repeat_interleave(group, 0)
        return (self.q[index].float() - zero) * scale


@dataclass(frozen=True)
class MoeSizes:
    """The layer's sizes; the paper's by default, one of eight tensor-parallel shards wide."""

    experts: int = EXPERTS
    top_k: int = TOP_K
    hidden: int = HIDDEN
    width: int = WIDTH
    group: int = GROUP


def quantized(experts: int, k: int, n: int, group: int, device: str) -> Quantized:
    """Random weights of about unit size after k products."""
    import torch

    draw = generator(device)

    def integers(*shape: int) -> Any:
        return torch.randint(0, 16, shape, dtype=torch.uint8, device=device, generator=draw)

    spread = torch.rand((experts, k // group, n), device=device, generator=draw)
    scale = ((spread + 0.5) / (6.0 * math.sqrt(k))).to(torch.float16)
    return Quantized(integers(experts, k, n), scale, integers(experts, k // group, n))


@functools.lru_cache(maxsize=1)
def _weights(sizes: MoeSizes, device: str) -> tuple[Quantized, Quantized]:
    """W13 and W2, the same for all token counts of a run: peers take their time to pack them."""
    return (
        quantized(sizes.experts, sizes.hidden, 2 * sizes.width, sizes.group, device),
        quantized(sizes.experts, sizes.width, sizes.hidden, sizes.group, device),
    )


class MoeCase(ComparedCase):
    """Weights `w13` (k hidden, n 2 width) and `w2` (k width, n hidden); for each set i the
    activations `x[i]` [tokens,hidden], experts `ids[i]` int32 and weights `gates[i]` float32,
    both [tokens,top_k]."""

    def __init__(
        self, shape: Shape, scope: str, sizes: MoeSizes | None = None, sets: int | None = None,
        device: str = "cuda",
    ) -> None:  # fmt: skip
        import torch

        exact_products(torch)
        self.shape, self.scope, self.sizes = shape, scope, sizes or MoeSizes()
        self.tokens = shape["tokens"]
        self.tolerance = TOLERANCE
        size = self.sizes
        self.w13, self.w2 = _weights(size, device)
        self.sets = rotated_sets(moe_work(shape, size).bytes) if sets is None else sets
        half = torch.float16
        self.x = [randn((self.tokens, size.hidden), half, device) for _ in range(self.sets)]
        self.ids = [self._routes(index, device) for index in range(self.sets)]
        self.gates = [
            torch.softmax(randn((self.tokens, size.top_k), torch.float32, device), 1)
            for _ in range(self.sets)
        ]
        rows = self.tokens * size.top_k if scope == "gemms" else self.tokens
        self.out = [poisoned((rows, size.hidden), half, device) for _ in range(self.sets)]

    def _routes(self, index: int, device: str) -> Any:
        """Experts of each token. Sets of one token take turns through all experts; several tokens
        meet as many as chance has it, which is what `moe_work` counts."""
        import torch

        size = self.sizes
        wanted = self.tokens * size.top_k
        if self.tokens == 1 and wanted * self.sets <= size.experts:
            chosen = torch.arange(index * wanted, (index + 1) * wanted, device=device)
            return chosen.view(self.tokens, size.top_k).to(torch.int32)
        draw = torch.rand((self.tokens, size.experts), device=device, generator=generator(device))
        return draw.topk(size.top_k, 1).indices.to(torch.int32)

    def output(self, index: int) -> Any:
        return self.out[index]

    def right(self, index: int) -> Any:
        """Float32 all the way, expert by expert."""
        import torch

        size = self.sizes
        x, ids, gates = self.x[index].float(), self.ids[index], self.gates[index]
        flat = ids.reshape(-1)
        c2 = torch.empty((flat.numel(), size.hidden), dtype=torch.float32, device=x.device)
        for expert in flat.unique().tolist():
            rows = (flat == expert).nonzero()[:, 0]
            c1 = x[rows // size.top_k] @ self.w13.expert(expert)
            h = torch.nn.functional.silu(c1[:, : size.width]) * c1[:, size.width :]
            c2[rows] = h @ self.w2.expert(expert) * gates.reshape(-1)[rows, None]
        if self.scope == "gemms":
            return c2
        return c2.view(self.tokens, size.top_k, size.hidden).sum(1)


def moe_work(shape: Shape, sizes: MoeSizes = MoeSizes()) -> Work:
    """Both GEMMs of every token and expert; the weights of the experts that are met on average,
    read once at half a byte, and the activations."""
    tokens, hidden, width = shape["tokens"], sizes.hidden, sizes.width
    pairs = tokens * sizes.top_k
    met = sizes.experts * (1.0 - (1.0 - sizes.top_k / sizes.experts) ** tokens)
    weights = met * hidden * width * 3 * (0.5 + 2.5 / sizes.group)
    activations = 2.0 * (tokens * hidden + pairs * hidden + pairs * 4 * width)
    return Work(2.0 * pairs * hidden * width * 3, weights + activations)


@dataclass(frozen=True)
class Alignment:
    """Rows sorted by expert, each expert's padded to whole blocks.

    `rows` int32: token * top_k + choice, or their count where padded; `experts` int32 a block;
    `padded` int32 [1], the rows in use; `offsets` int32 [experts+1], where each expert's begin.
    """

    rows: Any
    experts: Any
    padded: Any
    offsets: Any


def align(ids: Any, experts: int, block: int) -> Alignment:
    """The alignment of a routing [tokens,top_k] for blocks of `block` rows."""
    import torch

    flat = ids.reshape(-1).long()
    count = flat.numel()
    counts = torch.bincount(flat, minlength=experts)
    blocks = (counts + block - 1) // block
    begins = torch.cumsum(blocks, 0) - blocks
    room = count + experts * (block - 1)
    room = min(room, count * block)
    room = -(-room // block) * block
    rows = torch.full((room,), count, dtype=torch.int32, device=ids.device)
    order = torch.argsort(flat, stable=True)
    firsts = torch.cumsum(counts, 0) - counts
    sorted_experts = flat[order]
    within = torch.arange(count, device=ids.device) - firsts[sorted_experts]
    rows[begins[sorted_experts] * block + within] = order.to(torch.int32)
    owners = torch.zeros(room // block, dtype=torch.int32, device=ids.device)
    used = torch.repeat_interleave(torch.arange(experts, device=ids.device), blocks)
    owners[: used.numel()] = used.to(torch.int32)
    ends = torch.cumsum(blocks, 0) * block
    padded = ends[-1:].to(torch.int32)
    offsets = torch.cat([torch.zeros_like(ends[:1]), ends]).to(torch.int32)
    return Alignment(rows, owners, padded, offsets)
