"""Few rows per expert: two products whose weights stream to the registers that multiply, once.

    gated      h = silu(x gate^T) * (x up^T), rows of x named by a table
    weighted   c[pair] = gates[pair] h W2^T, rows of c named by a table

Sizes are the model's and known when a kernel is compiled, so that no load asks whether it is
inside. `streaming` says how weights come and are multiplied.
"""

from __future__ import annotations

from functools import cache

import hexcute_core as hx
from hexcute_core import f16, f32, i32, u16
from hexcute_kernels.moe.forms import PLAIN, Weights
from hexcute_kernels.moe.streaming import bring, meet, order, over_cluster, products, weights_of
from hexcute_kernels.parts.epilogue import silu
from hexcute_kernels.parts.unpack import number

tokens, rows, pairs, blocks = hx.dims("tokens rows pairs blocks")
HALVES = 32
"""Numbers of 16 bits in 64 bytes."""


@hx.device
def known(expert, experts):
    """The same number, and that it is an expert's for all to see."""
    return hx.maximum(hx.minimum(expert, experts - 1), 0)


def grid(split, tiles, blocks, together):
    """A grid of so many tiles of columns and blocks of rows."""
    return (split, blocks, tiles) if together else (split, tiles, blocks)


@hx.device
def place(together):
    """Which part, tile and block this block has of `grid`."""
    x, y, z = hx.blockIdx.x, hx.blockIdx.y, hx.blockIdx.z
    return (x, z, y) if together else (x, y, z)


@cache
def gated_product(
    experts: int, hidden: int, width: int, held: Weights = PLAIN, dtype: hx.DType = f16
) -> hx.Kernel:
    """The kernel h = silu(x gate^T) * (x up^T), where the first half of an expert's rows are its
    gate's; weights as they are `held`."""
    form, n = held.form, 2 * width
    blocks_of_k, lines = hidden // form.block, held.rows(n)

    @hx.kernel
    def gated(
        x: dtype[tokens, hidden],
        q: u16[experts, blocks_of_k, lines, HALVES],
        strip: f16[experts, blocks_of_k, lines * HALVES],
        expert: i32[blocks],
        token: i32[rows],
        h: dtype[rows, width],
        *,
        BM: int = 8,
        BN: int = 128,
        DEPTH: int = 2,
        SPLIT: int = 2,
        WARPS: int = 4,
        BLOCKS: int = 3,
        TOGETHER: bool = False,
    ):
        columns, wide = BN // 2, BM // SPLIT
        steps = hx.cdiv(blocks_of_k, DEPTH * SPLIT)
        hx.attrs.cuda.grid_dim = grid(SPLIT, hx.cdiv(width, columns), blocks, TOGETHER)
        hx.attrs.cuda.cluster_dim = SPLIT
        hx.attrs.cuda.block_dim = 32 * WARPS
        hx.attrs.cuda.min_blocks = BLOCKS
        rank, tile, block = place(TOGETHER)
        column = tile * columns
        sx = hx.shared_tensor(dtype, (BM, form.block * DEPTH * steps))
        sums = hx.shared_tensor(f32, (BN, BM))
        hx.primitive("griddepcontrol.wait")
        hx.primitive("griddepcontrol.launch")
        mine = number(expert, block)
        if mine >= 0:
            tops = [number(token, block * BM + r) for r in range(BM)]
            begin, at = rank * (DEPTH * steps), known(mine, experts)
            lots = [
                weights_of(q, strip, at, n, row, columns, begin, DEPTH, steps, held)
                for row in (column, width + column)
            ]
            rcs = [hx.register_tensor(f32, (columns, BM)) for _ in lots]
            ordered = order(lots, columns, DEPTH, DEPTH * steps)
            bring(x, tops, begin * form.block, sx)
            products(rcs, lots, ordered, sx, DEPTH, form)
            for i, rc in enumerate(rcs):
                hx.copy(rc, sums[i * columns : (i + 1) * columns, :])
            hx.cluster_sync()
            gate, up = [
                over_cluster(sums, i * columns, columns, rank * wide, wide, SPLIT) for i in (0, 1)
            ]
            hx.cluster_sync()
            row = block * BM + rank * wide
            gh = hx.global_view(h[row:, column:], ((columns, wide), (1, width)))
            hx.copy(hx.cast(silu(gate) * up, dtype), gh)

    return gated


@cache
def weighted_product(
    experts: int, width: int, hidden: int, result: hx.DType, held: Weights = PLAIN,
    dtype: hx.DType = f16,
) -> hx.Kernel:  # fmt: skip
    """The kernel c[pair] = gates[pair] h W2^T of the pair's expert, in the order of pairs, in the
    type `result`; weights as they are `held`."""
    form = held.form
    blocks_of_k, lines = width // form.block, held.rows(hidden)

    @hx.kernel
    def weighted(
        h: dtype[rows, width],
        q: u16[experts, blocks_of_k, lines, HALVES],
        strip: f16[experts, blocks_of_k, lines * HALVES],
        expert: i32[blocks],
        pair: i32[rows],
        gates: f32[pairs],
        c: result[pairs, hidden],
        *,
        BM: int = 8,
        BN: int = 256,
        DEPTH: int = 2,
        WARPS: int = 4,
        BLOCKS: int = 2,
        SPLIT: int = 1,
        TOGETHER: bool = False,
    ):
        wide, steps = BM // SPLIT, hx.cdiv(blocks_of_k, DEPTH * SPLIT)
        hx.attrs.cuda.grid_dim = grid(SPLIT, hx.cdiv(hidden, BN), blocks, TOGETHER)
        hx.attrs.cuda.cluster_dim = SPLIT
        hx.attrs.cuda.block_dim = 32 * WARPS
        hx.attrs.cuda.min_blocks = BLOCKS
        rank, tile, block = place(TOGETHER)
        column = tile * BN
        sx = hx.shared_tensor(dtype, (BM, form.block * DEPTH * steps))
        sums = hx.shared_tensor(f32, (BN, BM))
        # The kernel before had waited for the tables of experts and pairs when it let this begin.
        hx.primitive("griddepcontrol.launch")
        mine = number(expert, block)
        if mine >= 0:
            at, begin, first = known(mine, experts), rank * (DEPTH * steps), block * BM
            lots = [weights_of(q, strip, at, hidden, column, BN, begin, DEPTH, steps, held)]
            ordered = order(lots, BN, DEPTH, DEPTH * steps)
            owners = [number(pair, first + rank * wide + r) for r in range(wide)]
            factors = [hx.register_tensor(f32, (1, 1)) for _ in owners]
            for p, factor in zip(owners, factors):
                hx.copy(hx.global_view(gates[hx.minimum(p, pairs - 1) :], ((1, 1), (1, 1))), factor)
            rc = hx.register_tensor(f32, (BN, BM))
            hx.primitive("griddepcontrol.wait")
            bring(h, (first,), begin * form.block, sx)
            products([rc], lots, ordered, sx, DEPTH, form)
            hx.copy(rc, sums)
            meet(SPLIT)
            for r, p in enumerate(owners):
                if p < pairs:
                    one = over_cluster(sums, 0, BN, rank * wide + r, 1, SPLIT)
                    gc = hx.global_view(c[p:, column:], ((BN, 1), (1, hidden)))
                    hx.copy(hx.cast(one * factors[r], result), gc)
            if SPLIT > 1:
                hx.cluster_sync()

    return weighted
