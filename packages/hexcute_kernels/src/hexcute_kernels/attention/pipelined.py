"""o = softmax(scale q k^T) v by mma.sync, for every GPU and any alignment.

    the copy of v runs under s = q k^T, the copy of the next k under the softmax and p v

A block of WARPS warps takes BM queries of a head, each warp whole rows, and walks its keys
backwards, BN at a time. Queries stay in registers.
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
    hide,
    log_sum,
    online_softmax,
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
    ):
        rows = hx.cdiv(sq, BM)
        hx.attrs.cuda.block_dim = 32 * WARPS
        q0, nq, k0, nk, bm = 0, sq, 0, sk, 0
        row_step, sum_step = hq * dv, 1
        if ragged:
            hx.attrs.cuda.grid_dim = places * hq
            h, z = hx.blockIdx.x % hq, 0
            q0, nq, k0, nk, bm = taken(place, hx.blockIdx.x // hq)
            row_step = sum_step = hx.shared_tensor(i32, (BM,))
            name_rows(row_step, bm, nq)
        else:
            hx.attrs.cuda.grid_dim = rows, hq, b
            row, h, z = hx.blockIdx.x, hx.blockIdx.y, hx.blockIdx.z
            if bounded_right:  # The longest rows first.
                row = rows - 1 - row
            bm = row * BM
        shift = nk - nq
        last, tiles, first, after_whole = key_tiles(
            bm, nq, nk, right, left, bounded_right, bounded_left, BM, BN
        )
        bounds = right, left, bounded_right, bounded_left
        kh, n = h // (hq // hk), last + 1
        gq = hx.global_view(q[z, q0 + bm :, h, :], ((BM, wide_k), (hq * d, 1)))
        gk = hx.global_view(k[z, k0:, kh, :], ((BN, wide_k, n), (hk * d, 1, BN * hk * d)))
        gv = hx.global_view(v[z, k0:, kh, :], ((wide_v, BN, n), (1, hk * dv, BN * hk * dv)))
        s_q = hx.shared_tensor(dtype, (BM, wide_k))
        s_k, s_v = hx.shared_tensor(dtype, (BN, wide_k)), hx.shared_tensor(dtype, (wide_v, BN))
        rq = hx.register_tensor(dtype, (BM, wide_k))
        ro = hx.register_tensor(f32, (BM, wide_v))
        m, total = hx.register_tensor(f32, (BM, 1)), hx.register_tensor(f32, (BM, 1))
        hx.fill(ro, 0.0)
        hx.fill(m, LEAST)
        hx.fill(total, 0.0)
        factor = (1.0 if capped else scale) * LOG2_E
        hx.copy(gq, s_q)
        if tiles > 0:
            hx.copy(gk[:, :, last], s_k)
        hx.cp_async_commit()
        hx.cp_async_wait(0)
        hx.syncthreads()
        hx.copy(s_q, rq)
        for i in range(tiles):
            hx.copy(gv[:, :, last - i], s_v)
            hx.cp_async_commit()
            rk, rs = hx.register_tensor(dtype, (BN, wide_k)), hx.register_tensor(f32, (BM, BN))
            hx.copy(s_k, rk)
            hx.fill(rs, 0.0)
            hx.gemm(rs, rq, rk, warps=(WARPS, 1))
            hx.syncthreads()
            if i + 1 < tiles:
                hx.copy(gk[:, :, last - i - 1], s_k)
            hx.cp_async_commit()
            if capped:
                rs = cap * hx.tanh(rs * (scale / cap))
            if i <= first or i >= after_whole:
                hide(rs, bm + shift, (last - i) * BN, nk, *bounds)
            p, decay, m, total = online_softmax(rs, m, total, factor)
            ro *= decay
            hx.cp_async_wait(1)
            hx.syncthreads()
            rv = hx.register_tensor(dtype, (wide_v, BN))
            hx.copy(s_v, rv)
            if ragged and (last - i + 1) * BN > nk:
                # What follows may be anything, and 0 times that no number.
                for c, j in hx.elements(rv):
                    if (last - i) * BN + j >= nk:
                        rv[c, j] = 0.0
            hx.gemm(ro, hx.cast(p, dtype), rv, warps=(WARPS, 1))
            hx.cp_async_wait(0)
            hx.syncthreads()
        if with_lse:
            gl = hx.global_view(lse[z, h, q0 + bm :], ((BM, 1), (sum_step, 1)))
            hx.copy(log_sum(m, total, factor), gl)
        go = hx.global_view(o[z, q0 + bm :, h, :], ((BM, wide_v), (row_step, 1)))
        through_shared(ro * reciprocal_or_zero(total), go)

    return attention
