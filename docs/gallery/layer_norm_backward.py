"""The gradients of y = (x - mean) rstd gamma + beta: dx by rows, dgamma and dbeta by columns.

The sums along columns are taken in two kernels, first of every so many rows by each of `parts`
blocks, then of what these found.
"""

import hexcute_core as hx
from hexcute_core import f16, f32

m, n, parts = hx.dims("m n parts")


@hx.kernel
def gradient_of_rows(
    x: f16[m, n], dy: f16[m, n], gamma: f16[n], mean: f32[m], rstd: f32[m], dx: f16[m, n],
    *, BM: int = 4, BN: int = 512,
) -> None:  # fmt: skip
    hx.attrs.cuda.grid_dim = hx.cdiv(m, BM)
    hx.attrs.cuda.block_dim = 128
    bm = hx.blockIdx.x * BM
    hx.device_assert(n <= BN, "BN is shorter than a row")
    rx, rdy = hx.register_tensor(f16, (BM, BN)), hx.register_tensor(f16, (BM, BN))
    rg = hx.register_tensor(f16, (1, BN))
    rm, rr = hx.register_tensor(f32, (BM, 1)), hx.register_tensor(f32, (BM, 1))
    hx.copy(hx.global_view(x[bm:, :], ((BM, BN), (n, 1))), rx)
    hx.copy(hx.global_view(dy[bm:, :], ((BM, BN), (n, 1))), rdy)
    hx.copy(hx.global_view(gamma, ((1, BN), (0, 1))), rg)
    hx.copy(hx.global_view(mean[bm:], ((BM, 1), (1, 0))), rm)
    hx.copy(hx.global_view(rstd[bm:], ((BM, 1), (1, 0))), rr)
    normal = (hx.cast(rx, f32) - rm) * rr
    wdy = hx.cast(rdy, f32) * hx.cast(rg, f32)  # Zero beyond the row, so both sums are right.
    length = hx.cast(n, f32)
    along, across = hx.sum(normal * wdy, 1) / length, hx.sum(wdy, 1) / length
    result = hx.cast((wdy - (normal * along + across)) * rr, f16)
    hx.copy(result, hx.global_view(dx[bm:, :], ((BM, BN), (n, 1))))


@hx.kernel
def gradient_of_weights(
    x: f16[m, n], dy: f16[m, n], mean: f32[m], rstd: f32[m], dgamma: f32[parts, n],
    dbeta: f32[parts, n], *, BM: int = 16, BN: int = 64,
) -> None:  # fmt: skip
    hx.attrs.cuda.grid_dim = hx.cdiv(n, BN), parts
    hx.attrs.cuda.block_dim = 128
    bn, part, tiles = hx.blockIdx.x * BN, hx.blockIdx.y, hx.cdiv(m, BM)
    gx, gdy = (hx.global_view(t[:, bn:], ((BM, BN, tiles), (n, 1, BM * n))) for t in (x, dy))
    gm, gr = (hx.global_view(t, ((BM, 1, tiles), (1, 0, BM))) for t in (mean, rstd))
    gamma, beta = hx.register_tensor(f32, (BM, BN)), hx.register_tensor(f32, (BM, BN))
    hx.fill(gamma, 0.0)
    hx.fill(beta, 0.0)
    for i in range(part, tiles, parts):
        rx, rdy = hx.register_tensor(f16, (BM, BN)), hx.register_tensor(f16, (BM, BN))
        rm, rr = hx.register_tensor(f32, (BM, 1)), hx.register_tensor(f32, (BM, 1))
        for view, tile in (gx, rx), (gdy, rdy), (gm, rm), (gr, rr):
            hx.copy(view[:, :, i], tile)
        beta += hx.cast(rdy, f32)
        gamma += hx.cast(rdy, f32) * ((hx.cast(rx, f32) - rm) * rr)
    hx.copy(hx.sum(gamma, 0), hx.global_view(dgamma[part:, bn:], ((1, BN), (n, 1))))
    hx.copy(hx.sum(beta, 0), hx.global_view(dbeta[part:, bn:], ((1, BN), (n, 1))))


@hx.kernel
def add_parts(p: f32[parts, n], total: f16[n], *, BM: int = 16, BN: int = 64) -> None:
    hx.attrs.cuda.grid_dim = hx.cdiv(n, BN)
    hx.attrs.cuda.block_dim = 128
    bn, tiles = hx.blockIdx.x * BN, hx.cdiv(parts, BM)
    gp = hx.global_view(p[:, bn:], ((BM, BN, tiles), (n, 1, BM * n)))
    sums = hx.register_tensor(f32, (BM, BN))
    hx.fill(sums, 0.0)
    for i in range(tiles):
        r = hx.register_tensor(f32, (BM, BN))
        hx.copy(gp[:, :, i], r)
        sums += r
    hx.copy(hx.cast(hx.sum(sums, 0), f16), hx.global_view(total[bn:], ((1, BN), (0, 1))))
