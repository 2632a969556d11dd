"""Decoding from one latent head on Hopper: one warp group loads by TMA, two others multiply.

    o += p(n - 1) v(n - 1)     by both groups, half of the columns each
    s(n) = q k(n)^T            by the first, behind it, whose softmax p(n) both read

A key's first columns are its value: shared memory holds them once, and the products read them both
ways. The halves of the values and what keys have beyond are pieces with slots of their own, two of
each: there is no room for more. So values are used before the next scores are begun, and keys are
loaded anew under these and their softmax.
"""

from __future__ import annotations

from functools import cache

import hexcute_core as hx
from hexcute_core import f32, i32
from hexcute_kernels.attention.cache import gathers, row_of, rows_at
from hexcute_kernels.attention.decoding import (
    STEP,
    Kind,
    b,
    g,
    hide_unseen,
    hides,
    hk,
    leave,
    most,
    nothing_yet,
    places,
    rows,
    sq,
    wait_for_others,
    workspace_width,
)
from hexcute_kernels.attention.ragged import NOTHING
from hexcute_kernels.attention.splits import find_part
from hexcute_kernels.parts.softmax import (
    LOG2_E,
    exponentials,
    raised,
    reciprocal_or_zero,
)

HIGH = 64
"""Rows of a tile: a warp group's."""
HALVES = 2
"""Of a number of the workspace: each is as wide as an element."""
LOADING, MULTIPLYING = 40, 232
"""Registers of a thread that loads and of one that multiplies."""


@hx.device
def bring_piece(k, tile, found, begin):
    """Starts copies of a piece, from column `begin` on, of keys that lie from the rows found on, as
    many of each."""
    (count, wide), (_, hk, d) = tile.shape, k.shape
    unit = count // len(found)
    for i in hx.static_range(len(found)):
        there = hx.global_view(k[found[i] :, 0, begin:], ((unit, wide), (hk * d, 1)))
        hx.copy(there, tile[i * unit : (i + 1) * unit, :])


@hx.device
def add_scores(rs, s_q, piece, accumulate):
    """Issues rs = q k^T over the columns of a piece, or adds them to rs; gives the piece's slot."""
    begin, tile, pipe = piece
    _, wide, stages = tile.shape
    slot = pipe.wait()
    # The columns begin there, but are told anew for each tile: addresses of all the products'
    # operands, kept from tile to tile, would fill 72 registers.
    part = s_q[:, hx.ds(begin + slot // stages * STEP, wide)]
    hx.gemm(rs, part, tile[:, :, slot], asynchronous=True, accumulate=accumulate)
    return slot


@hx.device
def hand_over(shares, s_p, rp, s_weight, weight):
    """Gives the other group p, where there is one, and what its results are to be multiplied by."""
    with shares.produce() as t:
        if rp is not None:
            hx.copy(rp, s_p[:, :, t])
        hx.copy(weight, s_weight[:, :, t])


@hx.device
def rows_of(kind, columns, width, query):
    """Shape and steps of a view of so many columns, a row for each head, `width` behind the one
    before, and query, `query` behind it. TMA takes rows of heads alone."""
    if kind.in_rows and kind.queries == 1:
        return (kind.group, columns), (width, 1)
    return ((kind.group, kind.queries), columns), ((width, query), 1)


@hx.device
def write(kind, value, tile, results, corner):
    """Writes values, a row for each head and query, to results from a corner (place, query, head,
    column) on: wide ones of a kind `in_rows` through slots of keys' tile, which nobody reads any
    more, a slot for each portion of the columns; others from where the accumulators have them."""
    (high, wide, _), (_, _, hk, g, width) = tile.shape, results.shape
    place, query, head, column = corner
    if value.dtype != results.dtype:
        value, column = hx.bitcast(value, results.dtype), HALVES * column
    parts = value.shape[1] // wide
    if kind.in_rows and parts > 0:
        cut = hx.reshape(value, (high, parts, wide))
        hx.sync_role()
        for part in hx.static_range(parts):
            hx.copy(cut[:, part, :], tile[:, :, part])
        hx.sync_role()
        for part in hx.static_range(parts):
            there = results[place, query:, 0, head:, column + part * wide :]
            rows = rows_of(kind, wide, width, hk * g * width)
            hx.copy(tile[:, :, part], hx.global_view(there, rows))
    else:
        leave(value, results[place, query:, 0, head:, column:], (kind.group, kind.queries))


@cache
def latent_attention(kind: Kind) -> hx.Kernel:
    """The kernel of a kind with `values`, for tiles of BN keys, STAGES of them in shared memory;
    its arguments are those of `decoding_attention`. Where results are to go in whole rows, a tile
    has as many keys as rows, and the workspace's numbers are given by halves, as wide as the
    elements of the keys whose memory they go through."""
    dtype, d, dv, page = kind.dtype, kind.d, kind.dv, kind.page
    group, queries, high = kind.group, kind.queries, kind.group * kind.queries
    half, width = dv // 2, workspace_width(dv)
    cuts = [(0, half), (half, half)] + [(dv, d - dv)] * (d > dv)
    several, direct = kind.several, kind.several and kind.in_rows
    lengths_type = i32[b] if kind.ragged else None
    table_type = None if page is None else i32[b, most]
    number, width = (dtype, HALVES * width) if kind.in_rows else (f32, width)
    work_type = None if kind.alone else number[places, sq, hk, g, width]
    plan_type = i32[b, 2] if several else None
    o_type = dtype[b, sq, hk, g, dv] if kind.alone or direct else None

    @hx.kernel
    def latent(
        q: dtype[b, sq, hk, g, d], k: dtype[rows, hk, d], lengths: lengths_type,
        table: table_type, work: work_type, plan: plan_type, o: o_type,
        scale: f32, v_scale: f32, cap: f32, left: i32, sk: i32, blocks: i32,
        *, BN: int = 64, STAGES: int = 2, COUNT: int = 32,
    ):  # fmt: skip
        heads = hx.cdiv(g, group)
        hx.attrs.cuda.grid_dim = heads * hx.cdiv(sq, queries), blocks, 1 if several else b
        bg, bq = hx.blockIdx.x % heads * group, hx.blockIdx.x // heads * queries
        if kind.paired:
            hx.attrs.cuda.cluster_dim = 2
        wait_for_others(kind.dependent, kind.early)
        z, split, splits, place, length, at, count = find_part(
            kind, lengths, plan, sk, sq, left, blocks, BN, COUNT
        )
        if several and split >= splits:
            # Nothing is left for the block, and no place is before the first.
            z, place, count = -1 if direct else z, -1, 0
        only = kind.alone or (direct and splits == 1)
        shift, factor = length - sq, scale * LOG2_E
        s_q, names = hx.shared_tensor(dtype, (high, d)), hx.shared_tensor(i32, (BN,))
        s_p = hx.shared_tensor(dtype, (high, BN, 1))
        s_decay = hx.shared_tensor(f32, (high, 1, 1))
        pieces = [
            (begin, hx.shared_tensor(dtype, (BN, wide, STAGES)), hx.pipeline(STAGES))
            for begin, wide in cuts
        ]
        halves, rest = pieces[:2], pieces[2:]
        unit = BN if page is None else min(page, BN)
        asked, shares = hx.pipeline(1), hx.pipeline(1)

        with hx.warp_groups_producer(registers=LOADING):
            with asked.produce():
                given = q[z, bq:, 0, bg:, :]
                hx.copy(hx.global_view(given, rows_of(kind, d, d, hk * g * d)), s_q)
            for i in range(count):
                key = at + i * BN
                if gathers(page) or key + BN > length:
                    # What lies behind the end may be anything, and 0 times that no number.
                    row = rows_at(table, z, key, sk, page, BN)
                    hx.sync_role()
                    hx.copy(hx.where(hx.iota((BN,), 0) + key < length, row, NOTHING), names)
                    hx.sync_role()
                    for begin, tile, pipe in (*rest, *halves):
                        view = hx.global_view(k[:, 0, begin:], (tile.shape[:2], (names, 1)))
                        with pipe.produce() as s:
                            hx.copy(view, tile[:, :, s])
                else:
                    # Looked up before a slot is waited for: the copies are to begin at once then.
                    units = hx.static_range(0, BN, unit)
                    found = [row_of(z, key + u, sk, table, page) for u in units]
                    for begin, tile, pipe in (*rest, *halves):
                        with pipe.produce() as s:
                            bring_piece(k, tile[:, :, s], found, begin)

        _, s_v, first = halves[0]
        others = [pipe for _, _, pipe in (halves[1], *rest)]
        with hx.warp_groups_consumer(registers=MULTIPLYING):
            ro, m, total = nothing_yet(high, half)
            rs = hx.register_tensor(f32, (high, BN))
            asked.wait()
            if count > 0:
                for piece in rest:
                    add_scores(rs, s_q, piece, False)
                read = add_scores(rs, s_q, halves[0], len(rest) > 0)
                add_scores(rs, s_q, halves[1], True)
                hx.wait_gemm(0)
                for pipe in others:
                    pipe.release()
                if hides(at, BN, bq, queries, shift, left):
                    hide_unseen(rs, bq, group, at, length, shift, left)
                m, decay = raised(rs, m, factor)
                p, sums = exponentials(rs, m, factor)
                rp = hx.cast(p, dtype)
                for i in range(1, count):
                    hand_over(shares, s_p, rp, s_decay, decay)
                    ro *= decay
                    hx.gemm(ro, rp, hx.transpose(s_v[:, :, read]), asynchronous=True)
                    for piece in rest:
                        add_scores(rs, s_q, piece, False)
                    # Under the rest's products, so that the next keys come under all others.
                    hx.wait_gemm(len(rest))
                    first.release()
                    read = add_scores(rs, s_q, halves[0], len(rest) > 0)
                    add_scores(rs, s_q, halves[1], True)
                    hx.wait_gemm(0)
                    for pipe in others:
                        pipe.release()
                    column = at + i * BN
                    if hides(column, BN, bq, queries, shift, left):
                        hide_unseen(rs, bq, group, column, length, shift, left)
                    m, decay = raised(rs, m, factor)
                    p, more = exponentials(rs, m, factor)
                    sums = sums * decay + more
                    rp = hx.cast(p, dtype)
                hand_over(shares, s_p, rp, s_decay, decay)
                ro *= decay
                hx.gemm(ro, rp, hx.transpose(s_v[:, :, read]))
                first.release()
                total = hx.sum(sums, 1)
            asked.release()
            if only:
                weight = reciprocal_or_zero(total) * v_scale
                hand_over(shares, s_p, None, s_decay, weight)
                write(kind, hx.cast(ro * weight, dtype), s_v, o, (z, bq, bg, 0))
            else:
                for c, value in ((0, ro), (dv, m), (dv + 1, total)):
                    write(kind, value, s_v, work, (place, bq, bg, c))

        _, s_w, second = halves[1]
        with hx.warp_groups_consumer(registers=MULTIPLYING):
            ro, weight = hx.register_tensor(f32, (high, half)), hx.register_tensor(f32, (high, 1))
            hx.fill(ro, 0.0)
            for _ in range(count):
                t, read = shares.wait(), second.wait()
                hx.copy(s_decay[:, :, t], weight)
                ro *= weight
                hx.gemm(ro, s_p[:, :, t], hx.transpose(s_w[:, :, read]))
                shares.release()
                second.release()
            if only:
                with shares.consume() as t:
                    hx.copy(s_decay[:, :, t], weight)
                write(kind, hx.cast(ro * weight, dtype), s_w, o, (z, bq, bg, half))
            else:
                write(kind, ro, s_w, work, (place, bq, bg, half))

    return latent
