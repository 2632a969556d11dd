"""h = exp(dt A) h + dt x B along time, y = sum of C h + skip x: Mamba's selective scan.

Time is cut into tiles of BL steps, scanned at once: one step is the pair (factor, term), two steps
one after the other are a pair again. The state goes from tile to tile in registers.
"""

import hexcute_core as hx
from hexcute_core import f32

batch, length, channels = hx.dims("batch length channels")


def after(
    first_factor: float, first_term: float, factor: float, term: float
) -> tuple[float, float]:
    """Two steps as one."""
    return first_factor * factor, factor * first_term + term


def selective_scan(N: int) -> hx.Kernel:
    """The kernel for states of `N` numbers a channel."""

    @hx.kernel
    def selective_scan(
        x: f32[batch, length, channels], dt: f32[batch, length, channels], A: f32[channels, N],
        B: f32[batch, length, N], C: f32[batch, length, N], skip: f32[channels],
        y: f32[batch, length, channels], *, BD: int = 4, BL: int = 32,
    ) -> None:  # fmt: skip
        hx.attrs.cuda.grid_dim = hx.cdiv(channels, BD), batch
        hx.attrs.cuda.block_dim = 128
        bd, z, tiles = hx.blockIdx.x * BD, hx.blockIdx.y, hx.cdiv(length, BL)
        # Tiles are (channel, time, state); what lacks one of them has extent 1 there.
        over_time = (BD, BL, 1, tiles), (1, channels, 0, BL * channels)
        of_state = (1, BL, N, tiles), (0, N, 1, BL * N)
        gx, gdt, gy = (hx.global_view(t[z, :, bd:], over_time) for t in (x, dt, y))
        gb, gc = (hx.global_view(t[z, :, :], of_state) for t in (B, C))
        ra, rskip = hx.register_tensor(f32, (BD, 1, N)), hx.register_tensor(f32, (BD, 1, 1))
        hx.copy(hx.global_view(A[bd:, :], ((BD, 1, N), (N, 0, 1))), ra)
        hx.copy(hx.global_view(skip[bd:], ((BD, 1, 1), (1, 0, 0))), rskip)
        state = hx.register_tensor(f32, (BD, 1, N))
        hx.fill(state, 0.0)
        for i in range(tiles):
            rx, rdt = hx.register_tensor(f32, (BD, BL, 1)), hx.register_tensor(f32, (BD, BL, 1))
            rb, rc = hx.register_tensor(f32, (1, BL, N)), hx.register_tensor(f32, (1, BL, N))
            for view, tile in (gx, rx), (gdt, rdt), (gb, rb), (gc, rc):
                hx.copy(view[:, :, :, i], tile)
            factors, h = hx.scan((hx.exp(rdt * ra), rdt * rx * rb), 1, after)
            h = h + factors * state
            hx.copy(hx.sum(h * rc, 2) + rx * rskip, gy[:, :, :, i])
            # Beyond the end dt is 0: factors are 1, terms 0, and the state stays what it was.
            state = hx.sum(hx.where(hx.iota((1, BL, 1), 1) == BL - 1, h, 0.0), 1)

    return selective_scan
