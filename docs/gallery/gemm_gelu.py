"""c = gelu(a b^T + bias), a [m, k] and b [n, k].

Twice: for any GPU, where the threads of a block copy ahead by cp.async and multiply, and for
Hopper, where one warp group has TMA fill slots and two others multiply straight from them.
"""

from typing import Any

import hexcute_core as hx
from hexcute_core import bf16, f32

m, n, k = hx.dims("m n k")


@hx.device
def finished(rc: hx.Tile, bias: hx.Param, bn: Any) -> Any:
    """gelu(rc + bias), as bf16."""
    rb = hx.register_tensor(bf16, (1, rc.shape[1]))
    hx.copy(hx.global_view(bias[bn:], ((1, rc.shape[1]), (0, 1))), rb)
    t = rc + hx.cast(rb, f32)
    return hx.cast(0.5 * t * (1.0 + hx.erf(t * 0.7071067811865476)), bf16)


@hx.kernel
def gemm_gelu(
    a: bf16[m, k], b: bf16[n, k], bias: bf16[n], c: bf16[m, n],
    *, BM: int = 64, BN: int = 64, BK: int = 32, STAGES: int = 3,
) -> None:  # fmt: skip
    hx.attrs.cuda.grid_dim = hx.cdiv(m, BM), hx.cdiv(n, BN)
    hx.attrs.cuda.block_dim = 128
    bm, bn, tiles = hx.blockIdx.x * BM, hx.blockIdx.y * BN, hx.cdiv(k, BK)
    ga = hx.global_view(a[bm:, :], ((BM, BK, tiles), (k, 1, BK)))
    gb = hx.global_view(b[bn:, :], ((BN, BK, tiles), (k, 1, BK)))
    sa, sb = hx.shared_tensor(bf16, (BM, BK, STAGES)), hx.shared_tensor(bf16, (BN, BK, STAGES))
    rc = hx.register_tensor(f32, (BM, BN))
    hx.fill(rc, 0.0)
    for i in hx.static_range(STAGES - 1):
        hx.copy(ga[:, :, i], sa[:, :, i])
        hx.copy(gb[:, :, i], sb[:, :, i])
        hx.cp_async_commit()
    for i in range(tiles):
        # The oldest tile has come, and all are done with the one before: its slot is free.
        hx.cp_async_wait(STAGES - 2)
        hx.syncthreads()
        ahead = i + STAGES - 1
        hx.copy(ga[:, :, ahead], sa[:, :, ahead % STAGES])
        hx.copy(gb[:, :, ahead], sb[:, :, ahead % STAGES])
        hx.cp_async_commit()
        ra, rb = hx.register_tensor(bf16, (BM, BK)), hx.register_tensor(bf16, (BN, BK))
        hx.copy(sa[:, :, i % STAGES], ra)
        hx.copy(sb[:, :, i % STAGES], rb)
        hx.gemm(rc, ra, rb)
    hx.copy(finished(rc, bias, bn), hx.global_view(c[bm:, bn:], ((BM, BN), (n, 1))))


@hx.kernel
def gemm_gelu_hopper(
    a: bf16[m, k], b: bf16[n, k], bias: bf16[n], c: bf16[m, n],
    *, BM: int = 128, BN: int = 64, BK: int = 64, STAGES: int = 3,
) -> None:  # fmt: skip
    hx.attrs.cuda.grid_dim = hx.cdiv(m, BM), hx.cdiv(n, BN)
    bm, bn, tiles = hx.blockIdx.x * BM, hx.blockIdx.y * BN, hx.cdiv(k, BK)
    ga = hx.global_view(a[bm:, :], ((BM, BK, tiles), (k, 1, BK)))
    gb = hx.global_view(b[bn:, :], ((BN, BK, tiles), (k, 1, BK)))
    sa, sb = hx.shared_tensor(bf16, (BM, BK, STAGES)), hx.shared_tensor(bf16, (BN, BK, STAGES))
    sc, pipe = hx.shared_tensor(bf16, (BM, BN)), hx.pipeline(STAGES)
    with hx.warp_groups_producer(registers=40):
        for i in range(tiles):
            with pipe.produce() as s:
                hx.copy(ga[:, :, i], sa[:, :, s])
                hx.copy(gb[:, :, i], sb[:, :, s])
    with hx.warp_groups_consumer(2, registers=232):
        rc = hx.register_tensor(f32, (BM, BN))
        hx.fill(rc, 0.0)
        for i in range(tiles):
            s = pipe.wait()
            hx.gemm(rc, sa[:, :, s], sb[:, :, s], asynchronous=True)
            if i > 0:
                # One product stays in flight; the slot of the one before is read.
                hx.wait_gemm(1)
                pipe.release()
        hx.wait_gemm(0)
        hx.copy(finished(rc, bias, bn), sc)
        hx.sync_role()
        hx.copy(sc, hx.global_view(c[bm:, bn:], ((BM, BN), (n, 1))))
