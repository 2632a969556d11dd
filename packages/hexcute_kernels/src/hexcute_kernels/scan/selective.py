"""y_t = (sum over n of C_t[n] h_t[n] + D u_t) silu(z_t),  h_t = exp(dt_t A) h_(t-1) + dt_t u_t B_t.

Time goes by tiles of BT steps, of which cp.async brings the next. All threads turn a tile into dt
and dt u, which depend on no state, and lay them and B and C into shared memory in f32. Then each
walks the tile with up to EACH states of OWN channels in registers; B and C, read once per step,
serve all of these. What the threads of a channel found meets in shared memory, and D and z come to
it.
"""

from __future__ import annotations

from functools import cache

import hexcute_core as hx
from hexcute_core import f32, i32
from hexcute_kernels.scan import tiles as at
from hexcute_kernels.scan.walk import begun, evenly, finished, softplus, walked

b, g, d, length, sequences, offsets = hx.dims("b g d length sequences offsets")


@cache
def selective_scan_kernel(
    dtype: hx.DType, states: int, *, skips: bool = False, gated: bool = False, biased: bool = False,
    soft: bool = False, starts: bool = False, ends: bool = False, ragged: bool = False,
    timed: bool = True, bc_timed: bool = True,
) -> hx.Kernel:  # fmt: skip
    """The kernel for `states` states per channel.

    `skips`: D u is added; `gated`: the result is multiplied by silu(z); `biased`: delta + bias is
    taken; `soft`: dt is softplus of that, else it is that. `starts`, `ends`: states are given, and
    given back. `ragged`: sequence s of the only batch is steps offset[s] to offset[s + 1].
    `timed`, `bc_timed`: steps lie side by side in memory, else channels, and states, do.
    Parameters of what is left out are left out.
    """
    many = dtype[b, g, d, length] if timed else dtype[b, length, g, d]
    shared = dtype[b, g, states, length] if bc_timed else dtype[b, length, g, states]
    channel, state = f32[g, d], f32[sequences, g, d, states]
    skip_type, bias_type = channel if skips else None, channel if biased else None
    z_type, offset_type = many if gated else None, i32[offsets] if ragged else None
    start_type, end_type = state if starts else None, state if ends else None

    @hx.kernel
    def scan(
        u: many, delta: many, a: f32[g, d, states], bs: shared, cs: shared, skip: skip_type,
        z: z_type, bias: bias_type, start: start_type, offset: offset_type, out: many,
        end: end_type, *, BD: int = 64, BT: int = 16, EACH: int = 16, OWN: int = 2, RUN: int = 4,
        WARPS: int = 0,
    ):  # fmt: skip
        S = min(EACH, states)
        L, R = states // S, BT // RUN
        BD = max(BD, 32 * OWN // L)  # whole warps
        N = BD // OWN
        bd, group, which = hx.blockIdx.x * BD, hx.blockIdx.y, hx.blockIdx.z
        hx.attrs.cuda.grid_dim = hx.cdiv(d, BD), g, offsets - 1 if ragged else b
        hx.attrs.cuda.block_dim = N * L
        hx.attrs.cuda.min_blocks = max(1, 32 * WARPS // (N * L))
        begin, count, place = 0, length, (which, group, bd)
        if ragged:
            begin, place = offset[which], (0, group, bd)
            count = offset[which + 1] - begin
        tiles = hx.cdiv(count, BT)
        ra, h = begun(a, start, which, place, (BD, L, S), N * L)
        rskip = at.of_channels(skip, place, BD) if skips else 0.0
        rbias = at.of_channels(bias, place, BD) if biased else 0.0
        # u and z are read when the next tile is on its way, the others only before.
        su, sz = (hx.shared_tensor(dtype, (BD, 1, 1, BT, 2)) for _ in range(2))
        sd = hx.shared_tensor(dtype, (BD, 1, 1, BT, 1))
        sb, sc = (hx.shared_tensor(dtype, (R, RUN, L, S, 1)) for _ in range(2))
        s_dt, s_du = (hx.shared_tensor(f32, (BD, 1, 1, BT)) for _ in range(2))
        s_b, s_c = (hx.shared_tensor(f32, (R, RUN, L, S)) for _ in range(2))
        s_y, numbers = hx.shared_tensor(f32, (BD, L, 1, BT)), hx.shared_tensor(i32, (BT,))
        where = place, begin, timed, (BD, BT, tiles)
        when = place, begin, bc_timed, (R, RUN, L, S, tiles)
        loads = [(at.tiles_of(u, *where), su), (at.tiles_of(delta, *where), sd)]
        loads += [(at.steps_of(bs, *when), sb), (at.steps_of(cs, *when), sc)]
        loads += [(at.tiles_of(z, *where), sz)] if gated else []
        go = at.tiles_of(out, *where)
        if ragged:
            go = at.rows_of(out, place, timed, (BD, BT), numbers)
        at.bring(loads, 0)
        even = evenly(ra, hx.syncthreads) if dtype.bits == 16 else 0
        for i in range(tiles):
            hx.cp_async_wait(0)
            hx.syncthreads()
            dt, rb = at.brought(sd, i), at.brought(sb, i)
            if biased:
                dt = dt + rbias
            if soft:
                dt = softplus(dt)
            if ragged:
                # What follows is another sequence's.
                number = i * BT + hx.iota((BT,), 0)
                hx.copy(hx.where(number < count, begin + number, -1), numbers)
            if ragged and ends:
                number = i * BT + RUN * hx.iota((R, 1, 1, 1), 0) + hx.iota((1, RUN, 1, 1), 1)
                rb = hx.where(number < count, rb, 0.0)
            hx.copy(dt, s_dt)
            hx.copy(dt * at.brought(su, i), s_du)
            hx.copy(rb, s_b)
            hx.copy(at.brought(sc, i), s_c)
            hx.syncthreads()
            at.bring(loads, i + 1)
            tile, left = (s_dt, s_du, s_b, s_c), count - i * BT if ends else None
            if even == 1:
                h = walked(h, ra, tile, s_y, RUN, left, True, range)
            else:
                h = walked(h, ra, tile, s_y, RUN, left, False, range)
            hx.syncthreads()
            ry = hx.register_tensor(f32, (BD, L, 1, BT))
            hx.copy(s_y, ry)
            result = hx.sum(ry, 1)
            if skips:
                result = result + at.brought(su, i) * rskip
            if gated:
                result = finished(result, at.brought(sz, i))
            hx.copy(hx.cast(result, dtype), go if ragged else go[:, :, :, :, i])
        if ends:
            hx.copy(h, hx.global_view(end[which, group, bd:, :], (h.shape, (states, S, 1))))

    return scan
