"""c = a b^T in FP8, with a scale for every 128 elements of a row of a, and one for every 128 x 128
of b.

Every product of 128 is added up by itself and then scaled into the sum, in f32. Before Hopper,
whose Tensor Cores take FP8, the numbers are widened to f16, which holds them all.
"""

import hexcute_core as hx
from hexcute_core import bf16, f8e4m3, f16, f32

m, n, k, g, gn = hx.dims("m n k g gn")
BK = 128


@hx.kernel
def fp8_gemm(
    a: f8e4m3[m, k], b: f8e4m3[n, k], a_scale: f32[m, g], b_scale: f32[gn, g], c: bf16[m, n],
    *, BM: int = 64, BN: int = 64,
) -> None:  # fmt: skip
    hx.attrs.cuda.grid_dim = hx.cdiv(m, BM), hx.cdiv(n, BN)
    hx.attrs.cuda.block_dim = 128
    bm, bn, tiles = hx.blockIdx.x * BM, hx.blockIdx.y * BN, hx.cdiv(k, BK)
    ga = hx.global_view(a[bm:, :], ((BM, BK, tiles), (k, 1, BK)))
    gb = hx.global_view(b[bn:, :], ((BN, BK, tiles), (k, 1, BK)))
    gs = hx.global_view(a_scale[bm:, :], ((BM, 1, tiles), (g, 1, 1)))
    rc = hx.register_tensor(f32, (BM, BN))
    hx.fill(rc, 0.0)
    for i in range(tiles):
        ra, rb = hx.register_tensor(f8e4m3, (BM, BK)), hx.register_tensor(f8e4m3, (BN, BK))
        scale, part = hx.register_tensor(f32, (BM, 1)), hx.register_tensor(f32, (BM, BN))
        hx.copy(ga[:, :, i], ra)
        hx.copy(gb[:, :, i], rb)
        hx.copy(gs[:, :, i], scale)
        hx.gemm(part, hx.cast(ra, f16), hx.cast(rb, f16), accumulate=False)
        rc += part * (scale * b_scale[bn // 128, i])
    hx.copy(hx.cast(rc, bf16), hx.global_view(c[bm:, bn:], ((BM, BN), (n, 1))))


@hx.kernel
def fp8_gemm_hopper(
    a: f8e4m3[m, k], b: f8e4m3[n, k], a_scale: f32[m, g], b_scale: f32[gn, g], c: bf16[m, n],
    *, BM: int = 128, BN: int = 64, STAGES: int = 3,
) -> None:  # fmt: skip
    hx.attrs.cuda.grid_dim = hx.cdiv(m, BM), hx.cdiv(n, BN)
    bm, bn, tiles = hx.blockIdx.x * BM, hx.blockIdx.y * BN, hx.cdiv(k, BK)
    ga = hx.global_view(a[bm:, :], ((BM, BK, tiles), (k, 1, BK)))
    gb = hx.global_view(b[bn:, :], ((BN, BK, tiles), (k, 1, BK)))
    gs = hx.global_view(a_scale[bm:, :], ((BM, 1, tiles), (g, 1, 1)))
    sa, sb = (hx.shared_tensor(f8e4m3, (rows, BK, STAGES)) for rows in (BM, BN))
    ss, sc = hx.shared_tensor(f32, (BM, 1, STAGES)), hx.shared_tensor(bf16, (BM, BN))
    pipe = hx.pipeline(STAGES)
    with hx.warp_groups_producer(registers=40):
        for i in range(tiles):
            with pipe.produce() as s:
                hx.copy(ga[:, :, i], sa[:, :, s])
                hx.copy(gb[:, :, i], sb[:, :, s])
                hx.copy(gs[:, :, i], ss[:, :, s])
    with hx.warp_groups_consumer(2, registers=232):
        rc = hx.register_tensor(f32, (BM, BN))
        hx.fill(rc, 0.0)
        for i in range(tiles):
            scale, part = hx.register_tensor(f32, (BM, 1)), hx.register_tensor(f32, (BM, BN))
            column = b_scale[bn // 128, i]
            with pipe.consume() as s:
                hx.gemm(part, sa[:, :, s], sb[:, :, s], accumulate=False)
                hx.copy(ss[:, :, s], scale)
            rc += part * (scale * column)
        hx.copy(hx.cast(rc, bf16), sc)
        hx.sync_role()
        hx.copy(sc, hx.global_view(c[bm:, bn:], ((BM, BN), (n, 1))))
