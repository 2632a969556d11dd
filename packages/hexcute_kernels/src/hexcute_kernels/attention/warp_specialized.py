"""o = softmax(scale q k^T) v on Hopper: one warp group loads by TMA, 1 to 4 others multiply.

    s(n) = q k(n)^T runs while p(n-1) v(n-1) does, and p(n-1) v(n-1) under the softmax of s(n)

A block takes BM queries of a head and walks its keys backwards, BN at a time: first a block of keys
that all its queries see, then those that a mask cuts, then the others. The groups issue their
products in turns, so one multiplies under another's softmax, and run one machine code.

SKIP: behind the first block a group passes over those that the mask hides from all its queries, but
over fewer than there are slots: their values stay until those of the first block are multiplied.

GUESS: exponentials take the maximum of the blocks before, so that none is in the way, but where a
mask cuts. Where they add up to more than TIMES what is summed already, which is rare, the group
multiplies and looks again. A key that outweighs all others then has the weight 1, as with exact
maxima, which no rounding touches, and no weight leaves a type's range.
"""

from __future__ import annotations

from functools import cache

import hexcute_core as hx
from hexcute_core import f32, i32
from hexcute_kernels.attention.bounds import key_tiles, tile_width
from hexcute_kernels.attention.orders import ORDERS, key_head
from hexcute_kernels.attention.ragged import PLACE, name_rows, places, taken
from hexcute_kernels.parts.schedule import await_launch_ahead
from hexcute_kernels.parts.softmax import (
    LEAST,
    LOG2_E,
    MOST,
    SUMS,
    TIMES,
    any_of,
    exponentials,
    hide,
    log_sum,
    raised,
    reciprocal_or_zero,
)

b, hq, hk, sq, sk, lb, lh, ls = hx.dims("b hq hk sq sk lb lh ls")

REGISTERS = {1: (24, 232), 2: (24, 240), 3: (32, 160), 4: (24, 112)}
"""What a thread keeps that loads and one that multiplies, by how many groups do; where one does,
two blocks share a multiprocessor, but of heads whose products alone take more."""
BUSY = {1: (40, 216), 2: (40, 232), 3: (32, 160), 4: (32, 112)}
"""The same where the loading ones also find their blocks, or gather rows."""


@hx.device
def visible(s, cut, capped, scale, cap, *places):
    """Scores of products s: capped, and hidden where the mask cuts the block."""
    s = cap * hx.tanh(s * (scale / cap)) if capped else s
    if cut:
        hide(s, *places)
    return s


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
        q: dtype[b, sq, hq, d], k: dtype[b, sk, hk, d], v: dtype[b, sk, hk, dv],
        o: dtype[b, sq, hq, dv], lse: f32[lb, lh, ls],
        place: i32[places, PLACE] if ragged else None, scale: f32, right: i32, left: i32, cap: f32,
        *, BM: int = 128, BN: int = 128, STAGES: int = 2, GROUPS: int = 2, ORDER: str = "rows",
        GUESS: bool = False, EARLY: bool = False, AHEAD: bool = False, SKIP: bool = False,
    ):  # fmt: skip
        hx.attrs.cuda.merge_roles = True
        hx.attrs.cuda.min_blocks = 2 if GROUPS == 1 and wide_v <= 192 else 1
        if EARLY and ragged:
            await_launch_ahead()
        by_head, bounds = ORDERS[ORDER], (right, left, bounded_right, bounded_left)
        rows, high, q0, nq, k0, nk = hx.cdiv(sq, BM), BM // GROUPS, 0, sq, 0, sk
        if ragged:
            hx.attrs.cuda.grid_dim = places * hq
            z, (h, q0, nq, k0, nk, bm) = 0, taken(place, hx.blockIdx.x, hq, BM, by_head)
        else:
            row, h = (hx.blockIdx.x, hx.blockIdx.y) if by_head else (hx.blockIdx.y, hx.blockIdx.x)
            hx.attrs.cuda.grid_dim = (rows, hq, b) if by_head else (hq, rows, b)
            # The longest rows first.
            bm, z = (rows - 1 - row if bounded_right else row) * BM, hx.blockIdx.z
        last, tiles, first, after, whole = key_tiles(bm, nq, nk, *bounds, BM, BN, GUESS)
        kh, count = key_head(h, hq, hk), last + 1
        gq = hx.global_view(q[z, q0 + bm :, h, :], ((BM, wide_k), (hq * d, 1)))
        gk = hx.global_view(k[z, k0:, kh, :], ((BN, wide_k, count), (hk * d, 1, BN * hk * d)))
        gv = hx.global_view(v[z, k0:, kh, :], ((wide_v, BN, count), (1, hk * dv, BN * hk * dv)))
        for view in (gq, gk[:, :, last - first], gv[:, :, last - first]) if AHEAD else ():
            hx.prefetch(view)
        if EARLY and not ragged:
            await_launch_ahead()
        s_q = hx.shared_tensor(dtype, (BM, max(wide_k, wide_v)))
        s_k, s_v = (hx.shared_tensor(dtype, (*n, STAGES)) for n in ((BN, wide_k), (wide_v, BN)))
        keys, values, order = hx.pipeline(STAGES), hx.pipeline(STAGES), hx.turns(GROUPS)
        queries = [hx.pipeline(1) for _ in range(GROUPS)]
        seen, there = (hx.shared_tensor(i32, (n,)) if ragged else None for n in (BN, BM))

        with hx.warp_groups_producer(registers=(BUSY if ragged else REGISTERS)[GROUPS][0]):
            for i in range(tiles):
                # Tile `first` before those that a mask cuts.
                n = last - hx.where(i > first, i, hx.where(i == 0, first, i - 1))
                for at in hx.static_range(0, BM, high):
                    if i == 0:
                        with queries[at // high].produce():
                            hx.copy(gq[at : at + high, :], s_q[at : at + high, :wide_k])
                    if at == 0:  # The first group begins without what the others wait for.
                        with keys.produce() as s:
                            hx.copy(gk[:, :, n], s_k[:, :, s])
                if ragged and (n + 1) * BN > nk:
                    # What follows may be anything, and 0 times that no number.
                    name_rows(seen, n * BN, nk)
                    hx.sync_role()
                    rest = v[z, k0 + n * BN :, key_head(h, hq, hk), :]
                    with values.produce() as s:
                        hx.copy(hx.global_view(rest, ((wide_v, BN), (1, seen))), s_v[:, :, s])
                else:
                    with values.produce() as s:
                        hx.copy(gv[:, :, n], s_v[:, :, s])

        for me in hx.static_range(GROUPS):
            with hx.warp_groups_consumer(1, registers=(BUSY if ragged else REGISTERS)[GROUPS][1]):
                top, factor = bm + me * high, (1.0 if capped else scale) * LOG2_E
                own, wide = key_tiles(top, nq, nk, *bounds, high, BN)[0], (wide_v, BN, 1, SUMS)
                skip = hx.clamp(last - own, 0, hx.clamp(first - 1, 0, STAGES - 1)) if SKIP else 0
                cuts = [(True, skip, first), (False, first + 1, after), (True, after, tiles)]
                ro, rs, m, sums = (hx.register_tensor(f32, (high, n)) for n in wide)
                for tile, value in ((ro, 0.0), (m, LEAST), (sums, 0.0)):
                    hx.fill(tile, value)
                mine, so = (s_q[me * high : (me + 1) * high, :n] for n in (wide_k, wide_v))
                if tiles > 0:
                    with queries[me].consume():
                        with keys.consume() as s:
                            hx.gemm(rs, mine, s_k[:, :, s], accumulate=False)
                        caps = capped, scale, cap, top + nk - nq
                        rs = visible(rs, not whole, *caps, (last - first) * BN, nk, *bounds)
                        m, decay = raised(rs, m, factor)
                        p, sums = exponentials(rs, m, factor)
                        rp = hx.cast(p, dtype)
                        for _ in range(skip):
                            with order.turn(me), keys.consume():
                                hx.sync_role()  # One warp frees the slot for all.
                        for cut, start, stop in cuts[: 2 + bounded_left]:
                            limit = hx.minimum(TIMES * sums, MOST)
                            for i in range(start, stop):
                                k_now = s_k[:, :, keys.wait()]
                                with order.turn(me):
                                    hx.gemm(rs, mine, k_now, asynchronous=True, accumulate=False)
                                    if not GUESS:
                                        ro *= decay
                                    hx.gemm(ro, rp, s_v[:, :, values.wait()], asynchronous=True)
                                hx.wait_gemm(1)
                                if not GUESS:
                                    keys.release()
                                corner = *caps, (last - i) * BN, nk, *bounds
                                rs = visible(rs, cut, *corner)
                                if cut or not GUESS:
                                    m, decay = raised(rs, m, factor)
                                    sums *= decay
                                if not GUESS:  # The next values come sooner.
                                    hx.wait_gemm(0)
                                    values.release()
                                p, new = exponentials(rs, m, factor)
                                hx.wait_gemm(0)
                                if cut and GUESS:
                                    ro *= decay
                                elif GUESS and any_of(new > limit):
                                    limit = hx.minimum(TIMES * sums, MOST)
                                    if any_of(new > limit):
                                        hx.gemm(rs, mine, k_now, accumulate=False)
                                        rs = visible(rs, cut, *corner)
                                        m, decay = raised(rs, m, factor)
                                        ro, sums, limit = ro * decay, sums * decay, limit * decay
                                        p, new = exponentials(rs, m, factor)
                                for pipe in (keys, values) if GUESS else ():
                                    pipe.release()
                                sums += new
                                rp = hx.cast(p, dtype)
                                for _ in range(hx.where(i == skip, skip, 0) if cut else 0):
                                    with values.consume():
                                        hx.sync_role()
                        if not GUESS:
                            ro *= decay
                        hx.gemm(ro, rp, s_v[:, :, values.wait()], asynchronous=True)
                total = hx.sum(sums, 1)
                share = reciprocal_or_zero(total)
                hx.wait_gemm(0)
                if ragged:
                    names = there[me * high : (me + 1) * high]
                    name_rows(names, top, nq)
                # The queries have been read: their memory takes the result on its way out.
                hx.sync_role()
                if with_lse:
                    steps = (high, 1), (names if ragged else 1, 1)
                    hx.copy(log_sum(m, total, factor), hx.global_view(lse[z, h, q0 + top :], steps))
                hx.copy(hx.cast(ro * share, dtype), so)
                hx.sync_role()
                rest = o[z, q0 + top :, h, :]
                if ragged and top + high > nq:
                    hx.copy(so, hx.global_view(rest, ((high, wide_v), (names, 1))))
                else:
                    hx.copy(so, hx.global_view(rest, ((high, wide_v), (hq * dv, 1))))

    return attention
