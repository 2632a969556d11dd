"""Layers over several GPUs: weights cut by rank, products, experts and attention on process groups
of torch.distributed."""

from hexcute_kernels.parallel.collectives import PeerError
from hexcute_kernels.parallel.cuts import Heads, heads
from hexcute_kernels.parallel.experts import ExpertParallel, SummedExperts
from hexcute_kernels.parallel.layers import ColumnParallel, RowParallel
from hexcute_kernels.parallel.merging import merge_across, merge_attention
from hexcute_kernels.parallel.products import product
from hexcute_kernels.parallel.weights import (
    Blockwise,
    Dense,
    Experts,
    FourBits,
    Shard,
    shard,
    shard_experts,
)

__all__ = [
    "Dense", "Blockwise", "FourBits", "shard", "Shard", "ColumnParallel", "RowParallel", "product",
    "shard_experts", "Experts", "ExpertParallel", "SummedExperts", "heads", "Heads",
    "merge_attention", "merge_across", "PeerError",
]  # fmt: skip
