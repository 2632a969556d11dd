"""o = softmax(scale q k^T) v of one query head a block, heads of k and v shared by several of q.

`last` keys are seen by a block of queries: all, or with `causal` those up to its own last. P goes
from the first product to the second in the registers where it is.
"""

from typing import Any

import hexcute_core as hx
from hexcute_core import f16, f32

b, hq, hk, sq, sk = hx.dims("b hq hk sq sk")
LOG2_E = 1.4426950408889634


@hx.device
def weighed(
    rs: hx.Tile, top: hx.Tile, total: hx.Tile, scale: float, row: Any, column: Any, last: Any,
    causal: bool,
) -> Any:  # fmt: skip
    """(weights, maxima, sums, factor for what was summed before) of one tile of scores, which
    begins at `row` and `column`."""
    rs = rs * (scale * LOG2_E)
    at = column + hx.iota((1, rs.shape[1]), 1)
    rs = hx.where(at < last, rs, -1e30)
    if causal:
        rs = hx.where(at <= row + hx.iota((rs.shape[0], 1), 0), rs, -1e30)
    higher = hx.maximum(top, hx.max(rs, 1))
    weights, before = hx.exp2(rs - higher), hx.exp2(top - higher)
    return weights, higher, total * before + hx.sum(weights, 1), before


def attention(D: int, causal: bool) -> hx.Kernel:
    """The kernel for heads of `D` elements."""

    @hx.kernel
    def attention(
        q: f16[b, hq, sq, D], k: f16[b, hk, sk, D], v: f16[b, hk, sk, D], o: f16[b, hq, sq, D],
        scale: f32, *, BM: int = 64, BN: int = 64,
    ) -> None:  # fmt: skip
        hx.attrs.cuda.grid_dim = hx.cdiv(sq, BM), hq, b
        hx.attrs.cuda.block_dim = 128
        bm, head, z = hx.blockIdx.x * BM, hx.blockIdx.y, hx.blockIdx.z
        last = hx.minimum(sk, bm + BM) if causal else sk
        tiles, shared_head = hx.cdiv(last, BN), head // (hq // hk)
        gk = hx.global_view(k[z, shared_head, :, :], ((BN, D, tiles), (D, 1, BN * D)))
        gv = hx.global_view(v[z, shared_head, :, :], ((D, BN, tiles), (1, D, BN * D)))
        tk, tv = hx.shared_tensor(f16, (BN, D)), hx.shared_tensor(f16, (D, BN))
        rq, ro = hx.register_tensor(f16, (BM, D)), hx.register_tensor(f32, (BM, D))
        top, total = hx.register_tensor(f32, (BM, 1)), hx.register_tensor(f32, (BM, 1))
        hx.copy(hx.global_view(q[z, head, bm:, :], ((BM, D), (D, 1))), rq)
        hx.fill(ro, 0.0)
        hx.fill(top, -1e30)
        hx.fill(total, 0.0)
        for i in range(tiles):
            hx.copy(gk[:, :, i], tk)
            hx.copy(gv[:, :, i], tv)
            hx.syncthreads()
            rk, rv = hx.register_tensor(f16, (BN, D)), hx.register_tensor(f16, (D, BN))
            rs = hx.register_tensor(f32, (BM, BN))
            hx.copy(tk, rk)
            hx.copy(tv, rv)
            # Whole rows a warp, so that P is where the second product wants it.
            hx.gemm(rs, rq, rk, warps=(4, 1), accumulate=False)
            rp, top, total, before = weighed(rs, top, total, scale, bm, i * BN, last, causal)
            ro = ro * before
            hx.gemm(ro, hx.cast(rp, f16), rv, warps=(4, 1))
            hx.syncthreads()
        result = hx.cast(ro / total, f16)
        hx.copy(result, hx.global_view(o[z, head, bm:, :], ((BM, D), (D, 1))))

    return attention


def attention_hopper(D: int, causal: bool) -> hx.Kernel:
    """The same where one warp group has TMA fill slots with keys and values, and two multiply."""

    @hx.kernel
    def attention(
        q: f16[b, hq, sq, D], k: f16[b, hk, sk, D], v: f16[b, hk, sk, D], o: f16[b, hq, sq, D],
        scale: f32, *, BM: int = 128, BN: int = 64, STAGES: int = 2,
    ) -> None:  # fmt: skip
        hx.attrs.cuda.grid_dim = hx.cdiv(sq, BM), hq, b
        bm, head, z = hx.blockIdx.x * BM, hx.blockIdx.y, hx.blockIdx.z
        last = hx.minimum(sk, bm + BM) if causal else sk
        tiles, shared_head = hx.cdiv(last, BN), head // (hq // hk)
        gk = hx.global_view(k[z, shared_head, :, :], ((BN, D, tiles), (D, 1, BN * D)))
        gv = hx.global_view(v[z, shared_head, :, :], ((D, BN, tiles), (1, D, BN * D)))
        tq, so = hx.shared_tensor(f16, (BM, D)), hx.shared_tensor(f16, (BM, D))
        tk, tv = hx.shared_tensor(f16, (BN, D, STAGES)), hx.shared_tensor(f16, (D, BN, STAGES))
        once, keys, values = hx.pipeline(1), hx.pipeline(STAGES), hx.pipeline(STAGES)
        with hx.warp_groups_producer(registers=24):
            with once.produce():
                hx.copy(hx.global_view(q[z, head, bm:, :], ((BM, D), (D, 1))), tq)
            for i in range(tiles):
                with keys.produce() as s:
                    hx.copy(gk[:, :, i], tk[:, :, s])
                with values.produce() as s:
                    hx.copy(gv[:, :, i], tv[:, :, s])
        with hx.warp_groups_consumer(2, registers=240):
            ro = hx.register_tensor(f32, (BM, D))
            top, total = hx.register_tensor(f32, (BM, 1)), hx.register_tensor(f32, (BM, 1))
            hx.fill(ro, 0.0)
            hx.fill(top, -1e30)
            hx.fill(total, 0.0)
            once.wait()
            for i in range(tiles):
                rs = hx.register_tensor(f32, (BM, BN))
                with keys.consume() as s:
                    hx.gemm(rs, tq, tk[:, :, s], accumulate=False)
                rp, top, total, before = weighed(rs, top, total, scale, bm, i * BN, last, causal)
                ro = ro * before
                with values.consume() as s:
                    hx.gemm(ro, hx.cast(rp, f16), tv[:, :, s])
            once.release()
            hx.copy(hx.cast(ro / total, f16), so)
            hx.sync_role()
            hx.copy(so, hx.global_view(o[z, head, bm:, :], ((BM, D), (D, 1))))

    return attention
