"""o = softmax(scale q k^T) v for the last few queries of each sequence, against a cache of keys.

    split s of a sequence:  m_s = max of its scores,  l_s = sum of 2^((score - m_s) factor),
                            o_s = sum of 2^((score - m_s) factor) v
    o = (sum over s of w_s o_s) / (sum over s of w_s l_s),   w_s = 2^((m_s - max m) factor)

The bytes of the cache bound it, so splits of the keys give every multiprocessor its share of them,
and each is read once: the queries' heads that share a head of keys, and all queries of a sequence,
are rows of one tile. `decoding_attention` leaves each split's o, m and l in a workspace, where
`combine` finds them; an only split's result needs neither.
"""

from __future__ import annotations

from functools import cache

import hexcute_core as hx
from hexcute_core import f32, i32
from hexcute_kernels.attention.bounds import tile_width
from hexcute_kernels.parts.softmax import HIDDEN, LEAST, LOG2_E, online_softmax, reciprocal_or_zero

b, sq, hk, g, sk, splits, rows = hx.dims("b sq hk g sk splits rows")

ROWS = 16
"""Rows of the smallest tile: a Tensor Core's, one warp's."""
STEP = 64
"""Columns of queries and keys at a time, where heads are wide."""
SUMS = 4
"""Columns of the workspace behind a split's result: m, l and what keeps rows aligned."""


def workspace_width(d: int) -> int:
    """Columns of the workspace for heads of width d."""
    return tile_width(d) + SUMS


@hx.device
def number(x, at):
    """x[at], which all threads read."""
    cell, value = hx.register_tensor(i32, (1,)), 0
    hx.copy(hx.global_view(x[at:], ((1,), (1,))), cell)
    for (i,) in hx.elements(cell):
        value = cell[i]
    return value


@hx.device
def portion(split, share, length, BN):
    """(begin, tiles): the tiles of a split that takes `share` of those that hold `length` keys."""
    begin = split * share
    return begin, hx.maximum(hx.minimum(hx.cdiv(length, BN) - begin, share), 0)


@hx.device
def in_registers(tile):
    """The tile, copied to registers."""
    r = hx.register_tensor(tile.dtype, tile.shape)
    hx.copy(tile, r)
    return r


@hx.device
def add_scores(rs, rq, keys, warps):
    """rs += queries times keys, which lie in shared memory."""
    hx.gemm(rs, rq, in_registers(keys), warps=(warps, 1))


@hx.device
def hide_later(s, first, group, column, length, shift):
    """Hides keys from `length` on of scores s, and those behind each row's own query: row r is
    query `first` + r // group, beside key `shift` more."""
    for i, j in hx.elements(s):
        if column + j >= hx.minimum(length, first + i // group + shift + 1):
            s[i, j] = HIDDEN


@cache
def decoding_attention(
    dtype: hx.DType,
    d: int,
    group: int,
    queries: int,
    *,
    whole: bool = True,
    ragged: bool = False,
    alone: bool = False,
) -> hx.Kernel:
    """The kernel for heads of width d and tiles of `group` heads times `queries`, together a
    multiple of 16 rows.

    `whole`: one tile holds all heads and queries that share a head of keys. `ragged`: sequences
    have `lengths` of their own, and what the cache holds behind them may be anything. `alone`:
    there is one split, whose result goes to `o`. A split takes `share` tiles of BN keys, or where
    sequences are ragged its part of each one's.
    """
    wide, width, high = tile_width(d), workspace_width(d), group * queries
    warps = high // ROWS
    # Beside the results of wide heads registers have no room for whole queries and keys.
    narrow = wide <= 2 * STEP
    lengths_type = i32[b] if ragged else None
    work_type = None if alone else f32[splits, b, sq, hk, g, width]
    o_type = dtype[b, sq, hk, g, d] if alone else None

    @hx.kernel
    def decode(
        q: dtype[b, sq, hk, g, d],
        k: dtype[b, sk, hk, d],
        v: dtype[b, sk, hk, d],
        lengths: lengths_type,
        work: work_type,
        o: o_type,
        scale: f32,
        share: i32,
        *,
        BN: int = 32,
        STAGES: int = 3,
    ):
        heads = hx.cdiv(g, group)
        parts = 1 if whole else heads * hx.cdiv(sq, queries)
        hx.attrs.cuda.grid_dim = b * parts, hk, 1 if alone else splits
        hx.attrs.cuda.block_dim = 32 * warps
        z, kh, split, bg, bq = hx.blockIdx.x, hx.blockIdx.y, hx.blockIdx.z, 0, 0
        if not whole:
            part, z = z % parts, z // parts
            bg, bq = part % heads * group, part // heads * queries
        length = sk
        if ragged:
            length = hx.maximum(hx.minimum(number(lengths, z), sk), 0)
            share = hx.cdiv(length, BN)
            if not alone:
                share = hx.cdiv(share, splits)
        begin, tiles = portion(split, share, length, BN)
        at, shift = begin * BN, length - sq
        ordered = (group, queries)
        gq = hx.global_view(q[z, bq:, kh, bg:, :], ((ordered, wide), ((d, hk * g * d), 1)))
        gk = hx.global_view(k[z, at:, kh, :], ((BN, wide, tiles), (hk * d, 1, BN * hk * d)))
        gv = hx.global_view(v[z, at:, kh, :], ((wide, BN, tiles), (1, hk * d, BN * hk * d)))
        s_q = hx.shared_tensor(dtype, (high, wide))
        s_k = hx.shared_tensor(dtype, (BN, wide, STAGES))
        s_v = hx.shared_tensor(dtype, (wide, BN, STAGES))
        ro = hx.register_tensor(f32, (high, wide))
        m, total = hx.register_tensor(f32, (high, 1)), hx.register_tensor(f32, (high, 1))
        hx.fill(ro, 0.0)
        hx.fill(m, LEAST)
        hx.fill(total, 0.0)
        factor = scale * LOG2_E
        hx.copy(gq, s_q)
        for s in hx.static_range(STAGES - 1):
            if s < tiles:
                hx.copy(gk[:, :, s], s_k[:, :, s])
                hx.copy(gv[:, :, s], s_v[:, :, s])
            hx.cp_async_commit()
        hx.cp_async_wait(STAGES - 2)
        hx.syncthreads()
        rq = in_registers(s_q) if narrow else None
        read, write = 0, STAGES - 1
        for i in range(tiles):
            hx.cp_async_wait(STAGES - 2)
            hx.syncthreads()
            if i + STAGES - 1 < tiles:
                hx.copy(gk[:, :, i + STAGES - 1], s_k[:, :, write])
                hx.copy(gv[:, :, i + STAGES - 1], s_v[:, :, write])
            hx.cp_async_commit()
            rs = hx.register_tensor(f32, (high, BN))
            hx.fill(rs, 0.0)
            if narrow:
                add_scores(rs, rq, s_k[:, :, read], warps)
            else:
                for c in hx.static_range(0, wide, STEP):
                    part = slice(c, min(c + STEP, wide))
                    add_scores(rs, in_registers(s_q[:, part]), s_k[:, part, read], warps)
            column = at + i * BN
            rv = in_registers(s_v[:, :, read])
            if column + BN > bq + shift + 1:
                hide_later(rs, bq, group, column, length, shift)
                if ragged:
                    # What lies behind the end may be anything, and 0 times that no number.
                    for c, j in hx.elements(rv):
                        if column + j >= length:
                            rv[c, j] = 0.0
            p, decay, m, total = online_softmax(rs, m, total, factor)
            ro *= decay
            hx.gemm(ro, hx.cast(p, dtype), rv, warps=(warps, 1))
            read = hx.select(read == STAGES - 1, 0, read + 1)
            write = hx.select(write == STAGES - 1, 0, write + 1)
        if alone:
            go = hx.global_view(o[z, bq:, kh, bg:, :], ((ordered, wide), ((d, hk * g * d), 1)))
            hx.copy(hx.cast(ro * reciprocal_or_zero(total), dtype), go)
        else:
            for column, columns, result in ((0, wide, ro), (wide, 1, m), (wide + 1, 1, total)):
                there = work[split, z, bq:, kh, bg:, column:]
                steps = ((width, hk * g * width), 1)
                hx.copy(result, hx.global_view(there, ((ordered, columns), steps)))

    return decode


@cache
def combine(dtype: hx.DType, d: int) -> hx.Kernel:
    """The kernel that makes results of the splits of `decoding_attention`: a row a block of WARPS
    warps, CHUNK splits at a time."""
    wide, width = tile_width(d), workspace_width(d)

    @hx.kernel
    def combined(
        work: f32[splits, rows, width],
        o: dtype[rows, d],
        scale: f32,
        *,
        CHUNK: int = 16,
        WARPS: int = 1,
    ):
        hx.attrs.cuda.grid_dim = rows
        hx.attrs.cuda.block_dim = 32 * WARPS
        row, chunks = hx.blockIdx.x, hx.cdiv(splits, CHUNK)
        factor = scale * LOG2_E
        step = rows * width
        gp = hx.global_view(work[:, row, :], ((CHUNK, wide, chunks), (step, 1, CHUNK * step)))
        gm, gt = (
            hx.global_view(work[:, row, column:], ((CHUNK, 1, chunks), (step, 1, CHUNK * step)))
            for column in (wide, wide + 1)
        )
        ro = hx.register_tensor(f32, (1, wide))
        m, total = hx.register_tensor(f32, (1, 1)), hx.register_tensor(f32, (1, 1))
        hx.fill(ro, 0.0)
        hx.fill(m, LEAST)
        hx.fill(total, 0.0)
        for c in range(chunks):
            rm, rt = hx.register_tensor(f32, (CHUNK, 1)), hx.register_tensor(f32, (CHUNK, 1))
            rp = hx.register_tensor(f32, (CHUNK, wide))
            hx.copy(gm[:, :, c], rm)
            hx.copy(gt[:, :, c], rt)
            hx.copy(gp[:, :, c], rp)
            for i, j in hx.elements(rm):
                if c * CHUNK + i >= splits:
                    rm[i, j] = LEAST
            now = hx.maximum(m, hx.max(rm, 0))
            weights = hx.exp2((rm - now) * factor)
            decay = hx.exp2((m - now) * factor)
            ro = ro * decay + hx.sum(rp * weights, 0)
            total = total * decay + hx.sum(rt * weights, 0)
            m = now
        result = hx.cast(ro * reciprocal_or_zero(total), dtype)
        hx.copy(result, hx.global_view(o[row:, :], ((1, wide), (d, 1))))

    return combined
