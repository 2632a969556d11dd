"""c = x ((q - zero) * scale)^T of f16 rows and weights of four bits: dense, or an expert per block.

    c[i, j] = sum over g of scale[g, j] (sum over k of g of x[i, k] (q[g, j, k] - zero[g, j]))

g are groups of k. The weights are the product's rows: each thread unpacks in registers what the
Tensor Core reads from it, so tiles of few tokens cost little. One warp group loads a group into
each slot, the others unpack and multiply. Routed, rows from b * BM on have an expert of their own,
or none and are passed over. Blocks that stay load the next tile while the last one ends.
"""

from __future__ import annotations

from functools import cache

import hexcute_core as hx
from hexcute_core import f16, f32, i32, u16
from hexcute_kernels.moe.packing import GROUP, WORDS
from hexcute_kernels.parts.unpack import differences, number

t, k, n, rows = hx.dims("t k n rows")
experts, groups, lines, halves, blocks = hx.dims("experts groups lines halves blocks")


@hx.device
def begins(expert, start, block, high):
    """The expert of block `block`, and its first row of x; dense, expert 0 and rows in order."""
    if expert is None:
        return 0, block * high
    if start is None:
        return number(expert, block), block * high
    return number(expert, block), number(start, block)


@hx.device
def load_slots(x, q, strip, expert, row, bn, columns, sx, sq, ss, sz, pipe):
    """Fills slot after slot with a group of k: rows of x, the weights of columns from bn on."""
    high, wide, tiles = sx.shape[0], sq.shape[0], q.shape[1]
    gx = hx.global_view(x[row:, :], ((high, GROUP, tiles), (x.shape[1], 1, GROUP)))
    a_tile = ((wide, WORDS, tiles), (hx.along(2), hx.along(3), hx.along(1)))
    gq = hx.global_view(q[expert, :, bn:, :], a_tile)
    a_strip = ((wide, 1, tiles), (hx.along(2), hx.along(1), hx.along(1)))
    gs = hx.global_view(strip[expert, :, columns * WORDS + bn :], a_strip)
    gz = hx.global_view(strip[expert, :, columns * (WORDS + 1) + bn :], a_strip)
    for i in range(tiles):
        with pipe.produce() as s:
            hx.copy(gx[:, :, i], sx[:, :, s])
            hx.copy(gq[:, :, i], sq[:, :, s])
            hx.copy(gs[:, :, i], ss[:, :, s])
            hx.copy(gz[:, :, i], sz[:, :, s])


@hx.device
def multiply_slots(rc, sx, sq, ss, sz, pipe, tiles):
    """rc += the products of `tiles` slots."""
    wide = sq.shape[0]
    for _ in range(tiles):
        with pipe.consume() as s:
            rq, part = hx.register_tensor(u16, (wide, WORDS)), hx.register_tensor(f32, rc.shape)
            scale, zero = hx.register_tensor(f16, (wide, 1)), hx.register_tensor(f16, (wide, 1))
            hx.copy(sq[:, :, s], rq)
            hx.copy(ss[:, :, s], scale)
            hx.copy(sz[:, :, s], zero)
            for place in hx.static_range(4):
                rx = sx[:, place * WORDS : (place + 1) * WORDS, s]
                # While one runs, the next one's weights are unpacked.
                weights = differences(rq, place, zero)
                hx.gemm(part, weights, rx, accumulate=place > 0, asynchronous=True)
            hx.wait_gemm(0)
        rc += part * scale


@cache
def w4a16_gemm(routed: bool = False, sorted_rows: bool = False) -> hx.Kernel:
    """The kernel: x[t, k]; q[experts, k/128, n + n/16, 32] as `packing` says, and the same memory
    as f16, strip[experts, k/128, ...]; c[rows, n].

    `routed`: expert[block] of the rows of c from block * BM on, negative where they are not used.
    `sorted_rows`: start[block], their first row of x; else that is the row of c. Its constants: BM
    tokens and BN columns per tile, STAGES, GROUPS that multiply, and whether blocks STAY.
    """
    number_type = i32[blocks] if routed else None
    start_type = i32[blocks] if sorted_rows else None

    @hx.kernel
    def w4a16(
        x: f16[t, k],
        q: u16[experts, groups, lines, 32],
        strip: f16[experts, groups, halves],
        expert: number_type,
        start: start_type,
        c: f16[rows, n],
        *,
        BM: int = 16,
        BN: int = 128,
        STAGES: int = 4,
        GROUPS: int = 2,
        STAY: bool = False,
    ):
        across = hx.cdiv(n, BN)
        tiles = across * hx.cdiv(rows, BM)
        if not STAY:
            hx.attrs.cuda.grid_dim = tiles
            if BM <= 32 and BN <= 128:
                # Few tokens wait for memory: two blocks keep more of it under way.
                hx.attrs.cuda.min_blocks = 2
        sx = hx.shared_tensor(f16, (BM, GROUP, STAGES))
        sq = hx.shared_tensor(u16, (BN, WORDS, STAGES))
        ss = hx.shared_tensor(f16, (BN, 1, STAGES))
        sz = hx.shared_tensor(f16, (BN, 1, STAGES))
        sc = hx.shared_tensor(f16, (BN, BM))
        pipe = hx.pipeline(STAGES)
        large = BM * BN >= 64 * 256 * GROUPS // 2 and GROUPS == 2

        with hx.warp_groups_producer(registers=40 if large else None):
            for tile in hx.persistent(tiles):
                mine, row = begins(expert, start, tile // across, BM)
                if mine >= 0:
                    bn = tile % across * BN
                    load_slots(x, q, strip, mine, row, bn, n, sx, sq, ss, sz, pipe)

        with hx.warp_groups_consumer(GROUPS, registers=232 if large else None):
            for tile in hx.persistent(tiles):
                block, bn = tile // across, tile % across * BN
                mine, _ = begins(expert, None, block, BM)
                if mine >= 0:
                    rc = hx.register_tensor(f32, (BN, BM))
                    hx.fill(rc, 0.0)
                    multiply_slots(rc, sx, sq, ss, sz, pipe, groups)
                    hx.sync_role()
                    hx.copy(hx.cast(rc, f16), sc)
                    hx.sync_role()
                    hx.copy(sc, hx.global_view(c[block * BM :, bn:], ((BN, BM), (1, n))))

    return w4a16
