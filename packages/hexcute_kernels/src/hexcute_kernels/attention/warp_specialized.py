"""o = softmax(scale q k^T) v on Hopper: one warp group loads by TMA, 1 to 3 others multiply.

    s(n) = q k(n)^T runs while p(n-1) v(n-1) does, and p(n-1) v(n-1) under the softmax of s(n)

A block takes BM queries of a head and walks its keys backwards, BN at a time: first the blocks of
keys that a mask cuts, then those that all its queries see, then those a window's left end cuts.
PINGPONG: the groups issue their products in turns, so one multiplies under another's softmax.
LAZY: a row's maximum stays until it is far too low, and so does its result: no decay meanwhile.
GUESS: exponentials take the maximum of the blocks before; where their sums say that it is far too
low, which is rare, the group multiplies and looks again. No maximum is in the way otherwise.
MERGED: the groups in turns run one machine code, which is fetched once for all of them.
"""

from __future__ import annotations

from functools import cache

import hexcute_core as hx
from hexcute_core import f32, i32
from hexcute_kernels.attention.bounds import key_tiles, tile_width
from hexcute_kernels.attention.orders import ORDERS, in_sections, key_head
from hexcute_kernels.attention.ragged import PLACE, name_rows, places, taken
from hexcute_kernels.parts.schedule import await_launch_ahead, back_and_forth
from hexcute_kernels.parts.softmax import (
    LEAST,
    LOG2_E,
    MOST,
    SUMS,
    any_of,
    exponentials,
    hide,
    log_sum,
    raised,
    reciprocal_or_zero,
    rescale,
)

b, hq, hk, sq, sk, lb, lh, ls = hx.dims("b hq hk sq sk lb lh ls")

RESCALES = ("after", "next")
"""When a result takes its decay: after the exponentials, or under the next products."""
REGISTERS = {1: (None, None), 2: (24, 240), 3: (32, 160), 4: (24, 112)}
"""What a thread keeps that loads and one that multiplies, by how many groups do; one needs no more
than a launch gives."""
BUSY = {**REGISTERS, 2: (40, 232), 4: (32, 112)}
"""The same where the loading ones also find their blocks, or gather rows."""


@hx.device
def multiply(rs, q, k, ro, rp, s_v, values, decay, lazy):
    """Issues rs = q k^T, then ro = decay ro + rp v of the keys before; without a decay, 1."""
    hx.gemm(rs, q, k, asynchronous=True, accumulate=False)
    if decay is not None:
        rescale(ro, decay, lazy)
    s = values.wait()
    hx.gemm(ro, rp, s_v[:, :, s], asynchronous=True)


@hx.device
def visible(s, cut, row, column, length, bounds, at_once, capped, scale, cap):
    """Scores of products s: capped, and hidden where the mask cuts the block."""
    if capped:
        s = cap * hx.tanh(s * (scale / cap))
    if cut:
        hide(s, row, column, length, *bounds, at_once=at_once)
    return s


@hx.device
def views(q, k, v, z, h, row, k0, last, BM, BN):
    """The block's queries, and the tiles of keys and values up to number `last`."""
    d, dv = q.shape[-1], v.shape[-1]
    wide_k, wide_v = tile_width(d), tile_width(dv)
    gq = hx.global_view(q[z, row:, h, :], ((BM, wide_k), (hq * d, 1)))
    kh, n = key_head(h, hq, hk), last + 1
    gk = hx.global_view(k[z, k0:, kh, :], ((BN, wide_k, n), (hk * d, 1, BN * hk * d)))
    gv = hx.global_view(v[z, k0:, kh, :], ((wide_v, BN, n), (1, hk * dv, BN * hk * dv)))
    return gq, gk, gv


@hx.device
def block_of(number, count, place, rows, BM, bounded_right, ORDER):
    """Of a block that stays, what `taken` says."""
    at = number
    if ORDER != "rows" or place is not None:
        at = back_and_forth(number, count, hx.gridDim.x)
    if place is not None:
        return at % hq, 0, *taken(place, at // hq)
    row, head = at % rows, at // rows
    if ORDER != "rows":
        row, head = at // (hq * b), at % (hq * b)
    if bounded_right:
        row = rows - 1 - row
    return head % hq, head // hq, 0, sq, 0, sk, row * BM


@cache
def warp_specialized_attention(
    dtype: hx.DType,
    d: int,
    dv: int,
    bounded_right: bool = False,
    bounded_left: bool = False,
    capped: bool = False,
    with_lse: bool = False,
    ragged: bool = False,
) -> hx.Kernel:
    """The kernel for q and k of width d and v of width dv, multiples of 8 and at most 256.

    Query i of sq sees keys up to i + sk - sq + right where `bounded_right`, from i + sk - sq - left
    on where `bounded_left`. `capped`: scores are cap tanh(score / cap). `with_lse`: the logarithm
    of each row's sum goes to lse [b, hq, sq], else that tensor is not touched. `ragged`: b is 1,
    q and k hold sequences one behind the other, and blocks take them as `place` says, in its order.
    """

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
        BM: int = 128,
        BN: int = 128,
        STAGES: int = 2,
        GROUPS: int = 2,
        PINGPONG: bool = True,
        ORDER: str = "rows",
        LAZY: bool = False,
        RESCALE: str = "after",
        GUESS: bool = False,
        STAYS: bool = False,
        QUERIES: int = 1,
        EARLY: bool = False,
        MERGED: bool = False,
    ):
        assert ORDER in ORDERS and RESCALE in RESCALES, f"they are of {ORDERS} and {RESCALES}"
        hx.attrs.cuda.merge_roles = MERGED
        if EARLY:
            await_launch_ahead()
        rows, group = hx.cdiv(sq, BM), hq // hk
        q0, nq, k0, nk, bm = 0, sq, 0, sk, 0
        count = places * hq if ragged else rows * hq * b
        if STAYS:
            pass
        elif ragged:
            hx.attrs.cuda.grid_dim = count
            h, z = hx.blockIdx.x % hq, 0
            q0, nq, k0, nk, bm = taken(place, hx.blockIdx.x // hq)
        elif ORDER == "rows":
            hx.attrs.cuda.grid_dim = rows, hq, b
            row, h, z = hx.blockIdx.x, hx.blockIdx.y, hx.blockIdx.z
        elif ORDER == "heads":
            hx.attrs.cuda.grid_dim = hq, rows, b
            h, row, z = hx.blockIdx.x, hx.blockIdx.y, hx.blockIdx.z
        else:
            hx.attrs.cuda.grid_dim = count
            head_bytes = sk * (d + dv) * dtype.bits // 8
            row, head = in_sections(hx.blockIdx.x, rows, hq * b, group, head_bytes)
            h, z = head % hq, head // hq
        bounds = right, left, bounded_right, bounded_left
        if not STAYS:
            if not ragged:  # The longest rows first.
                bm = (rows - 1 - row if bounded_right else row) * BM
            last, tiles, first_whole, after_whole = key_tiles(bm, nq, nk, *bounds, BM, BN)
            gq, gk, gv = views(q, k, v, z, h, q0 + bm, k0, last, BM, BN)
        s_q = hx.shared_tensor(dtype, (BM, max(wide_k, wide_v), QUERIES))
        s_k = hx.shared_tensor(dtype, (BN, wide_k, STAGES))
        s_v = hx.shared_tensor(dtype, (wide_v, BN, STAGES))
        queries, keys, values = hx.pipeline(QUERIES), hx.pipeline(STAGES), hx.pipeline(STAGES)
        teams = GROUPS if PINGPONG else 1
        high = BM // teams
        at_once = GUESS and not ragged and not bounded_left
        loading, multiplying = (BUSY if ragged or STAYS else REGISTERS)[GROUPS]
        if teams > 1:
            order = hx.turns(teams)
        if ragged:
            seen = hx.shared_tensor(i32, (BN,))

        with hx.warp_groups_producer(registers=loading):
            for number in hx.persistent(count) if STAYS else (0,):
                if STAYS:
                    h, z, q0, nq, k0, nk, bm = block_of(
                        number, count, place, rows, BM, bounded_right, ORDER
                    )
                    last, tiles, _, _ = key_tiles(bm, nq, nk, *bounds, BM, BN)
                    gq, gk, gv = views(q, k, v, z, h, q0 + bm, k0, last, BM, BN)
                with queries.produce() as s:
                    hx.copy(gq, s_q[:, :wide_k, s])
                for i in range(tiles):
                    with keys.produce() as s:
                        hx.copy(gk[:, :, last - i], s_k[:, :, s])
                    if ragged and (last - i + 1) * BN > nk:
                        # What follows may be anything, and 0 times that no number.
                        column = (last - i) * BN
                        hx.sync_role()
                        name_rows(seen, column, nk)
                        hx.sync_role()
                        kh = key_head(h, hq, hk)
                        there = v[z, k0 + column :, kh, :]
                        named = hx.global_view(there, ((wide_v, BN), (1, seen)))
                        with values.produce() as s:
                            hx.copy(named, s_v[:, :, s])
                    else:
                        with values.produce() as s:
                            hx.copy(gv[:, :, last - i], s_v[:, :, s])

        for me in hx.static_range(teams):
            row_step, sum_step = hq * dv, 1
            if ragged:
                row_step = sum_step = hx.shared_tensor(i32, (high,))
            with hx.warp_groups_consumer(GROUPS // teams, registers=multiplying):
                for number in hx.persistent(count) if STAYS else (0,):
                    if STAYS:
                        h, z, q0, nq, k0, nk, bm = block_of(
                            number, count, place, rows, BM, bounded_right, ORDER
                        )
                        last, tiles, first_whole, after_whole = key_tiles(
                            bm, nq, nk, *bounds, BM, BN
                        )
                    stretches = [(True, 1, first_whole), (False, first_whole, after_whole)]
                    if bounded_left:
                        stretches.append((True, after_whole, tiles))
                    top = bm + me * high
                    ro = hx.register_tensor(f32, (high, wide_v))
                    rs = hx.register_tensor(f32, (high, BN))
                    m = hx.register_tensor(f32, (high, 1))
                    sums = hx.register_tensor(f32, (high, SUMS))
                    hx.fill(ro, 0.0)
                    hx.fill(m, LEAST)
                    hx.fill(sums, 0.0)
                    factor = (1.0 if capped else scale) * LOG2_E
                    slot = queries.wait()
                    mine = s_q[me * high : (me + 1) * high, :wide_k, slot]
                    if tiles > 0:
                        with keys.consume() as s:
                            hx.gemm(rs, mine, s_k[:, :, s], accumulate=False)
                        corner = top + nk - nq, last * BN, nk, bounds, at_once
                        rs = visible(rs, True, *corner, capped, scale, cap)
                        m, decay = raised(rs, m, factor)
                        p = exponentials(rs, m, factor)
                        sums = hx.sum(p, 1, keep=SUMS)
                        rp = hx.cast(p, dtype)
                        for cut, start, stop in stretches:
                            for i in range(start, stop):
                                pending = decay if RESCALE == "next" and not GUESS else None
                                k_now = s_k[:, :, keys.wait()]
                                v_now = s_v, values
                                if teams > 1:
                                    with order.turn(me):
                                        multiply(rs, mine, k_now, ro, rp, *v_now, pending, LAZY)
                                else:
                                    multiply(rs, mine, k_now, ro, rp, *v_now, pending, LAZY)
                                hx.wait_gemm(1)
                                corner = top + nk - nq, (last - i) * BN, nk, bounds, at_once
                                rs = visible(rs, cut, *corner, capped, scale, cap)
                                if GUESS:
                                    p = exponentials(rs, m, factor)
                                    new = hx.sum(p, 1, keep=SUMS)
                                    hx.wait_gemm(0)
                                    if any_of(new > MOST):
                                        hx.gemm(rs, mine, k_now, accumulate=False)
                                        rs = visible(rs, cut, *corner, capped, scale, cap)
                                        m, decay = raised(rs, m, factor)
                                        ro *= decay
                                        sums *= decay
                                        p = exponentials(rs, m, factor)
                                        new = hx.sum(p, 1, keep=SUMS)
                                    sums += new
                                    keys.release()
                                else:
                                    keys.release()
                                    m, decay = raised(rs, m, factor, LAZY)
                                    p = exponentials(rs, m, factor)
                                    sums = sums * decay + hx.sum(p, 1, keep=SUMS)
                                    hx.wait_gemm(0)
                                values.release()
                                rp = hx.cast(p, dtype)
                                if RESCALE == "after" and not GUESS:
                                    rescale(ro, decay, LAZY)
                        if RESCALE == "next" and not GUESS:
                            rescale(ro, decay, LAZY)
                        with values.consume() as s:
                            hx.gemm(ro, rp, s_v[:, :, s])
                    total = hx.sum(sums, 1)
                    if ragged:
                        name_rows(row_step, top, nq)
                        hx.sync_role()
                    if with_lse:
                        gl = hx.global_view(lse[z, h, q0 + top :], ((high, 1), (sum_step, 1)))
                        hx.copy(log_sum(m, total, factor), gl)
                    # The queries have been read: their memory takes the result on its way out.
                    so = s_q[me * high : (me + 1) * high, :wide_v, slot]
                    hx.sync_role()
                    hx.copy(hx.cast(ro * reciprocal_or_zero(total), dtype), so)
                    hx.sync_role()
                    steps = (high, wide_v), (row_step, 1)
                    hx.copy(so, hx.global_view(o[z, q0 + top :, h, :], steps))
                    queries.release()

    return attention
