"""y_t = (sum over n of C_t[n] h_t[n] + D u_t) silu(z_t),  h_t = exp(dt_t A) h_(t-1) + dt_t u_t B_t.

A warp group helps those that walk: it turns tiles of BT steps into dt, dt u, B and C in f32, ahead
of them, and adds D and the gate to the y that they leave behind. So nothing stands between two
tiles for who walks, and the special functions of both run side by side.
"""

from __future__ import annotations

from functools import cache

import hexcute_core as hx
from hexcute_core import f32
from hexcute_kernels.scan import tiles as at
from hexcute_kernels.scan.walk import begun, evenly, finished, softplus, walked

b, g, d, length, sequences = hx.dims("b g d length sequences")


@hx.device
def every_tile(h, ra, ahead, pieces, behind, s_y, steps, tiles, left, even):
    """h after all tiles, of which `ahead` brings the pieces and `behind` takes y away."""
    for i in range(tiles):
        s = ahead.wait()
        tile = tuple(x[:, :, :, :, s] for x in pieces)
        rest = left - i * s_y.shape[3] if left is not None else None
        with behind.produce() as o:
            h = walked(h, ra, tile, s_y[:, :, :, :, o], steps, rest, even, hx.static_range)
        ahead.release()
    return h


@cache
def helped_scan_kernel(
    dtype: hx.DType, states: int, *, skips: bool = False, gated: bool = False, biased: bool = False,
    soft: bool = False, starts: bool = False, ends: bool = False, timed: bool = True,
    bc_timed: bool = True,
) -> hx.Kernel:  # fmt: skip
    """What `selective_scan_kernel` is, for sequences of one length."""
    many = dtype[b, g, d, length] if timed else dtype[b, length, g, d]
    shared = dtype[b, g, states, length] if bc_timed else dtype[b, length, g, states]
    channel, state = f32[g, d], f32[sequences, g, d, states]
    skip_type, bias_type = channel if skips else None, channel if biased else None
    z_type, start_type = many if gated else None, state if starts else None
    end_type = state if ends else None

    @hx.kernel
    def scan(
        u: many, delta: many, a: f32[g, d, states], bs: shared, cs: shared, skip: skip_type,
        z: z_type, bias: bias_type, start: start_type, out: many, end: end_type, *,
        BT: int = 16, EACH: int = 16, OWN: int = 1, RUN: int = 4, BLOCKS: int = 1,
    ):  # fmt: skip
        S = min(EACH, states)
        L, R = states // S, BT // RUN
        BD = 128 // L * OWN
        bd, group, which = hx.blockIdx.x * BD, hx.blockIdx.y, hx.blockIdx.z
        hx.attrs.cuda.grid_dim = hx.cdiv(d, BD), g, b
        hx.attrs.cuda.min_blocks = BLOCKS
        place, tiles = (which, group, bd), hx.cdiv(length, BT)
        s_dt, s_du = (hx.shared_tensor(f32, (BD, 1, 1, BT, 2)) for _ in range(2))
        s_b, s_c = (hx.shared_tensor(f32, (R, RUN, L, S, 2)) for _ in range(2))
        s_y = hx.shared_tensor(f32, (BD, L, 1, BT, 2))
        where = place, 0, timed, (BD, BT, tiles)
        when = place, 0, bc_timed, (R, RUN, L, S, tiles)
        gu, gd, go = (at.tiles_of(x, *where) for x in (u, delta, out))
        gz = at.tiles_of(z, *where) if gated else None
        gb, gc = (at.steps_of(x, *when) for x in (bs, cs))
        ahead, behind = hx.pipeline(2), hx.pipeline(2)

        with hx.warp_groups_producer():
            rskip = at.of_channels(skip, place, BD) if skips else 0.0
            rbias = at.of_channels(bias, place, BD) if biased else 0.0
            nu, nd, nz, ru, rz, pu, pz = (
                hx.register_tensor(dtype, (BD, 1, 1, BT)) for _ in range(7)
            )
            nb, nc = (hx.register_tensor(dtype, (R, RUN, L, S)) for _ in range(2))
            next = [(gu, nu), (gd, nd), (gb, nb), (gc, nc), *[(gz, nz)] * gated]
            for source, target in next:
                hx.copy(source[:, :, :, :, 0], target)
            for i in range(tiles + 1):
                if i < tiles:
                    dt = hx.cast(nd, f32)
                    if biased:
                        dt = dt + rbias
                    if soft:
                        dt = softplus(dt)
                    du, rb, rc = dt * hx.cast(nu, f32), hx.cast(nb, f32), hx.cast(nc, f32)
                    with ahead.produce() as s:
                        hx.copy(dt, s_dt[:, :, :, :, s])
                        hx.copy(du, s_du[:, :, :, :, s])
                        hx.copy(rb, s_b[:, :, :, :, s])
                        hx.copy(rc, s_c[:, :, :, :, s])
                hx.copy(nu, ru)
                if gated:
                    hx.copy(nz, rz)
                # The tile after the next arrives under the y of the one before.
                for source, target in next:
                    hx.copy(source[:, :, :, :, i + 1], target)
                if i > 0:
                    ry = hx.register_tensor(f32, (BD, L, 1, BT))
                    with behind.consume() as s:
                        hx.copy(s_y[:, :, :, :, s], ry)
                    result = hx.sum(ry, 1)
                    if skips:
                        result = result + hx.cast(pu, f32) * rskip
                    if gated:
                        result = finished(result, hx.cast(pz, f32))
                    hx.copy(hx.cast(result, dtype), go[:, :, :, :, i - 1])
                hx.copy(ru, pu)
                if gated:
                    hx.copy(rz, pz)

        with hx.warp_groups_consumer():
            ra, h = begun(a, start, which, place, (BD, L, S), 128)
            even = evenly(ra, hx.sync_role) if dtype.bits == 16 else 0
            pieces, left = (s_dt, s_du, s_b, s_c), length if ends else None
            if even == 1:
                h = every_tile(h, ra, ahead, pieces, behind, s_y, RUN, tiles, left, True)
            else:
                h = every_tile(h, ra, ahead, pieces, behind, s_y, RUN, tiles, left, False)
            if ends:
                hx.copy(h, hx.global_view(end[which, group, bd:, :], (h.shape, (states, S, 1))))

    return scan
