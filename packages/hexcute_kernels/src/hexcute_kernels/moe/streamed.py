"""c = x ((q - zero) * scale)^T, few rows per expert: weights stream to the registers that multiply.

    c[i, j] = sum over g of scale[g, j] (sum over k of g of x[i, k] (q[g, j, k] - zero[g, j]))

A thread's 16 bytes of weights are its operands of a group g of k, so that nothing is exchanged, and
what it has asked for is what is under way: DEPTH groups of BN rows per block. Its loop loads
nothing
else: rows of x, scales and zero points wait in shared memory, since a number of two bytes would be
made part of a word, and waited for, as soon as it is asked for. q - zero is exact in f16, and the
scale meets the group's sum in f32, so that no weight is rounded. Blocks of a cluster SPLIT the
groups among them and add their parts up through shared memory. Sizes are the model's and known when
a kernel is compiled, so that no load asks whether it is inside.
"""

from __future__ import annotations

from functools import cache

import hexcute_core as hx
from hexcute_core import f16, f32, i32, u16
from hexcute_kernels.moe.packing import GROUP, WORDS, packed_rows
from hexcute_kernels.parts.epilogue import silu
from hexcute_kernels.parts.unpack import differences, number

tokens, rows, pairs, blocks = hx.dims("tokens rows pairs blocks")
HALVES = 32
"""Numbers of 16 bits in 64 bytes."""


@hx.device
def weights_of(q, strip, expert, n, row, rows, begin, depth, steps):
    """`steps` times `depth` groups of `rows` rows from `row` on of an expert's n; and of all of
    these groups what scales the weights, and what shifts them."""
    a_word = (rows, WORDS, depth, steps)
    gq = hx.global_view(
        q[expert, begin:, row:, :],
        (a_word, (hx.along(2), hx.along(3), hx.along(1), hx.along(1, depth))),
    )
    a_strip = (rows, depth * steps), (hx.along(2), hx.along(1))
    gs = hx.global_view(strip[expert, begin:, n * WORDS + row :], a_strip)
    gz = hx.global_view(strip[expert, begin:, n * (WORDS + 1) + row :], a_strip)
    return gq, gs, gz


@hx.device
def accumulate(rcs, tiles, strips, sx, group, d):
    """rcs += the products of a group, whose weights are in d of `tiles`."""
    parts = [hx.register_tensor(f32, rc.shape) for rc in rcs]
    zeros = [hx.register_tensor(f16, (rc.shape[0], 1)) for rc in rcs]
    for part, zero, (_, sz) in zip(parts, zeros, strips):
        hx.fill(part, 0.0)
        hx.copy(sz[:, hx.ds(group, 1)], zero)
    for place in hx.static_range(GROUP // WORDS):
        rx = hx.register_tensor(f16, (sx.shape[0], WORDS))
        hx.copy(sx[:, hx.ds(group * GROUP + place * WORDS, WORDS)], rx)
        for part, rq, zero in zip(parts, tiles, zeros):
            hx.gemm(part, differences(rq[:, :, d], place, zero), rx)
    for rc, part, (ss, _) in zip(rcs, parts, strips):
        scale = hx.register_tensor(f16, (rc.shape[0], 1))
        hx.copy(ss[:, hx.ds(group, 1)], scale)
        rc += part * scale


@hx.device
def bring(x, tops, column, sx):
    """sx = rows of x from `column` on: each from one of `tops`, or as they follow one top."""
    high = sx.shape[0] // len(tops)
    for i, top in enumerate(tops):
        at = ((high, sx.shape[1]), (x.shape[1], 1))
        hx.copy(hx.global_view(x[top:, column:], at), sx[i * high : (i + 1) * high, :])
    hx.syncthreads()


@hx.device
def order(lots, rows, depth, count):
    """Asks for the first `depth` groups of `rows` rows of each of `lots`, and for what scales and
    shifts all `count` of them: where these will be, in registers and in shared memory."""
    tiles = [hx.register_tensor(u16, (rows, WORDS, depth)) for _ in lots]
    for d in hx.static_range(depth):
        for (gq, _, _), tile in zip(lots, tiles):
            hx.copy(gq[:, :, d, 0], tile[:, :, d])
    strips = [[hx.shared_tensor(f16, (rows, count)) for _ in range(2)] for _ in lots]
    for (_, gs, gz), (ss, sz) in zip(lots, strips):
        hx.copy(gs, ss)
        hx.copy(gz, sz)
    return tiles, strips


@hx.device
def products(rcs, lots, ordered, sx, depth):
    """rcs = the weights of each of `lots` times sx. A group that is multiplied makes room for the
    one `depth` later."""
    tiles, strips = ordered
    steps = sx.shape[1] // (GROUP * depth)
    for rc in rcs:
        hx.fill(rc, 0.0)
    for step in range(steps):
        for d in hx.static_range(depth):
            accumulate(rcs, tiles, strips, sx, step * depth + d, d)
            if step + 1 < steps:
                # The minimum tells the compiler that all of it is inside.
                for (gq, _, _), tile in zip(lots, tiles):
                    hx.copy(gq[:, :, d, hx.minimum(step + 1, steps - 1)], tile[:, :, d])


@hx.device
def meet(split):
    """Waits for all threads of a cluster of `split` blocks."""
    if split > 1:
        hx.cluster_sync()
    else:
        hx.syncthreads()


@hx.device
def over_cluster(parts, row, rows, column, columns, split):
    """A corner of `parts`, summed over the blocks of a cluster in their order."""
    total, part = [hx.register_tensor(f32, (rows, columns)) for _ in range(2)]
    hx.fill(total, 0.0)
    for other in hx.static_range(split):
        theirs = parts[:, hx.ds(column, columns)]
        theirs = hx.remote(theirs, other) if split > 1 else theirs
        hx.copy(theirs[row : row + rows, :], part)
        total += part
    return total


@hx.device
def known(expert, experts):
    """The same number, and that it is an expert's for all to see."""
    return hx.maximum(hx.minimum(expert, experts - 1), 0)


@cache
def gated_product(experts: int, hidden: int, width: int) -> hx.Kernel:
    """The kernel h = silu(x gate^T) * (x up^T), where the first half of an expert's rows are its
    gate's."""
    groups, n = hidden // GROUP, 2 * width

    @hx.kernel
    def gated(
        x: f16[tokens, hidden],
        q: u16[experts, groups, packed_rows(n), HALVES],
        strip: f16[experts, groups, packed_rows(n) * HALVES],
        expert: i32[blocks],
        token: i32[rows],
        h: f16[rows, width],
        *,
        BM: int = 8,
        BN: int = 128,
        DEPTH: int = 2,
        SPLIT: int = 2,
        WARPS: int = 4,
        BLOCKS: int = 3,
    ):
        columns, wide = BN // 2, BM // SPLIT
        steps = hx.cdiv(groups, DEPTH * SPLIT)
        hx.attrs.cuda.grid_dim = SPLIT, hx.cdiv(width, columns), blocks
        hx.attrs.cuda.cluster_dim = SPLIT
        hx.attrs.cuda.block_dim = 32 * WARPS
        hx.attrs.cuda.min_blocks = BLOCKS
        rank, column, block = hx.blockIdx.x, hx.blockIdx.y * columns, hx.blockIdx.z
        sx = hx.shared_tensor(f16, (BM, GROUP * DEPTH * steps))
        parts = hx.shared_tensor(f32, (BN, BM))
        hx.primitive("griddepcontrol.wait")
        hx.primitive("griddepcontrol.launch")
        mine = number(expert, block)
        if mine >= 0:
            tops = [number(token, block * BM + r) for r in range(BM)]
            begin, at = rank * (DEPTH * steps), known(mine, experts)
            lots = [
                weights_of(q, strip, at, n, row, columns, begin, DEPTH, steps)
                for row in (column, width + column)
            ]
            rcs = [hx.register_tensor(f32, (columns, BM)) for _ in lots]
            ordered = order(lots, columns, DEPTH, DEPTH * steps)
            bring(x, tops, begin * GROUP, sx)
            products(rcs, lots, ordered, sx, DEPTH)
            for i, rc in enumerate(rcs):
                hx.copy(rc, parts[i * columns : (i + 1) * columns, :])
            hx.cluster_sync()
            gate, up = [
                over_cluster(parts, i * columns, columns, rank * wide, wide, SPLIT) for i in (0, 1)
            ]
            hx.cluster_sync()
            row = block * BM + rank * wide
            gh = hx.global_view(h[row:, column:], ((columns, wide), (1, width)))
            hx.copy(hx.cast(silu(gate) * up, f16), gh)

    return gated


@cache
def weighted_product(experts: int, width: int, hidden: int, result: hx.DType) -> hx.Kernel:
    """The kernel c[pair] = gates[pair] h W2^T of the pair's expert, in the order of pairs, in the
    type `result`."""
    groups = width // GROUP

    @hx.kernel
    def weighted(
        h: f16[rows, width],
        q: u16[experts, groups, packed_rows(hidden), HALVES],
        strip: f16[experts, groups, packed_rows(hidden) * HALVES],
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
    ):
        wide, steps = BM // SPLIT, hx.cdiv(groups, DEPTH * SPLIT)
        hx.attrs.cuda.grid_dim = SPLIT, hx.cdiv(hidden, BN), blocks
        hx.attrs.cuda.cluster_dim = SPLIT
        hx.attrs.cuda.block_dim = 32 * WARPS
        hx.attrs.cuda.min_blocks = BLOCKS
        rank, column, block = hx.blockIdx.x, hx.blockIdx.y * BN, hx.blockIdx.z
        sx = hx.shared_tensor(f16, (BM, GROUP * DEPTH * steps))
        parts = hx.shared_tensor(f32, (BN, BM))
        # The kernel before had waited for the tables of experts and pairs when it let this begin.
        hx.primitive("griddepcontrol.launch")
        mine = number(expert, block)
        if mine >= 0:
            at, begin, first = known(mine, experts), rank * (DEPTH * steps), block * BM
            lots = [weights_of(q, strip, at, hidden, column, BN, begin, DEPTH, steps)]
            ordered = order(lots, BN, DEPTH, DEPTH * steps)
            owners = [number(pair, first + rank * wide + r) for r in range(wide)]
            factors = [hx.register_tensor(f32, (1, 1)) for _ in owners]
            for p, factor in zip(owners, factors):
                hx.copy(hx.global_view(gates[hx.minimum(p, pairs - 1) :], ((1, 1), (1, 1))), factor)
            rc = hx.register_tensor(f32, (BN, BM))
            hx.primitive("griddepcontrol.wait")
            bring(h, (first,), begin * GROUP, sx)
            products([rc], lots, ordered, sx, DEPTH)
            hx.copy(rc, parts)
            meet(SPLIT)
            for r, p in enumerate(owners):
                if p < pairs:
                    one = over_cluster(parts, 0, BN, rank * wide + r, 1, SPLIT)
                    gc = hx.global_view(c[p:, column:], ((BN, 1), (1, hidden)))
                    hx.copy(hx.cast(one * factors[r], result), gc)
            if SPLIT > 1:
                hx.cluster_sync()

    return weighted
