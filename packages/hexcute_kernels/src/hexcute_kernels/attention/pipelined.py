"""o = softmax(scale q k^T) v by mma.sync, for every GPU and any alignment.

    the copies of the next k and v run under s = q k^T, the softmax and p v

A block of WARPS warps takes BM queries of a head, each warp whole rows, and walks its keys
backwards, BN at a time: first those that a mask may cut, then the others. Its warps meet once for
every BN keys, and each thread sums its own columns until the end. Queries are HELD in registers or,
where these are few, read again for every BN keys.
"""

from __future__ import annotations

from functools import cache

import hexcute_core as hx
from hexcute_core import f32, i32
from hexcute_kernels.attention.bounds import key_tiles, tile_width
from hexcute_kernels.attention.ragged import PLACE, name_rows, places, taken
from hexcute_kernels.parts.epilogue import through_shared
from hexcute_kernels.parts.softmax import (
    LEAST,
    LOG2_E,
    SUMS,
    exponentials,
    hide,
    log_sum,
    raised,
    reciprocal_or_zero,
)

b, hq, hk, sq, sk, lb, lh, ls = hx.dims("b hq hk sq sk lb lh ls")


@cache
def pipelined_attention(
    dtype: hx.DType,
    d: int,
    dv: int,
    bounded_right: bool = False,
    bounded_left: bool = False,
    capped: bool = False,
    with_lse: bool = False,
    ragged: bool = False,
) -> hx.Kernel:
    """The kernel for q and k of width d and v of width dv; parameters as those of
    `warp_specialized_attention`."""
    wide_k, wide_v = tile_width(d), tile_width(dv)

    @hx.kernel
    def attention(
        q: dtype[b, sq, hq, d],
        k: dtype[b, sk, hk, d],
        v: dtype[b, sk, hk, dv],
        o: dtype[b, sq, hq, dv],
        lse: f32[lb, lh, ls],
        place: i32[places, PLACE] if ragged else None,
        scale: f32,
        right: i32,
        left: i32,
        cap: f32,
        *,
        BM: int = 64,
        BN: int = 64,
        WARPS: int = 4,
        HELD: bool = True,
    ):
        rows = hx.cdiv(sq, BM)
        hx.attrs.cuda.block_dim = 32 * WARPS
        q0, nq, k0, nk, bm = 0, sq, 0, sk, 0
        row_step, sum_step = hq * dv, 1
        if ragged:
            hx.attrs.cuda.grid_dim = places * hq
            z, (h, q0, nq, k0, nk, bm) = 0, taken(place, hx.blockIdx.x, hq, BM, False)
            row_step = sum_step = hx.shared_tensor(i32, (BM,))
            name_rows(row_step, bm, nq)
            if not HELD:
                # Without keys no other barrier comes before the names are read.
                hx.syncthreads()
        else:
            hx.attrs.cuda.grid_dim = rows, hq, b
            row, h, z = hx.blockIdx.x, hx.blockIdx.y, hx.blockIdx.z
            if bounded_right:  # The longest rows first.
                row = rows - 1 - row
            bm = row * BM
        shift = nk - nq
        last, tiles, first, after_whole, _ = key_tiles(
            bm, nq, nk, right, left, bounded_right, bounded_left, BM, BN
        )
        bounds = right, left, bounded_right, bounded_left
        kh, n = h // (hq // hk), last + 1
        gq = hx.global_view(q[z, q0 + bm :, h, :], ((BM, wide_k), (hq * d, 1)))
        gk = hx.global_view(k[z, k0:, kh, :], ((BN, wide_k, n), (hk * d, 1, BN * hk * d)))
        gv = hx.global_view(v[z, k0:, kh, :], ((wide_v, BN, n), (1, hk * dv, BN * hk * dv)))
        s_q = hx.shared_tensor(dtype, (BM, wide_k))
        s_k = hx.shared_tensor(dtype, (BN, wide_k, 2))
        s_v = hx.shared_tensor(dtype, (wide_v, BN, 2))
        ro, m, sums = (hx.register_tensor(f32, (BM, n)) for n in (wide_v, 1, SUMS))
        for tile, value in ((ro, 0.0), (m, LEAST), (sums, 0.0)):
            hx.fill(tile, value)
        factor = (1.0 if capped else scale) * LOG2_E
        hx.copy(gq, s_q)
        if tiles > 0:
            hx.copy(gk[:, :, last], s_k[:, :, 0])
            hx.copy(gv[:, :, last], s_v[:, :, 0])
        hx.cp_async_commit()
        rq = hx.register_tensor(dtype, (BM, wide_k)) if HELD else None
        if HELD:
            hx.cp_async_wait(0)
            hx.syncthreads()
            hx.copy(s_q, rq)
        stretches = [(True, 0, hx.minimum(first + 1, tiles)), (False, first + 1, after_whole)]
        stretches += [(True, after_whole, tiles)] if bounded_left else []
        for cut, start, stop in stretches:
            for i in range(start, stop):
                here = i % 2
                hx.cp_async_wait(0)
                # All have read what the copies below replace.
                hx.syncthreads()
                if i + 1 < tiles:
                    hx.copy(gk[:, :, last - i - 1], s_k[:, :, (i + 1) % 2])
                    hx.copy(gv[:, :, last - i - 1], s_v[:, :, (i + 1) % 2])
                    hx.cp_async_commit()
                rs = hx.register_tensor(f32, (BM, BN))
                hx.fill(rs, 0.0)
                if HELD:
                    rk = hx.register_tensor(dtype, (BN, wide_k))
                    hx.copy(s_k[:, :, here], rk)
                    hx.gemm(rs, rq, rk, warps=(WARPS, 1))
                else:
                    for at in hx.static_range(0, wide_k, 16):
                        q_at, k_at = (hx.register_tensor(dtype, (n, 16)) for n in (BM, BN))
                        hx.copy(s_q[:, at : at + 16], q_at)
                        hx.copy(s_k[:, at : at + 16, here], k_at)
                        hx.gemm(rs, q_at, k_at, warps=(WARPS, 1))
                if capped:
                    rs = cap * hx.tanh(rs * (scale / cap))
                if cut:
                    hide(rs, bm + shift, (last - i) * BN, nk, *bounds)
                m, decay = raised(rs, m, factor)
                p, new = exponentials(rs, m, factor)
                sums = sums * decay + new
                ro *= decay
                rv = hx.register_tensor(dtype, (wide_v, BN))
                hx.copy(s_v[:, :, here], rv)
                if ragged and (last - i + 1) * BN > nk:
                    # What follows may be anything, and 0 times that no number.
                    for c, j in hx.elements(rv):
                        if (last - i) * BN + j >= nk:
                            rv[c, j] = 0.0
                hx.gemm(ro, hx.cast(p, dtype), rv, warps=(WARPS, 1))
        total = hx.sum(sums, 1)
        if with_lse:
            gl = hx.global_view(lse[z, h, q0 + bm :], ((BM, 1), (sum_step, 1)))
            hx.copy(log_sum(m, total, factor), gl)
        go = hx.global_view(o[z, q0 + bm :, h, :], ((BM, wide_v), (row_step, 1)))
        through_shared(ro * reciprocal_or_zero(total), go)

    return attention
